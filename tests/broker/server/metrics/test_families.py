"""The metrics of a broker: names, labels and values."""

from collections.abc import Callable

import msgspec
import pytest

from broker.common.topic import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from broker.remoting.protocol.codes import RequestCode
from broker.server.client.clients import ConsumerProfile
from broker.server.metrics import families
from broker.server.metrics.message_type import count_put
from broker.store.results import MessageExtBrokerInner
from tests.support.desk import Desk

Table = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def counting(make_desk: Callable[..., Desk]) -> Desk:
    """A broker core that counts message types."""
    return make_desk(metricsExporterType="PROM")


def table(samples) -> Table:
    return {(one.name, frozenset(one.labels.items())): one.value for one in samples}


def in_total(desk: Desk, topic: str, kind: str, system: str = "false") -> float | None:
    labels = {"topic": topic, "message_type": kind, "is_system": system}
    key = "rocketmq_messages_in_total", frozenset(labels.items())
    return table(families.all_samples(desk.context)).get(key)


def test_each_type_of_message_is_counted_under_the_topic_of_its_record(counting: Desk) -> None:
    counting.topic("Orders")
    for _ in range(3):
        assert counting.send().code == 0
    for _ in range(2):
        assert counting.send(properties={"__SHARDINGKEY": "k"}).code == 0
    assert counting.send(properties={"DELAY": "1"}).code == 0
    assert counting.send(properties={"TRAN_MSG": "true", "PGROUP": "p"}).code == 0
    assert in_total(counting, "Orders", "normal") == 3
    assert in_total(counting, "Orders", "fifo") == 2
    assert in_total(counting, SCHEDULE_TOPIC, "delay", "true") == 1
    assert in_total(counting, TRANS_HALF_TOPIC, "transaction", "true") == 1
    assert in_total(counting, "Orders", "delay") is None


def test_bytes_of_the_types_add_up_to_those_of_the_topic(counting: Desk) -> None:
    counting.topic("Orders")
    counting.send(properties={"__SHARDINGKEY": "k"})
    counting.send()
    sums = [
        one.value
        for one in families.received(counting.context)
        if one.name == "rocketmq_throughput_in_total" and one.labels["topic"] == "Orders"
    ]
    assert len(sums) == 2
    assert sum(sums) == counting.store.writer.put_bytes


def test_a_message_that_is_refused_is_not_counted(counting: Desk) -> None:
    counting.topic("Orders")
    body = bytes(counting.store.config.max_message_size + 1)
    assert counting.send(body=body, properties={"__SHARDINGKEY": "k"}).code != 0
    assert in_total(counting, "Orders", "fifo") is None


def test_without_the_exporter_no_type_is_counted(desk: Desk) -> None:
    desk.topic("Orders")
    desk.send(properties={"__SHARDINGKEY": "k"})
    assert in_total(desk, "Orders", "normal") == 1
    assert in_total(desk, "Orders", "fifo") is None


def test_messages_that_the_broker_puts_are_not_received(desk: Desk) -> None:
    desk.topic("Orders")
    desk.send()
    count_put(desk.context.stats, "Orders", 100)
    count_put(desk.context.stats, "%RETRY%G1_Orders", 100)
    found = list(families.received(desk.context))
    assert [(one.labels["topic"], one.value) for one in found] == [
        ("Orders", 1),
        ("Orders", desk.store.writer.put_bytes),
    ]


def test_popped_messages_have_the_label_is_retry(desk: Desk) -> None:
    stats = desk.context.stats
    stats.counter("GROUP_GET_NUMS", "Orders@G1").add(5)
    stats.counter("GROUP_POP_NUMS", "Orders@G1").add(2)
    found = {one.labels.get("is_retry"): one.value for one in families.delivered(desk.context)}
    assert found == {None: 3, "false": 2}


