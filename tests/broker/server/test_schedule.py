"""Delay levels: scheduled, delivered at their time, continued after a restart."""

import msgspec
import pytest

from broker.common.topic import SCHEDULE_TOPIC
from broker.message.properties import encode_properties
from broker.server import schedule
from broker.server.schedule import MAX_WAIT_MS, ScheduleMessageService, delay_level, illegal_delay
from broker.store.config import parse_delay_levels
from broker.store.results import MessageExtBrokerInner, PutMessageResult, PutMessageStatus


def test_message_goes_out_when_its_level_is_over(desk) -> None:
    desk.topic("Orders")
    desk.send(queue_id=2, body=b"later", properties={"DELAY": "1", "TAGS": "A", "KEYS": "k"})
    delays = desk.context.delays
    assert delays.deliver_due() == 1_000 == MAX_WAIT_MS
    desk.clock.advance(999)
    assert delays.deliver_due() == 1
    desk.clock.advance(1)
    assert delays.deliver_due() is None
    (delivered,) = desk.messages("Orders", 2)
    (scheduled,) = desk.messages(SCHEDULE_TOPIC, 0)
    assert delivered.body == b"later"
    assert delivered.store_timestamp == desk.clock.now_ms()
    assert delivered.born_timestamp == scheduled.born_timestamp
    assert delivered.properties == scheduled.properties
    assert delays.offsets == {1: 1}
    assert delays.changed


def test_levels_above_18_have_their_queue_and_are_delivered(make_desk) -> None:
    """The schedule topic is registered with 18 queues whatever the table."""
    desk = make_desk(messageDelayLevel=" ".join(["1s"] * 20))
    desk.topic("Orders")
    desk.send(body=b"later", properties={"DELAY": "20"})
    (scheduled,) = desk.messages(SCHEDULE_TOPIC, 19)
    assert scheduled.body == b"later"
    desk.context.delays.deliver_due()
    desk.clock.advance(1_000)
    desk.context.delays.deliver_due()
    assert [one.body for one in desk.messages("Orders")] == [b"later"]


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
    assert desk.context.delays.deliver_due() == MAX_WAIT_MS
    assert [m.body for m in desk.messages("Orders")] == [b"fast"]


def test_nothing_suspended_nothing_wanted(desk) -> None:
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


def test_step_of_the_clock_is_noticed_within_a_second(desk) -> None:
    """Waits are monotonic, due times are wall-clock: no wait is longer than MAX_WAIT_MS."""
    desk.topic("Orders")
    desk.send(properties={"DELAY": "9"})
    delays = desk.context.delays
    assert delays.deliver_due() == MAX_WAIT_MS
    assert delays.wait_ms(desk.clock.now_ms() + 300_000) == MAX_WAIT_MS
    desk.clock.jump(3_600_000)
    assert delays.deliver_due() is None
    assert len(desk.messages("Orders")) == 1


PLACE = {"DELAY": "1", "REAL_TOPIC": "Orders", "REAL_QID": "0"}


