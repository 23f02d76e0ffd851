"""Recall handles: Java's bytes, and everything that is not one."""

import base64

import pytest

from broker.errors import RemoteProtocolError
from broker.message.recall_handle import RecallHandle, decode_recall_handle, encode_recall_handle

# built by the RecallMessageHandle class of 5.3.3
TEXT = "djEgVDEgYi1hIDE3MDAwMDAwMDAwMDEgQUMxMTAwMDEwMDAxMkExMzlBNTUxOEI0QUFDMjAwMDA="
HANDLE = RecallHandle("T1", "b-a", "1700000000001", "AC11000100012A139A5518B4AAC20000")


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_handles_are_those_of_java() -> None:
    assert encode_recall_handle(HANDLE) == TEXT
    assert decode_recall_handle(TEXT) == HANDLE


def test_padding_may_be_absent_and_further_fields_are_ignored() -> None:
    assert decode_recall_handle(TEXT.rstrip("=")) == HANDLE
    assert decode_recall_handle(encoded("v1 T b 5 K more")) == RecallHandle("T", "b", "5", "K")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not base64!",
        "äöü",
        "A",
        TEXT + "=",
        encoded("v2 T1 b-a 1700000000001 K"),
        encoded("v1 T1 b-a 1700000000001"),
        encoded("v1 T1 b-a 1700000000001 "),
        encoded(""),
        encoded(" "),
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_recall_handle(text)


def test_every_cut_is_refused_or_gives_another_handle() -> None:
    for end in range(len(TEXT)):
        try:
            handle = decode_recall_handle(TEXT[:end])
        except RemoteProtocolError:
            continue
        assert handle == HANDLE or handle.uniq_key != HANDLE.uniq_key
