"""Acknowledgements and changes of the invisible time: effects, order, bad input."""

import base64
import json

import pytest

from broker.common.message_queue import MessageQueue
from broker.message.check_point import decode_ack
from broker.remoting.protocol.body.consumer.consume import ConsumeStats
from broker.remoting.protocol.codes import RequestCode, ResponseCode


def batch(desk, acks, broker_name="broker-a"):
    body = json.dumps({"brokerName": broker_name, "acks": acks}).encode()
    return desk.ask(RequestCode.BATCH_ACK_MESSAGE, body=body)


def entry(popped, offsets, **fields):
    handle = popped.handle
    bits = sum(1 << (offset - handle.start_offset) for offset in offsets)
    given = {
        "c": "G1",
        "t": "Orders",
        "r": handle.retry_flag,
        "so": handle.start_offset,
        "q": handle.queue_id,
        "rq": handle.revive_queue_id,
        "pt": handle.pop_time,
        "it": handle.invisible_time,
        "b": base64.b64encode(bits.to_bytes(4, "little")).decode(),
    }
    return {**given, **fields}


@pytest.fixture
def popped(desk, client):
    """Four messages of queue 0, popped together for 10 s."""
    for number in range(4):
        desk.send(body=b"%d" % number)
    return client.pop()


def left(desk, client) -> list[bytes]:
    """The messages that come again when the invisible time has ended."""
    desk.advance(13_000)
    return sorted(one.body for one in client.pop())


class TestAck:
    """ACK_MESSAGE."""

    def test_the_record_is_a_timer_message_due_at_the_revive_time(
        self, desk, client, popped
    ) -> None:
        client.ack(popped[1])
        stored = desk.messages("rmq_sys_wheel_timer")[-1]
        ack, handle = decode_ack(stored.body), popped[1].handle
        assert (ack.offsets, ack.start_offset, ack.pop_time) == ([1], 0, handle.pop_time)
        assert stored.properties["TIMER_DELIVER_MS"] == str(handle.due_ms)
        assert (stored.tags, stored.uniq_key) == ("ack", ack.uniq_key)

    def test_a_replayed_ack_changes_nothing(self, desk, client, popped) -> None:
        for _ in range(3):
            assert client.ack(popped[0]).code == 0
        assert left(desk, client) == [b"1", b"2", b"3"]

    def test_a_replayed_ack_after_the_redelivery_does_not_acknowledge_the_copy(
        self, desk, client, popped
    ) -> None:
        desk.advance(13_000)
        again = client.pop()
        for one in popped:
            assert client.ack(one).code == 0
        desk.advance(13_000)
        assert len(client.pop()) == len(again) == 4

    def test_an_ack_with_the_handle_of_another_queue_acknowledges_nothing(
        self, desk, client, popped
    ) -> None:
        desk.send(queue_id=2, body=b"other")
        (other,) = client.pop()
        answer = client.ack(popped[0], extraInfo=other.ext["extraInfo"])
        assert answer.code == 0
        assert left(desk, client) == [b"0", b"1", b"2", b"3", b"other"]

    def test_a_late_ack_counts_until_the_message_is_revived(self, desk, client, popped) -> None:
        desk.advance(11_000)
        client.ack(popped[0])
        desk.advance(2_000)
        assert sorted(one.body for one in client.pop()) == [b"1", b"2", b"3"]

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"topic": "Unknown"}, ResponseCode.TOPIC_NOT_EXIST),
            ({"queueId": 4}, ResponseCode.MESSAGE_ILLEGAL),
            ({"queueId": -1}, ResponseCode.MESSAGE_ILLEGAL),
            ({"offset": 5}, ResponseCode.NO_MESSAGE),
            ({"offset": -1}, ResponseCode.NO_MESSAGE),
            ({"extraInfo": ""}, ResponseCode.SYSTEM_ERROR),
            ({"extraInfo": "1 2 3"}, ResponseCode.SYSTEM_ERROR),
            ({"extraInfo": "x 1 2 3 0 broker-a 0 0"}, ResponseCode.SYSTEM_ERROR),
            ({"extraInfo": "0 1 2 8 0 broker-a 0 0"}, ResponseCode.SYSTEM_ERROR),
            ({"extraInfo": "0 1 2 -1 0 broker-a 0 0"}, ResponseCode.SYSTEM_ERROR),
            ({"extraInfo": f"0 {2**62} {2**62} 0 0 broker-a 0 0"}, ResponseCode.SYSTEM_ERROR),
        ],
    )
    def test_bad_input_is_refused_and_loses_nothing(
        self, desk, client, popped, fields, code
    ) -> None:
        answer = client.ack(popped[0], **fields)
        assert answer.code == code
        assert answer.remark
        assert left(desk, client) == [b"0", b"1", b"2", b"3"]

    def test_the_maximum_offset_itself_is_accepted_as_in_java(self, client, popped) -> None:
        assert client.ack(popped[0], offset=4).code == 0

    def test_an_ack_that_cannot_be_written_is_an_error(self, desk, client, popped) -> None:
        desk.timer.refusal = "no space"
        assert client.ack(popped[0]).code == ResponseCode.SYSTEM_ERROR
        desk.timer.refusal = ""
        assert left(desk, client) == [b"0", b"1", b"2", b"3"]

    def test_messages_in_flight_are_reported_with_the_progress_of_the_group(
        self, desk, client, popped
    ) -> None:
        client.ack(popped[0])
        answer = desk.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "G1", "topic": "Orders"})
        table = ConsumeStats.from_bytes(answer.body_bytes()).offset_table
        at = table[MessageQueue("Orders", "broker-a", 0)]
        assert (at.consumer_offset, at.pull_offset - at.consumer_offset) == (4, 3)

    def test_messages_in_flight_are_counted_down(self, desk, client, popped) -> None:
        in_flight = desk.pop_service.in_flight
        assert in_flight.get("Orders", "G1", 0) == 4
        client.ack(popped[0])
        assert in_flight.get("Orders", "G1", 0) == 3
        desk.advance(13_000)
        assert in_flight.get("Orders", "G1", 0) == 0


