"""Bodies of op records of both releases."""

import pytest

from broker.common.topic import TRANS_HALF_TOPIC
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.transaction import check_times, decode_op_body, real_place


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"17", [17]),
        (b"17,19,", [17, 19]),
        (b"0,1,5,6,10,", [0, 1, 5, 6, 10]),
        (b"", []),
        (b",,", []),
        (b"x,3,-4,99999999999999999999,", [3]),
    ],
)
def test_both_forms_of_op_bodies_are_read(body: bytes, expected: list[int]) -> None:
    assert decode_op_body(body) == expected


def half(**properties: str) -> MessageExt:
    return MessageExt(TRANS_HALF_TOPIC, b"", encode_properties(properties))


@pytest.mark.parametrize(
    ("topic", "queue_id", "place"),
    [
        ("T", "3", ("T", 3)),
        ("T", "0", ("T", 0)),
        ("T", "-1", None),
        ("T", "2147483648", None),
        ("T", "x", None),
        ("T", "9" * 5_000, None),
        (TRANS_HALF_TOPIC, "0", None),
    ],
)
def test_a_half_message_names_its_real_queue_or_none(
    topic: str, queue_id: str, place: tuple[str, int] | None
) -> None:
    """A half message of the half topic would be stored as half message again, without end."""
    assert real_place(half(REAL_TOPIC=topic, REAL_QID=queue_id)) == place


def test_a_half_message_without_topic_or_queue_has_no_place() -> None:
    assert real_place(half(REAL_TOPIC="T")) is None
    assert real_place(half(REAL_QID="1")) is None
    assert real_place(MessageExt("T", b"", b"REAL_TOPIC\x01\xff\x02REAL_QID\x011\x02")) is None


@pytest.mark.parametrize(
    ("text", "times"), [("0", 0), ("15", 15), ("x", -1), ("9" * 30, -1), ("-3", -3)]
)
def test_checks_are_counted_and_an_invalid_count_is_not_zero(text: str, times: int) -> None:
    """Zero would start the checks of a damaged message again and again."""
    assert check_times(half(TRANSACTION_CHECK_TIMES=text)) == times
    assert check_times(half()) is None


def test_a_body_of_any_bytes_gives_offsets_that_a_queue_can_have(rng) -> None:
    for _ in range(500):
        body = bytes(rng.choices(b"0123456789,,-+ x\xff", k=rng.randint(0, 60)))
        assert all(0 <= offset < 1 << 63 for offset in decode_op_body(body))
    offsets = sorted(rng.randrange(1 << 40) for _ in range(50))
    body = b"".join(b"%d," % offset for offset in offsets)
    assert decode_op_body(body) == decode_op_body(body[:-1]) == offsets