class TestQuarantine:
    """A record that cannot be delivered is skipped, counted and logged with its place."""

    @pytest.fixture
    def orders(self, desk):
        desk.topic("Orders")
        return desk

    def suspend(self, desk, raw: bytes, body: bytes = b"x"):
        return desk.store.put_message(MessageExtBrokerInner(SCHEDULE_TOPIC, 0, body, raw))

    def deliver(self, desk, caplog) -> list[str]:
        """Deliver the due messages; the lines of the quarantine."""
        desk.send(body=b"healthy", properties={"DELAY": "1"})
        desk.send(body=b"higher level", properties={"DELAY": "2"})
        desk.clock.advance(5_000)
        assert desk.context.delays.deliver_due() is None
        assert [m.body for m in desk.messages("Orders")] == [b"healthy", b"higher level"]
        return [r.getMessage() for r in caplog.records if "not delivered" in r.getMessage()]

    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            (encode_properties({**PLACE, "REAL_QID": "x"}), "REAL_QID"),
            (encode_properties({**PLACE, "REAL_QID": "-1"}), "REAL_QID"),
            (encode_properties({**PLACE, "REAL_QID": "2147483648"}), "REAL_QID"),
            (encode_properties({**PLACE, "REAL_QID": "9" * 5_000}), "REAL_QID"),
            (encode_properties({**PLACE, "REAL_QID": "²"}), "REAL_QID"),
            (encode_properties({"DELAY": "1", "REAL_TOPIC": "Orders"}), "REAL_QID"),
            (encode_properties({"DELAY": "1", "REAL_QID": "0"}), "REAL_TOPIC"),
            (b"DELAY\x011\x02REAL_QID\x010\x02REAL_TOPIC\x01\xff\xfe\x02", "REAL_TOPIC"),
            (encode_properties({**PLACE, "REAL_TOPIC": "a/b"}), "a/b"),
            (encode_properties({**PLACE, "REAL_TOPIC": "%RETRY%" + "g" * 249}), "256 bytes"),
            (encode_properties({**PLACE, "REAL_TOPIC": SCHEDULE_TOPIC}), "REAL_TOPIC"),
            (
                encode_properties({**PLACE, "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC"}),
                "REAL_TOPIC",
            ),
        ],
    )
    def test_damaged_place(self, orders, caplog, raw, reason) -> None:
        stored = self.suspend(orders, raw)
        (line,) = self.deliver(orders, caplog)
        assert f"level 1, queue offset 0, physical offset {stored.physical_offset}" in line
        assert reason in line
        assert orders.context.delays.quarantined == 1
        assert orders.context.delays.offsets == {1: 2, 2: 1}

    def flip(self, desk, physical_offset: int) -> None:
        file = desk.store.log.files.find(physical_offset)
        file.mapping[physical_offset - file.start] ^= 1

    def test_flipped_body_is_not_delivered_under_a_fresh_checksum(self, orders, caplog) -> None:
        stored = self.suspend(orders, encode_properties(PLACE), b"payload")
        record = bytes(orders.store.get_record_at(stored.physical_offset))
        self.flip(orders, stored.physical_offset + record.index(b"payload"))
        (line,) = self.deliver(orders, caplog)
        assert "bodyCRC" in line

    def test_a_record_that_became_invalid(self, orders, caplog) -> None:
        stored = self.suspend(orders, encode_properties(PLACE))
        self.flip(orders, stored.physical_offset + 4)  # its magic number
        (line,) = self.deliver(orders, caplog)
        assert f"physical offset {stored.physical_offset}" in line

    def test_unit_that_names_another_queues_record(self, orders, caplog, monkeypatch) -> None:
        """A message that was not scheduled in this level's queue is not delivered from it."""
        other = orders.store.put_message(
            MessageExtBrokerInner("Orders", 1, b"o", encode_properties(PLACE))
        ).physical_offset
        self.suspend(orders, encode_properties(PLACE), b"o")
        read = orders.store.consume_queue_units

        def moved(topic, queue_id, *rest):
            first, *units = read(topic, queue_id, *rest)
            if queue_id == 0 and first.queue_offset == 0:
                size = len(orders.store.get_record_at(other))
                first = msgspec.structs.replace(first, physical_offset=other, size=size)
            return [first, *units]

        monkeypatch.setattr(orders.store, "consume_queue_units", moved)
        (line,) = self.deliver(orders, caplog)
        assert f"physical offset {other}" in line

    def test_message_above_the_limit_of_now(self, orders, caplog) -> None:
        """maxMessageSize was lowered since the message was accepted."""
        self.suspend(orders, encode_properties(PLACE), b"x" * 200)
        orders.store.set_config(msgspec.structs.replace(orders.store.config, max_message_size=100))
        (line,) = self.deliver(orders, caplog)
        assert "at most 100" in line

    def test_many_damaged_records_do_not_fill_the_log(self, orders, caplog, monkeypatch) -> None:
        monkeypatch.setattr(schedule, "MAX_LOGGED", 3)
        for _ in range(10):
            self.suspend(orders, encode_properties({**PLACE, "REAL_QID": "x"}))
        assert len(self.deliver(orders, caplog)) == 3
        assert orders.context.delays.quarantined == 10


def test_records_deleted_with_their_log_file_are_not_counted_as_damaged(desk) -> None:
    desk.topic("Orders")
    for _ in range(3):
        desk.send(body=b"x" * 100_000, properties={"DELAY": "1"})
    first = desk.store.log.files.files[0]
    desk.store.log.files.files.remove(first)  # as an expired file goes
    desk.clock.advance(1_000)
    assert desk.context.delays.deliver_due() is None
    assert desk.context.delays.quarantined == 0
    assert desk.messages("Orders")


def test_progress_names_used_levels(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "5"})
    assert list(desk.context.delays.progress()) == [(5, 0, 1)]


