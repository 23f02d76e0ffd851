"""POP_MESSAGE: checks, delivery, redelivery, filters, init mode, resets, long polling."""

import asyncio

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import PERM_WRITE, pop_retry_topic
from broker.message.check_point import REVIVE_GROUP, decode_check_point
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.pop.processor import pop as pop_module

REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_DefaultCluster"


def bodies(popped) -> list[bytes]:
    return sorted(one.body for one in popped)


class TestChecks:
    """Refusals in Java's order."""

    def test_a_request_that_arrives_after_its_time_times_out(self, desk, client) -> None:
        answer = client.pop_raw(bornTime=desk.clock.now_ms() - 1_501, pollTime=1_000)
        assert answer.code == ResponseCode.POLLING_TIMEOUT

    def test_a_refusal_has_the_numbers_that_clients_read_at_any_code(self, desk, client) -> None:
        late = client.pop_raw(bornTime=desk.clock.now_ms() - 1_501, pollTime=1_000)
        topic = client.pop_raw(topic="None")
        sql = client.pop_raw(exp="a > 1", expType="SQL92")
        names = ("popTime", "invisibleTime", "reviveQid", "restNum")
        for answer in (late, topic, sql):
            assert answer.code
            assert answer.ext_fields == dict.fromkeys(names, "0")

    def test_a_broker_that_may_not_be_read(self, make_desk, pop_client) -> None:
        desk = make_desk(brokerPermission="2")
        desk.topic("Orders")
        assert pop_client(desk).pop_raw().code == ResponseCode.NO_PERMISSION

    @pytest.mark.parametrize("wanted", [33, 0, -1])
    def test_number_of_messages_out_of_range(self, desk, client, wanted: int) -> None:
        desk.send()
        assert client.pop_raw(maxMsgNums=wanted).code == ResponseCode.INVALID_PARAMETER
        assert len(client.pop()) == 1

    @pytest.mark.parametrize("fields", [{"invisibleTime": -1}, {"initMode": 2}])
    def test_invalid_parameters(self, client, fields) -> None:
        assert client.pop_raw(**fields).code == ResponseCode.INVALID_PARAMETER

    def test_without_timer_pops_are_forbidden(self, desk, client) -> None:
        desk.wheel_timer.attach(None)
        answer = client.pop_raw()
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "timerWheelEnable is false" in answer.remark

    def test_unknown_topic(self, desk, pop_client) -> None:
        assert pop_client(desk, "Unknown").pop_raw().code == ResponseCode.TOPIC_NOT_EXIST

    def test_topic_that_cannot_be_read(self, desk, pop_client) -> None:
        desk.topic("Closed", perm=PERM_WRITE)
        assert pop_client(desk, "Closed").pop_raw().code == ResponseCode.NO_PERMISSION

    def test_queue_outside_the_topic(self, client) -> None:
        assert client.pop_raw(queueId=4).code == ResponseCode.INVALID_PARAMETER

    def test_unknown_group(self, make_desk, pop_client) -> None:
        desk = make_desk(autoCreateSubscriptionGroup="false")
        desk.topic("Orders")
        code = pop_client(desk).pop_raw().code
        assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    def test_group_switched_off(self, desk, client) -> None:
        config = SubscriptionGroupConfig(group_name="G1", consume_enable=False)
        desk.context.groups.put_all([config])
        assert client.pop_raw().code == ResponseCode.NO_PERMISSION

    def test_broken_filter(self, make_desk, pop_client) -> None:
        desk = make_desk(enablePropertyFilter="true")
        desk.topic("Orders")
        answer = pop_client(desk).pop_raw(exp="a >", expType="SQL92")
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    def test_sql_filters_need_their_switch(self, client) -> None:
        answer = client.pop_raw(exp="a > 1", expType="SQL92")
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    def test_nothing_found_and_no_time_to_wait(self, client) -> None:
        answer = client.pop_raw()
        assert answer.code == ResponseCode.POLLING_TIMEOUT
        assert answer.remark == "NO_MESSAGE_IN_QUEUE"
        numbers = ("popTime", "invisibleTime", "reviveQid", "restNum")
        assert all(answer.ext_fields[name].isdigit() for name in numbers)


