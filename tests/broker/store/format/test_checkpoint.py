"""The store checkpoint."""

from collections.abc import Callable

from broker.store.format.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint


def test_the_checkpoint_is_that_of_java(vectors: dict) -> None:
    vector = vectors["checkpoint"]
    value = Checkpoint(*vector["fields"].values())
    data = encode_checkpoint(value)
    assert data[:40].hex() == vector["first_40_bytes_hex"]
    assert len(data) == vector["file_length"]
    assert decode_checkpoint(data) == value
    assert value.min_timestamp == vector["min_timestamp"]
    assert value.min_timestamp_index == vector["min_timestamp_index"]


def test_no_time_lies_before_zero() -> None:
    assert Checkpoint(2999, 5000).min_timestamp == 0
    assert Checkpoint(10_000, 5000, 1).min_timestamp_index == 1


def test_a_short_file_is_refused(every_cut: Callable[..., list[int]]) -> None:
    data = encode_checkpoint(Checkpoint(1, 2, 3))
    assert every_cut(decode_checkpoint, data[:60]) == list(range(40, 60))