class TestBatchAck:
    """BATCH_ACK_MESSAGE."""

    def test_bits_acknowledge_messages_of_a_check_point(self, desk, client, popped) -> None:
        assert batch(desk, [entry(popped[0], [0, 3])]).code == 0
        stored = desk.messages("rmq_sys_wheel_timer")[-1]
        assert stored.tags == "bAck"
        assert decode_ack(stored.body, batched=True).offsets == [0, 3]
        assert left(desk, client) == [b"1", b"2"]

    def test_long_field_names_are_read_too(self, desk, client, popped) -> None:
        names = {
            "c": "consumerGroup", "t": "topic", "r": "retry", "so": "startOffset", "q": "queueId",
            "rq": "reviveQueueId", "pt": "popTime", "it": "invisibleTime", "b": "bitSet",
        }  # fmt: skip
        given = {names[key]: value for key, value in entry(popped[0], [0, 1, 2, 3]).items()}
        assert batch(desk, [given]).code == 0
        assert left(desk, client) == []

    def test_an_empty_batch_has_no_message(self, desk) -> None:
        assert batch(desk, []).code == ResponseCode.NO_MESSAGE
        assert desk.ask(RequestCode.BATCH_ACK_MESSAGE).code == ResponseCode.NO_MESSAGE

    @pytest.mark.parametrize(
        "fields",
        [{"t": "Unknown"}, {"q": 9}, {"rq": 77}, {"b": "***"}, {"b": None}, {"so": 50},
         {"b": base64.b64encode(b"\xff" * 64).decode()},
         {"b": base64.b64encode(b"\1" + bytes(8_000)).decode()}],
    )  # fmt: skip
    def test_invalid_entries_are_skipped(self, desk, client, popped, fields) -> None:
        good = entry(popped[0], [2])
        assert batch(desk, [entry(popped[0], [0], **fields), good]).code == 0
        assert left(desk, client) == [b"0", b"1", b"3"]

    def test_a_batch_may_name_retried_messages(self, desk, client, popped) -> None:
        desk.advance(13_000)
        again = client.pop()
        offsets = [one.handle.queue_offset for one in again]
        assert batch(desk, [entry(again[0], offsets)]).code == 0
        assert left(desk, client) == []