def test_loaded_offsets_are_moved_into_the_queue(desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    levels = parse_delay_levels(desk.store.config.message_delay_level)
    delays = ScheduleMessageService(desk.store, desk.clock, levels)
    delays.load({1: 99, 2: 7}, None)
    assert delays.offsets == {1: 1, 2: 0}
    assert delays.changed


def warnings(caplog) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]


def test_a_loaded_offset_that_is_moved_is_logged(desk, caplog) -> None:
    desk.topic("Orders")
    desk.send(properties={"DELAY": "1"})
    delays = ScheduleMessageService(desk.store, desk.clock, {1: 1_000, 2: 5_000, 3: 10_000})
    delays.load({1: 99, 2: 0, 3: -4}, None)
    assert warnings(caplog) == [
        "delayOffset.json: level 1: delivery offset 99 changed to 1: its queue ends at 1",
        "delayOffset.json: level 3: delivery offset -4 changed to 0: its queue ends at 0",
    ]


def test_an_offset_raised_to_the_minimum_of_its_queue_is_logged(desk, caplog, monkeypatch) -> None:
    """Messages before it were deleted undelivered."""
    desk.topic("Orders")
    for _ in range(3):
        desk.send(properties={"DELAY": "1"})
    desk.clock.advance(1_000)
    monkeypatch.setattr(desk.store, "get_min_offset", lambda topic, queue_id: 2)
    desk.context.delays.deliver_due()
    desk.context.delays.deliver_due()
    assert desk.context.delays.offsets == {1: 3}
    assert warnings(caplog) == [
        "delayOffset.json: level 1: delivery offset 0 changed to 2: its queue ends at 3"
    ]


def test_entries_of_levels_that_do_not_exist_are_dropped(desk) -> None:
    """A level that only left the table keeps its progress: its messages wait for its return."""
    desk.topic("Orders")
    desk.send(properties={"DELAY": "3"})
    delays = ScheduleMessageService(desk.store, desk.clock, {1: 1_000, 2: 5_000})
    delays.load({-1: 4, 0: 4, 2: 0, 3: 1, 99: 7}, None)
    assert delays.offsets == {2: 0, 3: 1}
    assert delays.changed


def test_progress_that_fits_is_not_written_again(desk) -> None:
    delays = ScheduleMessageService(desk.store, desk.clock, {1: 1_000})
    delays.load({1: 0}, None)
    assert not delays.changed


@pytest.mark.parametrize(
    ("text", "level"),
    [
        *(("3", 3), ("0", 0), ("-1", 0), ("18", 18), ("99", 18), ("x", 0), ("", 0)),
        *(("--5", 0), ("²", 0), ("9" * 5_000, 18), ("2147483648", 18), ("-2147483649", 0)),
    ],
)
def test_level_of_a_message(text, level) -> None:
    assert delay_level({"DELAY": text}, 18) == level
    assert delay_level({}, 18) == 0


@pytest.mark.parametrize("text", ["x", "", "--5", "²", "1.0", " 1", "+"])
def test_level_that_is_not_an_integer_is_illegal(text) -> None:
    assert repr(text) in illegal_delay({"DELAY": text})


@pytest.mark.parametrize("text", ["0", "-1", "+3", "01", "9" * 5_000])
def test_every_integer_is_a_legal_level(text) -> None:
    assert illegal_delay({"DELAY": text}) is None
    assert illegal_delay({}) is None


def test_suspending_notes_the_real_place(desk) -> None:
    desk.topic("Orders")
    properties = {"DELAY": "9"}
    inner = MessageExtBrokerInner("Orders", 3, b"x")
    assert desk.context.delays.suspend(inner, properties, 9) is None
    assert (inner.topic, inner.queue_id) == (SCHEDULE_TOPIC, 8)
    assert properties == {"DELAY": "9", "REAL_TOPIC": "Orders", "REAL_QID": "3"}


@pytest.mark.parametrize("topic", ["%DLQ%" + "g" * 123, "%RETRY%" + "g" * 249])
def test_message_that_could_not_be_delivered_later_is_refused_now(desk, topic) -> None:
    properties = {"DELAY": "1"}
    inner = MessageExtBrokerInner(topic, 0, b"x")
    assert str(len(topic)) in desk.context.delays.suspend(inner, properties, 1)
    assert (inner.topic, properties) == (topic, {"DELAY": "1"})