class TestDelivery:
    """Delivered messages and their records."""

    def test_messages_of_every_queue_with_their_offsets(self, desk, client) -> None:
        for queue_id in range(4):
            desk.send(queue_id=queue_id, body=b"%d" % queue_id)
            desk.send(queue_id=queue_id, body=b"%d" % queue_id)
        answer = client.pop_raw()
        assert answer.code == 0
        assert answer.remark == "FOUND"
        popped = client.messages(answer)
        assert bodies(popped) == sorted([b"0", b"1", b"2", b"3"] * 2)
        assert answer.ext_fields["restNum"] == "0"
        items = sorted(answer.ext_fields["msgOffsetInfo"].split(";"))
        assert items == [f"0 {queue_id} 0,1" for queue_id in range(4)]

    def test_one_queue_only_if_it_is_named(self, desk, client) -> None:
        desk.send(queue_id=1, body=b"1")
        desk.send(queue_id=2, body=b"2")
        assert bodies(client.pop(queueId=2)) == [b"2"]

    def test_at_most_the_wanted_number_and_the_rest_is_counted(self, desk, client) -> None:
        for number in range(10):
            desk.send(queue_id=number % 4)
        answer = client.pop_raw(maxMsgNums=3)
        assert len(client.messages(answer)) == 3
        assert answer.ext_fields["restNum"] == "7"

    def test_each_message_goes_to_one_member(self, desk, client) -> None:
        for number in range(8):
            desk.send(queue_id=number % 4, body=b"%d" % number)
        first, second = client.pop(maxMsgNums=5), client.pop()
        assert bodies(first + second) == [b"%d" % number for number in range(8)]

    def test_groups_are_independent(self, desk, client, pop_client) -> None:
        desk.send()
        assert len(client.pop()) == len(pop_client(desk, group="G2").pop()) == 1

    def test_the_check_point_is_a_timer_message_in_javas_format(self, desk, client) -> None:
        desk.send(body=b"a")
        desk.send(body=b"b")
        now_ms = desk.clock.now_ms()
        client.pop()
        (stored,) = desk.messages("rmq_sys_wheel_timer")
        ck = decode_check_point(stored.body)
        assert (ck.topic, ck.group, ck.queue_id, ck.start_offset) == ("Orders", "G1", 0, 0)
        assert (ck.diffs, ck.revive_time, ck.broker_name) == ([0, 1], now_ms + 10_000, "broker-a")
        assert stored.properties["REAL_TOPIC"] == REVIVE_TOPIC
        assert stored.properties["TIMER_DELIVER_MS"] == str(now_ms + 9_000)
        assert stored.tags == "ck"
        assert stored.uniq_key == f"Orders@0@0@G1@{now_ms}@broker-a@ck"
        assert desk.context.offsets.query("G1", "Orders", 0) == 2

    def test_revive_queues_are_used_in_turn(self, desk, client) -> None:
        for _ in range(9):
            desk.send()
        used = [one.handle.revive_queue_id for _ in range(9) for one in client.pop(maxMsgNums=1)]
        assert used == [0, 1, 2, 3, 4, 5, 6, 7, 0]

    def test_if_the_check_point_cannot_be_written_nothing_is_delivered(self, desk, client) -> None:
        desk.send()
        desk.timer.refusal = "no space"
        answer = client.pop_raw()
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "no space" in answer.remark
        assert desk.context.offsets.query("G1", "Orders", 0) <= 0
        desk.timer.refusal = ""
        assert len(client.pop()) == 1

    def test_many_in_flight_stop_the_pops_of_a_queue(self, make_desk, pop_client) -> None:
        desk = make_desk(enablePopMessageThreshold="true", popInflightMessageThreshold="1")
        desk.topic("Orders")
        client = pop_client(desk)
        for _ in range(4):
            desk.send()
        first = client.pop(maxMsgNums=2)
        answer = client.pop_raw()
        assert (answer.code, answer.ext_fields["restNum"]) == (ResponseCode.POLLING_TIMEOUT, "2")
        for one in first:
            client.ack(one)
        assert len(client.pop()) == 2