class TestChangeInvisibleTime:
    """CHANGE_MESSAGE_INVISIBLETIME."""

    def test_a_longer_time_counts_from_the_call(self, desk, client, popped) -> None:
        for one in popped[1:]:
            client.ack(one)
        desk.advance(8_000)
        changed_ms = desk.clock.now_ms()
        assert client.change(popped[0], 10_000).code == 0
        while not (found := client.pop()):
            desk.advance(100)
        assert 10_000 <= desk.clock.now_ms() - changed_ms <= 13_000
        assert [one.body for one in found] == [b"0"]

    def test_a_shorter_time_brings_the_message_back_sooner(self, desk, client, popped) -> None:
        client.change(popped[0], 1_000)
        desk.advance(4_000)
        assert [one.body for one in client.pop()] == [b"0"]
        desk.advance(9_000)
        assert sorted(one.body for one in client.pop()) == [b"1", b"2", b"3"]

    def test_the_new_handle_acknowledges_and_the_old_one_no_longer_does(
        self, desk, client, popped
    ) -> None:
        old = popped[0].ext
        client.change(popped[0], 20_000)
        client.ack(popped[0], extraInfo=old["extraInfo"])
        desk.advance(23_000)
        assert b"0" in {one.body for one in client.pop()}

    def test_two_changes_in_one_millisecond_do_not_lose_the_message(
        self, desk, client, popped
    ) -> None:
        for one in popped[1:]:
            client.ack(one)
        for _ in range(3):
            assert client.change(popped[0], 5_000).code == 0
        desk.advance(8_000)
        assert [one.body for one in client.pop()] == [b"0"]

    def test_the_new_handle_ends_it(self, desk, client, popped) -> None:
        client.change(popped[0], 20_000)
        client.ack(popped[0])
        desk.advance(23_000)
        assert b"0" not in {one.body for one in client.pop()}

    def test_the_answer_names_time_and_revive_queue(self, desk, client, popped) -> None:
        desk.advance(100)
        ext = client.change(popped[0], 7_000).ext_fields
        assert ext["popTime"] == str(desk.clock.now_ms())
        assert ext["invisibleTime"] == "7000"
        assert ext["reviveQid"] == str(popped[0].handle.revive_queue_id)

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"topic": "Unknown"}, ResponseCode.TOPIC_NOT_EXIST),
            ({"queueId": 9}, ResponseCode.MESSAGE_ILLEGAL),
            ({"offset": 4}, ResponseCode.NO_MESSAGE),
            ({"extraInfo": "junk"}, ResponseCode.SYSTEM_ERROR),
            ({"invisibleTime": -5}, ResponseCode.INVALID_PARAMETER),
        ],
    )
    def test_bad_input_is_refused_and_changes_nothing(
        self, desk, client, popped, fields, code
    ) -> None:
        assert client.change(popped[0], 60_000, **fields).code == code
        assert left(desk, client) == [b"0", b"1", b"2", b"3"]

    def test_a_check_point_that_cannot_be_written_keeps_the_old_one(
        self, desk, client, popped
    ) -> None:
        desk.timer.refusal = "no space"
        assert client.change(popped[0], 60_000).code == ResponseCode.SYSTEM_ERROR
        desk.timer.refusal = ""
        assert left(desk, client) == [b"0", b"1", b"2", b"3"]

    def test_a_changed_message_counts_once_as_in_flight(self, desk, client, popped) -> None:
        client.change(popped[0], 20_000)
        assert desk.pop_service.in_flight.get("Orders", "G1", 0) == 4


