"""Marker files: abort, epoch file."""

from collections.abc import Callable

import pytest

from broker.errors import RemoteProtocolError
from broker.store.format.state import (
    Epoch,
    decode_abort,
    decode_epochs,
    encode_abort,
    encode_epochs,
)


def test_abort_holds_a_process_id_or_nothing() -> None:
    assert encode_abort() == b""
    assert encode_abort(4242) == b"4242"
    assert decode_abort(b"") is None
    assert decode_abort(b"4242\n") == 4242
    assert decode_abort(b"junk") is None


def test_the_epoch_file_is_that_of_java(vectors: dict) -> None:
    vector = vectors["epoch_file"]
    epochs = [Epoch(*entry) for entry in vector["entries"]]
    assert encode_epochs(epochs).decode() == vector["text"]
    assert decode_epochs(vector["text"].encode()) == epochs


def test_a_broken_epoch_file_is_refused(every_cut: Callable[..., list[int]]) -> None:
    data = encode_epochs([Epoch(2, 0), Epoch(3, 4096)])
    assert every_cut(decode_epochs, data) == []
    assert decode_epochs(b"1\n0\n2-0\n") == [Epoch(2, 0)]  # CRC 0 is not checked
    for broken in (
        *(b"1\n0\n2-0\n3-1\n", b"1\n0\n2:0\n", b"x\n0\n", b"1\n7\n2-0\n", b"1\n0\n2--5\n"),
        *(b"9" * 5_000 + b"\n0\n2-0\n", b"1\n0\n2-" + b"9" * 5_000 + b"\n", b"-1\n0\n"),
    ):
        with pytest.raises(RemoteProtocolError):
            decode_epochs(broken)