class TestRedelivery:
    """Messages that are not acknowledged come again, not early and at most 3 s late."""

    def test_acknowledged_messages_do_not_come_again(self, desk, client) -> None:
        desk.send()
        (one,) = client.pop()
        assert client.ack(one).code == 0
        desk.advance(30_000)
        assert client.pop() == []

    @pytest.mark.parametrize("invisible_ms", [0, 500, 1_000, 1_234, 10_000, 61_003])
    def test_redelivery_is_never_early_and_at_most_three_seconds_late(
        self, desk, client, invisible_ms
    ) -> None:
        desk.send(body=b"again")
        popped_ms = desk.clock.now_ms()
        assert len(client.pop(invisibleTime=invisible_ms)) == 1
        while not (found := client.pop()):
            desk.advance(100)
            assert desk.clock.now_ms() < popped_ms + invisible_ms + 5_000
        late_ms = desk.clock.now_ms() - popped_ms - invisible_ms
        assert 0 <= late_ms <= 3_000
        assert (found[0].body, found[0].reconsume_times) == (b"again", 1)

    def test_a_retried_message_has_the_topic_its_handle_and_its_first_pop_time(
        self, desk, client
    ) -> None:
        desk.send(body=b"x", properties={"KEYS": "k"})
        first_ms = desk.clock.now_ms()
        client.pop()
        desk.advance(13_000)
        (again,) = client.pop()
        assert again.message.topic == "Orders"
        assert again.handle.retry_flag == "1"
        assert again.topic == "%RETRY%G1_Orders"
        assert again.message.properties["1ST_POP_TIME"] == str(first_ms)
        assert again.message.keys == ["k"]
        (stored,) = desk.messages("%RETRY%G1_Orders")
        assert "POP_CK" not in stored.properties
        assert client.ack(again).code == 0
        desk.advance(20_000)
        assert client.pop() == []

    def test_reconsume_times_grow_with_each_redelivery(self, desk, client) -> None:
        desk.send()
        seen = []
        for _ in range(4):
            (one,) = client.pop(invisibleTime=1_000)
            seen.append(one.reconsume_times)
            desk.advance(4_000)
        assert seen == [0, 1, 2, 3]

    def test_only_the_unacknowledged_messages_of_a_batch_come_again(self, desk, client) -> None:
        for number in range(4):
            desk.send(body=b"%d" % number)
        popped = client.pop()
        for one in popped[::2]:
            client.ack(one)
        desk.advance(13_000)
        assert bodies(client.pop()) == [b"1", b"3"]

    def test_version_2_of_the_retry_topic(self, make_desk, pop_client) -> None:
        desk = make_desk(enableRetryTopicV2="true", retrieveMessageFromPopRetryTopicV1="false")
        desk.topic("Orders")
        client = pop_client(desk)
        desk.send(body=b"v2")
        client.pop(invisibleTime=1_000)
        desk.advance(4_000)
        (again,) = client.pop()
        assert (again.handle.retry_flag, again.topic) == ("2", "%RETRY%G1+Orders")
        assert client.ack(again).code == 0
        desk.advance(15_000)
        assert client.pop() == []

    def test_the_actual_retry_topic_is_shown_if_asked_for(self, make_desk, pop_client) -> None:
        desk = make_desk(popResponseReturnActualRetryTopic="true")
        desk.topic("Orders")
        client = pop_client(desk)
        desk.send()
        client.pop(invisibleTime=1_000)
        desk.advance(4_000)
        assert client.pop()[0].message.topic == "%RETRY%G1_Orders"

    def test_revive_offset_follows_and_nothing_stays_open(self, desk, client) -> None:
        for _ in range(3):
            desk.send()
            client.pop(invisibleTime=1_000)
        desk.advance(6_000)
        assert desk.pop_service.revive.open_check_points == 0
        committed = [desk.context.offsets.query(REVIVE_GROUP, REVIVE_TOPIC, q) for q in range(3)]
        assert committed == [0, 0, 0]

    def test_the_retry_topic_is_looked_at_first_in_one_pop_of_five(
        self, make_desk, pop_client
    ) -> None:
        desk = make_desk(popFromRetryProbability="100")
        desk.topic("Orders")
        client = pop_client(desk)
        desk.send(body=b"old")
        client.pop(invisibleTime=1_000)
        desk.advance(4_000)
        desk.send(body=b"new")
        assert [one.body for one in client.pop(maxMsgNums=1)] == [b"old"]

    @pytest.mark.parametrize(
        ("code", "header"),
        [
            (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"}),
            (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G1"}),
        ],
    )
    def test_nothing_of_a_deleted_topic_or_group_is_in_flight(
        self, desk, client, code: int, header: dict[str, str]
    ) -> None:
        desk.send()
        desk.send("Other")
        client.pop()
        in_flight = desk.context.pop.in_flight
        assert in_flight.get("Orders", "G1", 0) == 1
        assert desk.ask(code, header).code == 0
        assert in_flight.get("Orders", "G1", 0) == 0

    def test_messages_of_a_deleted_topic_are_not_redelivered(self, desk, client) -> None:
        desk.send()
        client.pop(invisibleTime=1_000)
        desk.context.topics.delete("Orders")
        desk.advance(6_000)
        assert "%RETRY%G1_Orders" not in desk.context.topics
        assert desk.pop_service.revive.open_check_points == 0

    def test_a_popped_message_goes_to_the_dlq_by_send_back(self, desk, client) -> None:
        """The proxy does this after the maximum; revive itself has none."""
        desk.send(body=b"poison")
        client.pop(invisibleTime=1_000)
        desk.advance(4_000)
        (one,) = client.pop()
        ext = {
            "group": "G1",
            "offset": one.message.physical_offset,
            "delayLevel": -1,
            "originTopic": one.topic,
            "maxReconsumeTimes": 1,
            "unitMode": "false",
        }
        assert desk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext).code == 0
        assert client.ack(one).code == 0
        (dead,) = desk.messages("%DLQ%G1")
        assert (dead.body, dead.reconsume_times) == (b"poison", 2)
        desk.advance(15_000)
        assert client.pop() == []


class TestFilters:
    """Tags and SQL92 on pops; rejected messages are passed over."""

    def test_a_tag_filter_delivers_only_its_tags(self, desk, client) -> None:
        for tag in ("A", "B", "A"):
            desk.send(body=tag.encode(), properties={"TAGS": tag})
        assert bodies(client.pop(exp="A", expType="TAG")) == [b"A", b"A"]
        assert client.pop(exp="A") == []
        assert desk.context.offsets.query("G1", "Orders", 0) == 3

    def test_rejected_messages_are_passed_over(self, desk, client) -> None:
        for _ in range(5):
            desk.send(properties={"TAGS": "B"})
        answer = client.pop_raw(exp="A")
        assert answer.code == ResponseCode.POLLING_TIMEOUT
        assert desk.context.offsets.query("G1", "Orders", 0) == 5

    def test_an_sql_filter_tests_properties_also_of_retried_messages(
        self, make_desk, pop_client
    ) -> None:
        desk = make_desk(enablePropertyFilter="true")
        desk.topic("Orders")
        client = pop_client(desk)
        for number in range(4):
            desk.send(body=b"%d" % number, properties={"a": str(number)})
        how = {"exp": "a > 1", "expType": "SQL92"}
        assert bodies(client.pop(invisibleTime=1_000, **how)) == [b"2", b"3"]
        desk.advance(4_000)
        assert bodies(client.pop(**how)) == [b"2", b"3"]


class TestInitMode:
    """Where a group without an offset starts."""

    def test_minimum(self, desk, client) -> None:
        for _ in range(3):
            desk.send()
        assert len(client.pop(initMode=0)) == 3

    def test_maximum_is_the_first_message_while_it_is_in_memory(self, desk, client) -> None:
        for _ in range(3):
            desk.send()
        assert len(client.pop(initMode=1)) == 3

    def test_maximum_is_the_last_message(self, make_desk, pop_client) -> None:
        desk = make_desk(initPopOffsetByCheckMsgInMem="false")
        desk.topic("Orders")
        for number in range(3):
            desk.send(body=b"%d" % number)
        assert bodies(pop_client(desk).pop(initMode=1)) == [b"2"]

    def test_the_initial_offset_of_an_empty_queue_is_kept(self, make_desk, pop_client) -> None:
        desk = make_desk(initPopOffsetByCheckMsgInMem="false")
        desk.topic("Orders")
        client = pop_client(desk)
        assert client.pop(initMode=1) == []
        for number in range(3):
            desk.send(body=b"%d" % number)
        assert bodies(client.pop(initMode=1)) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("merge", ["false", "true"])
class TestReset:
    """A reset on the broker moves the next pop, with and without the buffer."""

    @pytest.fixture
    def client(self, make_desk, pop_client, merge):
        desk = make_desk(enablePopBufferMerge=merge)
        desk.topic("Orders", 1)
        desk.context.groups.find("G1")
        for number in range(6):
            desk.send(body=b"%d" % number)
        return pop_client(desk)

    def reset(self, client, offset: int) -> None:
        ext = {
            "topic": "Orders", "group": "G1", "timestamp": -1, "isForce": "true",
            "queueId": 0, "offset": offset,
        }  # fmt: skip
        answer = client.desk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)
        assert answer.code == 0, answer.remark

    def test_back_to_an_earlier_offset(self, client) -> None:
        assert len(client.pop(maxMsgNums=4)) == 4
        self.reset(client, 1)
        assert bodies(client.pop()) == [b"1", b"2", b"3", b"4", b"5"]

    def test_before_the_first_pop(self, client) -> None:
        self.reset(client, 3)
        assert bodies(client.pop()) == [b"3", b"4", b"5"]

    def test_acks_of_messages_before_the_reset_do_not_move_it(self, client) -> None:
        popped = client.pop(maxMsgNums=4)
        self.reset(client, 1)
        for one in popped:
            assert client.ack(one).code == 0
        client.desk.advance(200)
        assert bodies(client.pop(maxMsgNums=2)) == [b"1", b"2"]

    def test_past_the_end_waits_for_new_messages(self, client) -> None:
        client.pop(maxMsgNums=2)
        self.reset(client, 7)
        assert client.pop() == []
        client.desk.send(body=b"6")
        assert bodies(client.pop()) == [b"6"]

    def test_of_an_ordered_group_ends_its_block(self, client) -> None:
        assert len(client.pop(order="true", maxMsgNums=4)) == 4
        assert client.pop(order="true") == []
        self.reset(client, 2)
        assert bodies(client.pop(order="true")) == [b"2", b"3", b"4", b"5"]


