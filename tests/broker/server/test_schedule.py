"""Delay levels: parked, delivered at their time, continued after a restart."""

import pytest

from broker.common.topic import SCHEDULE_TOPIC
from broker.message.properties import encode_properties
from broker.server import schedule
from broker.server.schedule import DelayQueues, delay_level, park
from broker.store.config import parse_delay_levels
from broker.store.results import MessageInner, PutMessageResult, PutMessageStatus


def test_message_goes_out_when_its_level_is_over(desk) -> None:
    desk.topic("Orders")
    desk.send(queue_id=2, body=b"later", properties={"DELAY": "1", "TAGS": "A", "KEYS": "k"})
    delays = desk.context.delays
    assert delays.deliver_due() == 1_000
    desk.clock.advance(999)
    assert delays.deliver_due() == 1
    desk.clock.advance(1)
    assert delays.deliver_due() is None
    (delivered,) = desk.messages("Orders", 2)
    (parked,) = desk.messages(SCHEDULE_TOPIC, 0)
    assert delivered.body == b"later"
    assert delivered.store_timestamp == desk.clock.now_ms()
    assert delivered.born_timestamp == parked.born_timestamp
    assert delivered.properties == parked.properties
    assert delays.offsets == {1: 1}
    assert delays.changed


def test_delivered_message_is_found_by_its_tag_and_key(desk, records) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1", "TAGS": "A"})
    desk.clock.advance(1_000)
    desk.context.delays.deliver_due()
    assert len(records(desk.pull(subscription="A"))) == 1
    assert desk.pull(subscription="B").code == 20


def test_levels_do_not_delay_each_other(desk) -> None:
    desk.topic("Orders")
    desk.send(body=b"slow", properties={"DELAY": "3"})
    desk.send(body=b"fast", properties={"DELAY": "1"})
    desk.clock.advance(1_000)
    assert desk.context.delays.deliver_due() == 9_000
    assert [m.body for m in desk.messages("Orders")] == [b"fast"]


def test_nothing_parked_nothing_wanted(desk) -> None:
    assert desk.context.delays.deliver_due() is None
    assert not desk.context.delays.changed


def test_a_turn_has_a_limit_and_levels_take_turns(desk, monkeypatch) -> None:
    monkeypatch.setattr(schedule, "MAX_PER_TURN", 3)
    desk.topic("Orders")
    for level in ("1", "2"):
        for _ in range(4):
            desk.send(properties={"DELAY": level})
    desk.clock.advance(5_000)
    delays = desk.context.delays
    assert delays.deliver_due() == 0.0
    assert delays.offsets == {1: 3}
    assert delays.deliver_due() == 0.0
    assert delays.offsets == {1: 3, 2: 3}
    while delays.deliver_due() is not None:
        pass
    assert delays.offsets == {1: 4, 2: 4}
    assert len(desk.messages("Orders")) == 8


def test_failed_put_is_tried_again(desk, monkeypatch) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    desk.clock.advance(1_000)
    refused = PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "put_message", lambda inner: refused)
        assert desk.context.delays.deliver_due() == schedule.RETRY_PUT_MS
    assert desk.context.delays.offsets.get(1, 0) == 0
    assert desk.context.delays.deliver_due() is None
    assert len(desk.messages("Orders")) == 1


def test_clock_that_went_back_holds_nothing_longer_than_its_level(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    desk.clock.jump(-3_600_000)
    desk.context.delays.deliver_due()
    assert len(desk.messages("Orders")) == 1


def test_half_messages_and_placeless_ones_are_dropped(desk) -> None:
    for properties in ({"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"}, {}):
        raw = encode_properties({"DELAY": "1", **properties})
        desk.store.put_message(MessageInner(SCHEDULE_TOPIC, 0, b"x", raw))
    desk.clock.advance(1_000)
    assert desk.context.delays.deliver_due() is None
    assert desk.context.delays.offsets == {1: 2}


def test_progress_names_used_levels(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "5"})
    assert list(desk.context.delays.progress()) == [(5, 0, 1)]


def test_loaded_offsets_are_moved_into_the_queue(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    levels = parse_delay_levels(desk.store.config.message_delay_level)
    delays = DelayQueues(desk.store, desk.clock, levels)
    delays.load({1: 99, 2: 7}, None)
    assert delays.offsets == {1: 1, 2: 0}


@pytest.mark.parametrize(
    ("text", "level"), [("3", 3), ("0", 0), ("-1", 0), ("18", 18), ("99", 18), ("x", 0), ("", 0)]
)
def test_level_of_a_message(text, level) -> None:
    assert delay_level({"DELAY": text}, 18) == level
    assert delay_level({}, 18) == 0


def test_parking_notes_the_real_place() -> None:
    properties = {"DELAY": "9"}
    assert park(properties, "Orders", 3, 9) == (SCHEDULE_TOPIC, 8)
    assert properties == {"DELAY": "9", "REAL_TOPIC": "Orders", "REAL_QID": "3"}
