"""Pending messages among the records of the timer queue."""

import random
from typing import Any

import pytest

from broker.errors import RemoteProtocolError
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.recall_handle import decode_recall_handle
from mqadmin.system_topics.timers import PendingTimers, TimerFilter, timer_row

NOW = 1_700_000_000_000


def message(number: int, **properties: Any) -> MessageExt:
    given = {"REAL_TOPIC": "T", "REAL_QID": 1, "TIMER_OUT_MS": NOW + 5000, "UNIQ_KEY": f"U{number}"}
    given = {name: value for name, value in {**given, **properties}.items() if value is not None}
    return MessageExt(
        "rmq_sys_wheel_timer",
        b"",
        encode_properties({name: str(value) for name, value in given.items()}),
        queue_offset=number,
        physical_offset=100 * number,
    )


def pending(*messages: MessageExt, **limits: int) -> list[int]:
    timers = PendingTimers("broker-a", NOW, read_ms=NOW, **limits)
    timers.add_all(messages)
    return [row.queue_offset for row in timers.rows()]


def test_messages_come_by_due_time_and_delivered_ones_not_at_all() -> None:
    late, soon = message(0, TIMER_OUT_MS=NOW + 9000), message(1, TIMER_OUT_MS=NOW)
    done = message(2, TIMER_OUT_MS=NOW - 1000)
    assert pending(late, soon, done) == [1, 0]


@pytest.mark.parametrize("key", ["T+U0", "U0"])
def test_a_recall_removes_the_message_of_its_slot_only(key: str) -> None:
    recall = {"TIMER_DEL_UNIQKEY": key}
    assert pending(message(0), message(1), message(2, **recall)) == [1]
    other_slot = message(2, TIMER_OUT_MS=NOW + 6000, **recall)
    assert pending(message(0), message(1), other_slot) == [0, 1]


def test_a_rolled_message_is_listed_once() -> None:
    first, second = message(0), message(1, UNIQ_KEY="U0", TIMER_ROLL_TIMES=1)
    assert pending(first, second) == [1]
    assert pending(first, message(1, UNIQ_KEY="U0")) == [0, 1]  # sent twice


@pytest.mark.parametrize(
    "wrong",
    [
        {"TIMER_OUT_MS": None},
        {"TIMER_OUT_MS": "soon"},
        {"REAL_TOPIC": None},
        {"REAL_QID": "x"},
    ],
)
def test_a_record_that_cannot_be_delivered_is_left_out(wrong: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError):
        timer_row(message(0, **wrong), None, NOW)
    assert pending(message(0, **wrong)) == []


def test_the_number_kept_is_bounded() -> None:
    timers = PendingTimers("broker-a", NOW, read_ms=0, max_pending=2)
    timers.add_all(message(number) for number in range(3))
    assert len(list(timers.rows())) == 2
    assert timers.truncated


def test_a_row_has_a_handle_that_leads_to_the_slot() -> None:
    row = timer_row(message(0), "broker-a", NOW)
    assert row.recall_handle is not None
    handle = decode_recall_handle(row.recall_handle)
    assert tuple(handle) == ("T", "broker-a", str(NOW + 5001), "U0")
    assert timer_row(message(0), None, NOW).recall_handle is None
    assert row.matches("u0")
    assert not row.matches("T")


def test_check_points_are_shown_only_on_request() -> None:
    row = timer_row(message(0, REAL_TOPIC="rmq_sys_REVIVE_LOG_C"), None, NOW)
    assert not TimerFilter().accepts(row)
    assert TimerFilter(system=True).accepts(row)
    assert TimerFilter(topic="rmq_sys_REVIVE_LOG_C").accepts(row)


def test_a_recall_that_was_stored_before_its_message_applies_too() -> None:
    """Both are in one queue, and a recall may be sent again."""
    recall = message(0, TIMER_DEL_UNIQKEY="T+U1")
    assert pending(recall, message(1)) == []


def test_a_recall_without_a_time_applies_to_nothing() -> None:
    recall = message(1, TIMER_DEL_UNIQKEY="T+U0", TIMER_OUT_MS=None)
    assert pending(message(0), recall) == [0]


def test_the_same_key_in_another_topic_is_another_message() -> None:
    recall = message(2, TIMER_DEL_UNIQKEY="U+U0")
    assert pending(message(0), recall) == [0]
    other = message(1, REAL_TOPIC="U", UNIQ_KEY="U0")
    assert pending(message(0), other, recall) == [0]


def test_messages_without_a_key_are_distinguished_by_their_offset() -> None:
    assert pending(message(0, UNIQ_KEY=None), message(1, UNIQ_KEY=None)) == [0, 1]


def test_each_round_of_the_wheel_replaces_the_one_before() -> None:
    rounds = [message(number, UNIQ_KEY="U", TIMER_ROLL_TIMES=number) for number in range(5)]
    assert pending(*rounds) == [4]
    assert pending(*rounds[2:]) == [4]
    sent_twice = [message(9, UNIQ_KEY="U"), *rounds]
    assert pending(*sent_twice) == [0, 4]


def test_a_round_that_is_delivered_already_ends_the_message() -> None:
    done = message(1, UNIQ_KEY="U0", TIMER_ROLL_TIMES=1, TIMER_OUT_MS=NOW - 1)
    assert pending(message(0), done) == []


def test_pending_messages_agree_with_a_list(rng: random.Random) -> None:
    for _ in range(60):
        messages, expected = [], {}
        recalled: set[tuple[int, str]] = set()
        for number in range(rng.randint(0, 30)):
            out_ms = NOW + rng.randrange(-2, 6) * 1_000
            if rng.random() < 0.3:
                key = f"U{rng.randrange(30)}"
                messages.append(message(number, TIMER_DEL_UNIQKEY=f"T+{key}", TIMER_OUT_MS=out_ms))
                recalled.add((out_ms, key))
            else:
                messages.append(message(number, TIMER_OUT_MS=out_ms))
                if out_ms >= NOW:
                    expected[number] = (out_ms, f"U{number}")
        left = [number for number, slot in expected.items() if slot not in recalled]
        assert pending(*messages) == sorted(left, key=lambda number: (expected[number][0], number))


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        ({}, True),
        ({"topic": "T"}, True),
        ({"topic": "U"}, False),
        ({"key": "k2"}, True),
        ({"key": "K2"}, False),
        ({"key": "u0"}, True),
        ({"topic": "T", "key": "none"}, False),
    ],
)
def test_a_filter_accepts_a_row_that_meets_every_condition(
    fields: dict[str, str], accepted: bool
) -> None:
    """Ids are hexadecimal and match in either case, keys only as they are."""
    row = timer_row(message(0, KEYS="k1 k2"), None, NOW)
    assert TimerFilter(**fields).accepts(row) is accepted
    assert row.matches(row.offset_msg_id.lower())