class TestLongPolling:
    """Waiting pops: woken by arrivals, answered at their deadline."""

    def test_a_waiting_pop_gets_the_message_that_arrives(self, desk, client, decode_frame) -> None:
        assert client.pop_raw(pollTime=5_000) is None
        desk.send(body=b"now")
        (answer,) = desk.connection.commands
        assert bodies(client.messages(answer)) == [b"now"]

    def test_at_the_deadline_it_times_out(self, desk, client) -> None:
        assert client.pop_raw(pollTime=5_000) is None
        desk.advance(4_900)
        assert desk.connection.sent == []
        desk.advance(200)
        (answer,) = desk.connection.commands
        assert answer.code == ResponseCode.POLLING_TIMEOUT

    def test_a_filtered_pop_is_not_woken_by_other_messages(self, desk, client) -> None:
        assert client.pop_raw(pollTime=5_000, exp="A") is None
        desk.send(properties={"TAGS": "B"})
        assert desk.connection.sent == []
        desk.send(properties={"TAGS": "A"}, body=b"a")
        (answer,) = desk.connection.commands
        assert bodies(client.messages(answer)) == [b"a"]

    def test_one_message_wakes_one_waiting_pop_of_each_group(
        self, desk, client, pop_client
    ) -> None:
        other = pop_client(desk, group="G2")
        for one in (client, client, other):
            assert one.pop_raw(pollTime=5_000) is None
        desk.send()
        assert [answer.code for answer in desk.connection.commands] == [0, 0]

    def test_a_revived_message_wakes_a_waiting_pop(self, desk, client) -> None:
        desk.send(body=b"again")
        client.pop(invisibleTime=1_000)
        assert client.pop_raw(pollTime=20_000) is None
        desk.advance(4_000)
        (answer,) = desk.connection.commands
        assert bodies(client.messages(answer)) == [b"again"]

    def test_more_waiters_than_allowed_get_polling_full(self, make_desk, pop_client) -> None:
        desk = make_desk(popPollingSize="2")
        desk.topic("Orders")
        client = pop_client(desk)
        answers = [client.pop_raw(pollTime=5_000) for _ in range(4)]
        assert answers[:3] == [None] * 3
        assert answers[3].code == ResponseCode.POLLING_FULL
        assert answers[3].remark == "too many pops are waiting (popPollingSize, maxPopPollingSize)"
        other = pop_client(desk, group="G2")
        assert other.pop_raw(pollTime=5_000) is None

    def test_a_closed_connection_takes_its_waiting_pops_and_their_memory_along(
        self, desk, client, fake_connection
    ) -> None:
        gone = fake_connection("127.0.0.1:50099")
        before = desk.context.memory.total_bytes
        for _ in range(5):
            assert client.pop_raw(pollTime=5_000, connection=gone) is None
        assert desk.context.memory.total_bytes > before
        gone.close()
        desk.pop_service.drop_connection(gone)
        assert desk.context.memory.total_bytes == before
        desk.send()
        assert gone.sent == []
        assert len(client.pop()) == 1

    def test_a_backlog_serves_the_waiting_pops_one_after_the_other(self, desk, client) -> None:
        for _ in range(3):
            assert client.pop_raw(pollTime=5_000, maxMsgNums=1) is None
        desk.deferred = True
        for number in range(3):
            desk.send(body=b"%d" % number)
        desk.end_turn()
        found = [one for answer in desk.connection.commands for one in client.messages(answer)]
        assert bodies(found) == [b"0", b"1", b"2"]

    def test_a_filter_reads_on_through_a_long_backlog(self, desk, client) -> None:
        for _ in range(1_000):
            desk.send(properties={"TAGS": "B"})
        desk.send(properties={"TAGS": "A"}, body=b"a")
        answer = client.pop_raw(pollTime=5_000, exp="A", queueId=0)
        if answer is None:
            (answer,) = desk.connection.commands
        assert bodies(client.messages(answer)) == [b"a"]