class TestOrder:
    """Ordered pops: the queue is blocked by its batch."""

    @pytest.fixture
    def ordered(self, desk, client):
        for number in range(4):
            desk.send(body=b"%d" % number)
        return lambda **how: client.pop(order="true", **how)

    def test_a_batch_blocks_its_queue_until_it_is_acknowledged(self, client, ordered) -> None:
        first = ordered(maxMsgNums=2)
        assert [one.body for one in first] == [b"0", b"1"]
        assert first[0].handle.ordered
        assert ordered() == []
        client.ack(first[0])
        assert ordered() == []
        client.ack(first[1])
        assert [one.body for one in ordered()] == [b"2", b"3"]

    def test_other_queues_are_not_blocked(self, desk, ordered) -> None:
        ordered(maxMsgNums=1)
        desk.send(queue_id=3, body=b"other")
        assert [one.body for one in ordered()] == [b"other"]

    def test_after_the_invisible_time_the_same_messages_come_with_a_count(
        self, desk, client, ordered
    ) -> None:
        ordered(maxMsgNums=2)
        desk.advance(9_900)
        assert ordered() == []
        desk.advance(200)
        answer = client.pop_raw(order="true", maxMsgNums=3)
        assert [one.body for one in client.messages(answer)] == [b"0", b"1", b"2"]
        assert answer.ext_fields["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0 0 0"

    def test_the_same_attempt_may_pop_its_batch_again(self, ordered) -> None:
        assert len(ordered(attemptId="a", maxMsgNums=2)) == 2
        assert ordered(attemptId="b") == []
        assert [one.body for one in ordered(attemptId="a", maxMsgNums=2)] == [b"0", b"1"]

    def test_the_committed_offset_follows_the_acknowledged_prefix(
        self, desk, client, ordered
    ) -> None:
        batch_ = ordered()
        client.ack(batch_[1])
        assert desk.context.offsets.query("G1", "Orders", 0) == 0
        client.ack(batch_[0])
        assert desk.context.offsets.query("G1", "Orders", 0) == 2

    def test_no_check_point_is_written(self, desk, ordered) -> None:
        ordered()
        assert desk.messages("rmq_sys_wheel_timer") == []

    def test_a_message_outside_the_batch_is_illegal(self, client, ordered) -> None:
        (first, *_) = ordered(maxMsgNums=2)
        assert client.ack(first, offset=3).code == ResponseCode.MESSAGE_ILLEGAL

    def test_an_ack_of_an_earlier_batch_has_no_effect(self, desk, client, ordered) -> None:
        first = ordered(maxMsgNums=1)[0]
        desk.advance(10_100)
        ordered(maxMsgNums=1)
        assert client.ack(first).code == 0
        assert desk.context.offsets.query("G1", "Orders", 0) == 0

    def test_the_invisible_time_of_one_message_can_be_changed(self, desk, client, ordered) -> None:
        first, second = ordered(maxMsgNums=2)
        client.ack(first)
        popped_ms = first.handle.pop_time
        answer = client.change(second, 30_000)
        assert answer.ext_fields["popTime"] == str(popped_ms)
        assert answer.ext_fields["invisibleTime"] == str(desk.clock.now_ms() + 30_000 - popped_ms)
        desk.advance(20_000)
        assert ordered() == []
        desk.advance(10_200)
        assert [one.body for one in ordered(maxMsgNums=1)] == [b"1"]

    def test_a_waiting_pop_gets_the_queue_when_its_block_ends(self, desk, client, ordered) -> None:
        first = ordered(maxMsgNums=1)[0]
        assert client.pop_raw(order="true", maxMsgNums=1, pollTime=15_000) is None
        client.ack(first)
        (answer,) = desk.connection.commands
        assert [one.body for one in client.messages(answer)] == [b"1"]
        assert client.pop_raw(order="true", maxMsgNums=1, pollTime=15_000) is None
        desk.advance(10_200)
        answer = desk.connection.commands[-1]
        assert [one.body for one in client.messages(answer)] == [b"1"]

    def test_a_batch_ack_acknowledges_in_order_too(self, desk, client, ordered) -> None:
        popped = ordered(maxMsgNums=2)
        given = entry(popped[0], [0, 1], so=0)
        assert batch(desk, [given]).code == 0
        assert desk.context.offsets.query("G1", "Orders", 0) == 2
