"""Rules of timer messages as pure functions, with the records of the Java classes."""

import pytest

from broker.common.topic import TIMER_TOPIC
from broker.errors import RemoteProtocolError
from broker.message.message import MessageExt
from broker.message.properties import decode_properties, encode_properties
from broker.message.record import encode_record
from broker.store.timer.timer_message import (
    TimerMessage,
    decode_timer_message,
    deliver_time,
    identity,
    is_timer_request,
    record_topic,
    restored,
    rolled,
    slot_time,
)

NOW_MS = 1_700_000_000_000
PROPERTIES = {
    "UNIQ_KEY": "K",
    "TIMER_DELIVER_MS": "1700000090000",
    "TIMER_OUT_MS": "1700000089000",
    "REAL_TOPIC": "Orders",
    "REAL_QID": "3",
}


def record(properties: dict[str, str], body: bytes = b"body") -> memoryview:
    message = MessageExt(topic=TIMER_TOPIC, body=body)
    message.born_host_raw = message.store_host_raw = b"\x7f\0\0\1\0\0\0\0"
    message.properties_raw = encode_properties(properties)
    return memoryview(encode_record(message))


def message_of(**changes: str) -> TimerMessage:
    properties = {**PROPERTIES, **changes}
    return decode_timer_message(record({k: v for k, v in properties.items() if v}))


@pytest.mark.parametrize(
    ("deliver_ms", "slot_ms"),
    [(90_000, 89_000), (90_001, 90_000), (90_999, 90_000), (91_000, 90_000)],
)
def test_exact_multiple_belongs_to_the_slot_before(deliver_ms: int, slot_ms: int) -> None:
    assert slot_time(deliver_ms, 1_000) == slot_ms
    assert slot_ms + 1_000 >= deliver_ms


@pytest.mark.parametrize(
    ("properties", "time_ms"),
    [
        ({"TIMER_DELAY_SEC": "5"}, NOW_MS + 5_000),
        ({"TIMER_DELAY_MS": "-5"}, NOW_MS - 5),
        ({"TIMER_DELIVER_MS": "7"}, 7),
        ({"TIMER_DELAY_SEC": "9223372036854775807"}, NOW_MS - 1_000),
        ({"TIMER_DELAY_SEC": "x", "TIMER_DELIVER_MS": "7"}, None),
        ({}, None),
    ],
)
def test_delivery_time_follows_javas_arithmetic(
    properties: dict[str, str], time_ms: int | None
) -> None:
    assert deliver_time(properties, NOW_MS) == time_ms


def test_delivered_copy_and_timer_topic_are_not_delayed_again() -> None:
    assert is_timer_request("Orders", {"TIMER_DELAY_MS": "5"})
    assert not is_timer_request("Orders", {"TIMER_DELAY_MS": "5", "TIMER_OUT_MS": "5"})
    assert not is_timer_request(TIMER_TOPIC, {"TIMER_DELAY_MS": "5"})
    assert not is_timer_request("Orders", {"TIMER_DEL_UNIQKEY": "K"})


def test_every_cut_of_a_record_is_refused() -> None:
    whole = record(PROPERTIES)
    for end in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            decode_timer_message(whole[:end])


@pytest.mark.parametrize("name", ["TIMER_OUT_MS", "REAL_TOPIC", "REAL_QID"])
def test_missing_property_is_named(name: str) -> None:
    with pytest.raises(RemoteProtocolError, match=name):
        message_of(**{name: ""})


def test_restored_copy_has_the_times_once() -> None:
    inner = restored(message_of(TIMER_ENQUEUE_MS="1", TIMER_DEQUEUE_MS="2"), 10, 20)
    assert (inner.topic, inner.queue_id, bytes(inner.body)) == ("Orders", 3, b"body")
    assert bytes(inner.properties).count(b"TIMER_ENQUEUE_MS") == 1
    assert decode_properties(bytes(inner.properties)) == {
        **PROPERTIES,
        "TIMER_ENQUEUE_MS": "10",
        "TIMER_DEQUEUE_MS": "20",
    }


def test_rolled_copy_stays_in_the_timer_topic_and_counts_its_rounds() -> None:
    message = message_of()
    for rounds in range(1, 4):
        inner = rolled(message, 10, 20, message.out_ms)
        assert (inner.topic, inner.queue_id) == (TIMER_TOPIC, 0)
        properties = decode_properties(bytes(inner.properties))
        assert properties["TIMER_ROLL_TIMES"] == str(rounds)
        message = decode_timer_message(record(properties))
        assert message.roll_times == rounds


def test_rolled_copy_takes_an_earlier_slot_only() -> None:
    message = message_of()
    earlier = rolled(message, 10, 20, message.out_ms - 5_000)
    later = rolled(message, 10, 20, message.out_ms + 5_000)
    for inner, out_ms in ((earlier, message.out_ms - 5_000), (later, message.out_ms)):
        properties = decode_properties(bytes(inner.properties))
        assert properties["TIMER_OUT_MS"] == str(out_ms)


def test_topic_that_is_not_utf8_cannot_be_delivered() -> None:
    message = message_of()._replace(real_topic=b"\xff\xfe")
    with pytest.raises(RemoteProtocolError, match="UTF-8"):
        restored(message, 1, 2)


def test_copies_are_recognised_by_their_identity() -> None:
    message = message_of()
    copy = message_of(TIMER_ENQUEUE_MS="1", TIMER_DEQUEUE_MS="2")
    assert identity(message, b"Orders", 0) == identity(copy, b"Orders", 0)
    others = [
        identity(message, b"Orders", 1),
        identity(message, TIMER_TOPIC.encode(), 0),
        identity(message_of(UNIQ_KEY="L"), b"Orders", 0),
        identity(message_of(REAL_QID="4"), b"Orders", 0),
    ]
    assert len({identity(message, b"Orders", 0), *others}) == 5


def test_topic_of_a_record() -> None:
    message = message_of()
    assert record_topic(message.record, message.head) == TIMER_TOPIC.encode()


def test_recalls_and_relative_delays_are_recognised() -> None:
    assert message_of(TIMER_DEL_UNIQKEY="Orders+K").deletes
    assert not message_of().deletes
    assert message_of(TIMER_DELAY_SEC="5").delay_ms == 5_000
    assert message_of(TIMER_DELAY_MS="5").delay_ms == 5
    assert message_of(TIMER_DELAY_MS="x").delay_ms is None
    assert message_of().delay_ms is None