def test_a_topic_with_many_queues_is_popped_in_slices(desk, pop_client, monkeypatch) -> None:
    """Other requests are served between the slices; the last queue is still reached."""
    monkeypatch.setattr(pop_module, "QUEUES_AT_ONCE", 10)
    desk.topic("Wide", queues=95)
    desk.send("Wide", b"last", queue_id=94)
    slept = []
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr("broker.server.slices.asyncio.sleep", counted)
    client = pop_client(desk, "Wide")
    assert bodies(client.pop(maxMsgNums=32)) == [b"last"]
    assert len(slept) == 9
    assert client.pop_raw(pollTime=0).code == ResponseCode.POLLING_TIMEOUT


def test_a_wide_retry_topic_is_popped_in_slices(desk, pop_client, monkeypatch) -> None:
    monkeypatch.setattr(pop_module, "QUEUES_AT_ONCE", 10)
    desk.topic("Orders")
    client = pop_client(desk, "Orders")
    retry = pop_retry_topic("Orders", "G1", version_2=False)
    desk.topic(retry, queues=95)
    slept = []
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr("broker.server.slices.asyncio.sleep", counted)
    assert client.pop_raw(pollTime=0).code == ResponseCode.POLLING_TIMEOUT
    assert len(slept) == 9  # 95 retry queues and the 4 of the topic
    desk.send(retry, b"again", queue_id=94)
    assert bodies(client.pop(maxMsgNums=32)) == [b"again"]