def test_dead_letters_are_counted_by_topic_and_group(desk: Desk) -> None:
    desk.context.stats.counter("DLQ_PUT_NUMS", "Orders@G1").add(2)
    (found,) = families.delivered(desk.context)
    assert found.name == "rocketmq_send_to_dlq_messages_total"
    assert found.labels == {"topic": "Orders", "consumer_group": "G1", "is_system": "false"}
    assert found.value == 2


def test_ended_transactions_are_counted_by_topic(desk: Desk) -> None:
    for commit in (True, True, False):
        desk.context.stats.count_ended("Orders", commit)
    found = {one.name: one.value for one in families.transactions(desk.context)}
    assert found == {
        "rocketmq_commit_messages_total": 2,
        "rocketmq_rollback_messages_total": 1,
    }


def test_deliveries_are_counted_by_group(desk: Desk) -> None:
    desk.topic("Orders")
    desk.send()
    assert desk.pull().code == 0
    labels = {"topic": "Orders", "consumer_group": "G1", "is_system": "false"}
    found = table(families.delivered(desk.context))
    assert found["rocketmq_messages_out_total", frozenset(labels.items())] == 1
    assert found["rocketmq_throughput_out_total", frozenset(labels.items())] > 0


@pytest.mark.parametrize(
    ("topic", "shown"),
    [("%RETRY%G1", None), ("%RETRY%G1_Orders", "Orders"), ("%RETRY%G1+Orders", "Orders")],
)
def test_retries_count_under_their_first_topic(desk: Desk, topic: str, shown: str | None) -> None:
    desk.context.stats.counter("GROUP_GET_NUMS", f"{topic}@G1").add(2)
    found = [(one.labels, one.value) for one in families.delivered(desk.context)]
    if shown is None:
        assert found == []
        return
    labels = {"topic": shown, "consumer_group": "G1", "is_system": "false", "is_retry": "true"}
    assert found == [(labels, 2)]


def test_retry_topics_of_both_versions_are_one_series(desk: Desk) -> None:
    for topic in ("%RETRY%G1_Orders", "%RETRY%G1+Orders"):
        desk.context.stats.counter("GROUP_GET_NUMS", f"{topic}@G1").add(2)
    (found,) = families.delivered(desk.context)
    assert found.value == 4


def test_the_state_of_the_broker_and_its_store(desk: Desk) -> None:
    desk.topic("Orders")
    found = {one.name: one.value for one in families.all_samples(desk.context) if not one.labels}
    assert found["rocketmq_broker_permission"] == 6
    assert found["rocketmq_topic_number"] == len(desk.context.topics.configs)
    disk = {one.name: one for one in families.store(desk.context)}
    assert set(disk) == {
        "rocketmq_storage_size_bytes",
        "rocketmq_storage_flush_behind_bytes",
        "rocketmq_storage_dispatch_behind_bytes",
        "rocketmq_storage_message_reserve_time_milliseconds",
    }
    labels = {"storage_type": "local", "storage_medium": "disk"}
    assert all(one.labels == labels for one in disk.values())
    assert disk["rocketmq_storage_message_reserve_time_milliseconds"].value == 0
    desk.send()
    desk.advance(5_000)
    disk = {one.name: one for one in families.store(desk.context)}
    assert disk["rocketmq_storage_message_reserve_time_milliseconds"].value == 5_000


def test_messages_are_counted_by_the_path_that_stored_them(desk: Desk) -> None:
    desk.topic("Orders")
    for _ in range(5):
        desk.send()
    desk.context.ingest.frames = 3
    found = {one.name: (one.kind, one.value) for one in families.ingest(desk.context)}
    assert found == {
        "rocketmq_plain_ingest_messages_total": ("counter", 2),
        "rocketmq_vectorized_ingest_messages_total": ("counter", 3),
    }


def test_every_lane_has_a_watermark(desk: Desk) -> None:
    names = {
        one.labels["processor"]
        for one in families.state(desk.context)
        if one.name == "rocketmq_processor_watermark"
    }
    assert {"send", "pull", "ack", "query_message", "heartbeat", "transaction", "admin"} <= names


