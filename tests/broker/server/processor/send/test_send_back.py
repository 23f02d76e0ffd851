"""Sending a failed message back: delay levels, retry topic, DLQ."""

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import SCHEDULE_TOPIC, TopicConfig
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.store.results import MessageExtBrokerInner


@pytest.fixture
def stored(desk):
    desk.topic("Orders")
    desk.send(body=b"fails", properties={"KEYS": "k", "TAGS": "A"}, h=3)
    return desk


def send_back(desk, message, *, level=0, group="G1", version=479, **fields):
    ext = {
        "offset": message.physical_offset,
        "group": group,
        "delayLevel": level,
        "originMsgId": message.uniq_key,
        "originTopic": message.topic,
        **fields,
    }
    return desk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ext, version=version)


def scheduled(desk, level: int):
    return desk.messages(SCHEDULE_TOPIC, level - 1)


def test_first_failure_waits_at_level_three(stored) -> None:
    (message,) = stored.messages("Orders")
    answer = send_back(stored, message)
    assert (answer.code, answer.remark) == (0, None)
    (copy,) = scheduled(stored, 3)
    assert copy.body == b"fails"
    assert copy.reconsume_times == 1
    assert (copy.flag, copy.born_timestamp) == (3, message.born_timestamp)
    assert copy.born_host == message.born_host
    assert copy.properties == {
        **message.properties,
        "RETRY_TOPIC": "Orders",
        "ORIGIN_MESSAGE_ID": message.offset_msg_id,
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": "%RETRY%G1",
        "REAL_QID": "0",
    }
    assert stored.context.topics.get("%RETRY%G1").perm == 6


def test_each_further_failure_waits_a_level_longer(stored) -> None:
    (message,) = stored.messages("Orders")
    send_back(stored, message)
    stored.clock.advance(10_000)
    stored.context.delays.deliver_due()
    (retried,) = stored.messages("%RETRY%G1")
    assert retried.reconsume_times == 1
    send_back(stored, retried)
    (copy,) = scheduled(stored, 4)
    assert copy.reconsume_times == 2
    assert copy.properties["RETRY_TOPIC"] == "Orders"
    assert copy.properties["ORIGIN_MESSAGE_ID"] == message.offset_msg_id


def test_level_of_the_request_is_taken(stored) -> None:
    send_back(stored, stored.messages("Orders")[0], level=5)
    assert len(scheduled(stored, 5)) == 1


def test_level_below_zero_is_the_dlq(stored) -> None:
    send_back(stored, stored.messages("Orders")[0], level=-1)
    (dead,) = stored.messages("%DLQ%G1")
    assert dead.properties["DELAY"] == "0"
    assert dead.reconsume_times == 1
    assert stored.context.topics.get("%DLQ%G1").perm == 6


def test_too_many_tries_are_the_dlq(stored) -> None:
    config = SubscriptionGroupConfig(group_name="G1", retry_max_times=0)
    stored.context.groups.put_all([config])
    send_back(stored, stored.messages("Orders")[0])
    assert len(stored.messages("%DLQ%G1")) == 1


def test_limit_of_the_request_wins_for_new_clients(stored) -> None:
    (message,) = stored.messages("Orders")
    send_back(stored, message, maxReconsumeTimes=0)
    assert len(stored.messages("%DLQ%G1")) == 1
    send_back(stored, message, maxReconsumeTimes=0, version=100)
    assert len(scheduled(stored, 3)) == 1


def test_group_without_retry_queues_loses_the_message_on_purpose(stored) -> None:
    config = SubscriptionGroupConfig(group_name="G1", retry_queue_nums=0)
    stored.context.groups.put_all([config])
    end = stored.store.max_physical_offset
    assert send_back(stored, stored.messages("Orders")[0]).code == 0
    assert stored.store.max_physical_offset == end


def test_unknown_group(make_desk) -> None:
    desk = make_desk(autoCreateSubscriptionGroup="false")
    desk.topic("Orders")
    desk.send()
    answer = send_back(desk, desk.messages("Orders")[0])
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_broker_and_retry_topic_must_be_writable(make_desk) -> None:
    desk = make_desk(brokerPermission="4")
    desk.topic("Orders")
    desk.send()
    answer = send_back(desk, desk.messages("Orders")[0])
    assert answer.code == ResponseCode.NO_PERMISSION


def test_retry_topic_that_may_not_be_written(stored) -> None:
    stored.topic("%RETRY%G1", 1, perm=4)
    answer = send_back(stored, stored.messages("Orders")[0])
    assert answer.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("topic", ["%RETRY%G1_Orders", "%RETRY%G1+Orders"])
@pytest.mark.parametrize("level", [-1, 3])
def test_copy_of_a_message_redelivered_by_pop_names_its_first_topic(desk, topic, level) -> None:
    """`mqadmin dlq replay` sends to RETRY_TOPIC; Java names the POP retry topic there."""
    desk.context.topics.ensure(topic, 1)
    desk.store.put_message(MessageExtBrokerInner(topic, 0, b"x", b"UNIQ_KEY\x01U\x02"))
    (message,) = desk.messages(topic)
    assert send_back(desk, message, level=level).code == 0
    (copy,) = desk.messages("%DLQ%G1") if level < 0 else scheduled(desk, level)
    assert copy.properties["RETRY_TOPIC"] == "Orders"
    assert desk.context.stats.find("SNDBCK_PUT_NUMS", "Orders@G1").value == 1