def online(desk: Desk, group: str = "G1", topic: str = "Orders") -> None:
    """A heartbeat of a push consumer."""
    subscription = {"topic": topic, "subString": "*", "subVersion": 1}
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    body = {"clientID": "c1", "consumerDataSet": [consumer], "producerDataSet": []}
    assert desk.ask(RequestCode.HEART_BEAT, body=msgspec.json.encode(body)).code == 0


def lag_of(desk: Desk) -> dict[str, float]:
    labels = {"consumer_group": "G1", "topic": "Orders", "is_retry": "false", "is_system": "false"}
    found = [one for part in families.lag(desk.context) for one in part]
    return {one.name: one.value for one in found if one.labels == labels}


def test_the_lag_of_an_online_group_is_in_messages_and_milliseconds(desk: Desk) -> None:
    desk.topic("Orders", queues=2)
    online(desk)
    desk.context.offsets.commit("G1", "Orders", 0, 0)
    for _ in range(3):
        desk.send()
        desk.advance(1_000)
    assert desk.pull(queue_offset=1).code == 0
    desk.context.offsets.note_pull("Orders@G1", 0, 2)
    assert lag_of(desk) == {
        "rocketmq_consumer_lag_messages": 3,
        "rocketmq_consumer_lag_latency_milliseconds": 3_000,
        "rocketmq_consumer_inflight_messages": 2,
        "rocketmq_consumer_ready_messages": 1,
        "rocketmq_consumer_queueing_latency_milliseconds": 1_000,
    }
    desk.context.offsets.commit("G1", "Orders", 0, 3)
    assert set(lag_of(desk).values()) == {0}


def test_the_retries_of_a_group_that_pops_have_a_lag(desk: Desk) -> None:
    desk.topic("Orders")
    online(desk)
    consumers = desk.context.consumers.get("G1")
    consumers.profile = ConsumerProfile(consume_type="CONSUME_POP")
    for retry_topic in ("%RETRY%G1_Orders", "%RETRY%G1+Orders"):
        desk.topic(retry_topic, queues=1)
        desk.context.offsets.commit("G1", retry_topic, 0, 0)
        assert desk.store.put_message(MessageExtBrokerInner(retry_topic, 0, b"x")).queue_offset == 0
    desk.end_turn()
    desk.advance(1_000)
    found = [one for part in families.lag(desk.context) for one in part]
    lags = {
        one.labels["is_retry"]: (one.labels["topic"], one.value)
        for one in found
        if one.name == "rocketmq_consumer_lag_messages"
    }
    assert lags == {"false": ("Orders", 0), "true": ("Orders", 2)}


def test_a_queue_without_a_committed_offset_has_no_lag(desk: Desk) -> None:
    desk.topic("Orders", queues=1)
    online(desk)
    desk.send()
    assert lag_of(desk)["rocketmq_consumer_lag_messages"] == 0


def test_a_group_without_a_client_has_no_sample(desk: Desk) -> None:
    desk.topic("Orders")
    desk.context.offsets.commit("G1", "Orders", 0, 0)
    assert lag_of(desk) == {}


def test_connections_are_counted_by_language_and_version(desk: Desk) -> None:
    desk.topic("Orders")
    online(desk)
    (found,) = families.connections(desk.context)
    assert found.name == "rocketmq_consumer_connections"
    assert found.value == 1
    assert found.labels == {
        "consumer_group": "G1",
        "language": "java",
        "version": "v5_3_3",
        "consume_mode": "push",
        "protocol_type": "remoting",
        "is_system": "false",
    }


def test_consumers_that_pop_have_a_mode_of_their_own(desk: Desk) -> None:
    online(desk)
    consumers = desk.context.consumers.get("G1")
    consumers.profile = ConsumerProfile(consume_type="CONSUME_POP")
    (found,) = families.connections(desk.context)
    assert found.labels["consume_mode"] == "pop"