def test_only_queues_of_an_existing_retry_topic_are_used(stored) -> None:
    """The group's retryQueueNums was raised after its retry topic was created."""
    stored.topic("%RETRY%G1", 2)
    config = SubscriptionGroupConfig(group_name="G1", retry_queue_nums=16)
    stored.context.groups.put_all([config])
    (message,) = stored.messages("Orders")
    for _ in range(40):
        assert send_back(stored, message).code == 0
    stored.clock.advance(10_000)
    stored.context.delays.deliver_due()
    found = [len(stored.messages("%RETRY%G1", queue_id)) for queue_id in (0, 1)]
    assert sum(found) == 40
    assert 0 not in found


def test_queue_of_the_retry_topic_that_is_not_read_is_not_used(stored) -> None:
    stored.context.topics.put(TopicConfig("%RETRY%G1", read_queue_nums=1, write_queue_nums=8))
    config = SubscriptionGroupConfig(group_name="G1", retry_queue_nums=8)
    stored.context.groups.put_all([config])
    for _ in range(20):
        send_back(stored, stored.messages("Orders")[0])
    assert {copy.properties["REAL_QID"] for copy in scheduled(stored, 3)} == {"0"}


def test_retry_topic_without_queues_is_an_error(stored) -> None:
    stored.context.topics.put(TopicConfig("%RETRY%G1", read_queue_nums=0, write_queue_nums=0))
    answer = send_back(stored, stored.messages("Orders")[0])
    assert (answer.code, "%RETRY%G1" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)


def test_message_that_is_gone(stored) -> None:
    (message,) = stored.messages("Orders")
    message.physical_offset = 10**9
    answer = send_back(stored, message)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    message.physical_offset = 5
    assert send_back(stored, message).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("length", [249, 250, 255])
@pytest.mark.parametrize("level", [0, 3])
def test_group_whose_retry_topic_cannot_be_stored_is_an_error(stored, length, level) -> None:
    """As in Java 5.3.3; nothing is stored, no topic is made, the client keeps its message."""
    (message,) = stored.messages("Orders")
    group = "g" * length
    end, topics = stored.store.max_physical_offset, set(stored.context.topics.configs)
    answer = send_back(stored, message, group=group, level=level)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"MESSAGE_ILLEGAL: topic of {7 + length} bytes"
    assert stored.store.max_physical_offset == end
    assert set(stored.context.topics.configs) == topics


def test_longest_group_that_fits_is_retried(stored) -> None:
    group = "g" * 248
    assert send_back(stored, stored.messages("Orders")[0], group=group).code == 0
    stored.clock.advance(10_000)
    stored.context.delays.deliver_due()
    assert len(stored.messages(f"%RETRY%{group}")) == 1


@pytest.mark.parametrize(("length", "code"), [(122, 0), (123, 1), (248, 1)])
def test_dlq_topic_has_at_most_127_bytes(stored, length, code) -> None:
    """**Source:** RocketMQ HookUtils#checkBeforePutMessage: only %RETRY% may be longer."""
    group = "g" * length
    assert send_back(stored, stored.messages("Orders")[0], group=group, level=-1).code == code
    assert (f"%DLQ%{group}" in stored.context.topics) == (code == 0)


def test_damaged_original_is_not_copied_under_a_fresh_checksum(stored) -> None:
    (message,) = stored.messages("Orders")
    file = stored.store.log.files.files[0]
    record = bytes(stored.store.get_record_at(message.physical_offset))
    file.mapping[message.physical_offset + record.index(b"fails")] ^= 1
    answer = send_back(stored, message)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert str(message.physical_offset) in answer.remark


def test_store_that_takes_no_writes_names_its_status(stored) -> None:
    (message,) = stored.messages("Orders")
    stored.store.put_message = lambda inner: type(
        "R", (), {"status": type("S", (), {"name": "SERVICE_NOT_AVAILABLE"})()}
    )()
    answer = send_back(stored, message)
    assert (answer.code, answer.remark) == (1, "SERVICE_NOT_AVAILABLE")


def test_send_backs_are_counted(stored) -> None:
    send_back(stored, stored.messages("Orders")[0])
    assert stored.context.stats.find("SNDBCK_PUT_NUMS", "Orders@G1").value == 1


def test_sixteen_retries_take_the_waits_of_the_table_and_end_in_the_dlq(stored) -> None:
    """A message that always fails: 17 deliveries in four and a half hours, then the DLQ."""
    waits_s = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
    clock, delays = stored.clock, stored.context.delays
    (message,) = stored.messages("Orders")
    began_ms = clock.monotonic_ms()
    for number, wait_s in enumerate(waits_s, start=1):
        assert send_back(stored, message).code == 0
        clock.advance(wait_s * 1000 - 1)
        delays.deliver_due()
        assert stored.store.get_max_offset("%RETRY%G1", 0) == number - 1, "not before it is due"
        clock.advance(1)
        delays.deliver_due()
        *_, message = stored.messages("%RETRY%G1")
        assert message.reconsume_times == number
        assert message.body == b"fails"
    assert clock.monotonic_ms() - began_ms == sum(waits_s) * 1000
    assert send_back(stored, message).code == 0
    (dead,) = stored.messages("%DLQ%G1")
    assert (dead.body, dead.reconsume_times) == (b"fails", 17)
    assert dead.properties["RETRY_TOPIC"] == "Orders"
    assert dead.properties["ORIGIN_MESSAGE_ID"] == stored.messages("Orders")[0].offset_msg_id
    assert stored.store.get_max_offset("%RETRY%G1", 0) == 16


def test_permissions_apply_to_clients_that_are_running(stored) -> None:
    """Permissions take effect with the next request, in both directions."""
    stored.topic("Orders", perm=4)
    assert stored.send().code == 0, "as in Java only the route keeps producers away"
    assert stored.pull().code == 0
    stored.topic("Orders", perm=2)
    assert stored.pull().code == ResponseCode.NO_PERMISSION
    stored.topic("Orders", perm=6)
    assert (stored.send().code, stored.pull().code) == (0, 0)
