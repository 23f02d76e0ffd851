"""Lag, time spans, subscriptions, statistics."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.common.subscription import build_subscription
from broker.remoting.protocol.body.consumer import consume as bodies
from broker.remoting.protocol.body.namesrv.route import TopicList
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.client.clients import ClientChannel, ConsumerProfile

Q0, Q1 = (MessageQueue("Orders", "broker-a", number) for number in range(2))


@pytest.fixture
def behind(desk):
    """Three messages in queue 0, of which G1 has consumed one and pulled two."""
    desk.topic("Orders", 2)
    for _ in range(3):
        desk.send()
        desk.clock.advance(1000)
    desk.context.offsets.commit("G1", "Orders", 0, 1)
    desk.context.offsets.note_pull("Orders@G1", 0, 2)
    return desk


def online(desk, *topics):
    channel = ClientChannel(desk.connection, "c1", "JAVA", 479, 0)
    data = [build_subscription(topic, "*", sub_version=1) for topic in topics]
    desk.context.consumers.register("G1", channel, ConsumerProfile(), data)


def stats(desk, **fields) -> bodies.ConsumeStats:
    answer = desk.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "G1", **fields})
    assert answer.code == 0
    return bodies.ConsumeStats.from_bytes(answer.body_bytes())


def test_lag_per_queue(behind) -> None:
    table = stats(behind).offset_table
    first = behind.messages("Orders")[0]
    assert table[Q0] == bodies.OffsetWrapper(
        broker_offset=3,
        consumer_offset=1,
        pull_offset=2,
        last_timestamp=first.store_timestamp,
    )
    assert table[Q1] == bodies.OffsetWrapper()


def test_named_topic_without_offsets_counts_from_zero(behind) -> None:
    behind.topic("Other", 1)
    table = stats(behind, topic="Other").offset_table
    assert list(table) == [MessageQueue("Other", "broker-a", 0)]


def test_online_group_shows_its_topics_only(behind) -> None:
    online(behind, "Other")
    assert stats(behind).offset_table == {}
    assert set(stats(behind, topicList="Orders;Unknown").offset_table) == {Q0, Q1}
    online(behind, "Orders")
    assert set(stats(behind).offset_table) == {Q0, Q1}


def test_unknown_topic_is_an_empty_table(behind) -> None:
    assert stats(behind, topic="Unknown").offset_table == {}


def test_consume_tps_sums_the_topics(behind) -> None:
    behind.pull()
    behind.context.stats.sample(behind.clock.now_ms())
    assert stats(behind).consume_tps == 3 * 1000 / 10_000


def test_whole_broker_in_one_answer(behind) -> None:
    behind.context.groups.find("G1")
    answer = behind.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    body = bodies.ConsumeStatsList.from_bytes(answer.body_bytes())
    assert (body.total_diff, body.total_inflight_diff) == (2, 1)
    assert body.broker_addr == behind.context.address
    groups = {name: found for entry in body.consume_stats_list for name, found in entry.items()}
    assert groups["G1"][0].offset_table[Q0].broker_offset == 3
    assert groups["TOOLS_CONSUMER"] == []
    answer = behind.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "true"})
    assert bodies.ConsumeStatsList.from_bytes(answer.body_bytes()).total_diff == 0


def test_time_spans(behind) -> None:
    ext = {"topic": "Orders", "group": "G1"}
    answer = behind.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, ext)
    spans = bodies.QueryConsumeTimeSpanBody.from_bytes(answer.body_bytes()).consume_time_span_set
    times = [m.store_timestamp for m in behind.messages("Orders")]
    assert spans[0].message_queue == Q0
    assert (spans[0].min_time_stamp, spans[0].max_time_stamp) == (times[0], times[2])
    assert spans[0].consume_time_stamp == times[0]
    assert spans[0].delay_time == behind.clock.now_ms() - times[1]
    assert (spans[1].min_time_stamp, spans[1].delay_time) == (-1, 0)
    answer = behind.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "No", "group": "G1"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_correction_offsets_are_the_lowest_of_other_groups(behind) -> None:
    offsets = behind.context.offsets
    offsets.commit("G2", "Orders", 0, 3)
    offsets.commit("G3", "Orders", 0, 2)
    ext = {"filterGroups": "G1", "compareGroup": "G9", "topic": "Orders"}
    answer = behind.ask(RequestCode.QUERY_CORRECTION_OFFSET, ext)
    body = bodies.QueryCorrectionOffsetBody.from_bytes(answer.body_bytes())
    assert body.correction_offsets == {0: 2}
    assert offsets.query("G1", "Orders", 0) == 1, "Java deletes them here"


def test_topics_and_subscription_of_a_group(behind) -> None:
    answer = behind.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "G1"})
    assert TopicList.from_bytes(answer.body_bytes()).topic_list == ["Orders"]
    ext = {"group": "G1", "topic": "Orders"}
    code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    body = bodies.QuerySubscriptionResponseBody.from_bytes(behind.ask(code, ext).body_bytes())
    assert body.subscription_data is None
    online(behind, "Orders")
    body = bodies.QuerySubscriptionResponseBody.from_bytes(behind.ask(code, ext).body_bytes())
    assert body.subscription_data.sub_string == "*"


@pytest.mark.parametrize(
    ("name", "key", "total"),
    [("TOPIC_PUT_NUMS", "Orders", 3), ("BROKER_PUT_NUMS", "DefaultCluster", 3)],
)
def test_statistics_by_name(behind, name, key, total) -> None:
    ext = {"statsName": name, "statsKey": key}
    answer = behind.ask(RequestCode.VIEW_BROKER_STATS_DATA, ext)
    body = bodies.BrokerStatsData.from_bytes(answer.body_bytes())
    assert body.stats_minute.sum == body.stats_hour.sum == body.stats_day.sum == total


def test_unknown_statistic(behind) -> None:
    ext = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "Unknown"}
    answer = behind.ask(RequestCode.VIEW_BROKER_STATS_DATA, ext)
    assert answer.code == ResponseCode.SYSTEM_ERROR


def test_a_filtered_group_and_the_compared_queues_limit_a_correction(behind) -> None:
    offsets = behind.context.offsets
    for group, of_0, of_1 in (("G2", 3, 1), ("G3", 2, 2)):
        offsets.commit(group, "Orders", 0, of_0)
        offsets.commit(group, "Orders", 1, of_1)

    def corrected(**ext: str) -> dict[int, int]:
        fields = {"filterGroups": "", "compareGroup": "", "topic": "Orders", **ext}
        answer = behind.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields)
        return bodies.QueryCorrectionOffsetBody.from_bytes(answer.body_bytes()).correction_offsets

    assert corrected() == {0: 1, 1: 1}
    assert corrected(filterGroups="G1,G2") == {0: 2, 1: 2}
    assert corrected(filterGroups="G1,,G2,G3") == {}
    assert corrected(filterGroups="G1", compareGroup="G1") == {0: 2}, "G1 is before all others"
    assert corrected(compareGroup="G2") == {0: 1, 1: 1}, "no queue of G2 is before the others"


def test_a_queue_without_messages_has_no_times(desk) -> None:
    desk.topic("Empty", 2)
    ext = {"topic": "Empty", "group": "G1"}
    answer = desk.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, ext)
    spans = bodies.QueryConsumeTimeSpanBody.from_bytes(answer.body_bytes()).consume_time_span_set
    assert [one.message_queue.queue_id for one in spans] == [0, 1]
    assert {one.delay_time for one in spans} == {0}
    assert {one.min_time_stamp for one in spans} == {one.max_time_stamp for one in spans} == {-1}


@pytest.mark.parametrize("consumed", [0, 1, 2, 3])
def test_the_delay_is_the_age_of_the_next_message(desk, consumed) -> None:
    desk.topic("Orders", 1)
    for _ in range(3):
        desk.send()
        desk.clock.advance(1_000)
    if consumed:
        desk.context.offsets.commit("G1", "Orders", 0, consumed)
    answer = desk.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "Orders", "group": "G1"})
    (span,) = bodies.QueryConsumeTimeSpanBody.from_bytes(answer.body_bytes()).consume_time_span_set
    assert span.delay_time == (3 - consumed) * 1_000


def test_an_unknown_group_has_no_topics_and_no_subscription(desk) -> None:
    answer = desk.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "unknown"})
    assert TopicList.from_bytes(answer.body_bytes()).topic_list == []
    ext = {"group": "unknown", "topic": "Orders"}
    answer = desk.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, ext)
    body = bodies.QuerySubscriptionResponseBody.from_bytes(answer.body_bytes())
    assert (body.group, body.topic, body.subscription_data) == ("unknown", "Orders", None)


@pytest.mark.parametrize("topics", ["", ";", " ; ", ";;Orders;;", "Orders;Orders"])
def test_blank_entries_of_a_topic_list_are_ignored(behind, topics) -> None:
    table = stats(behind, topicList=topics).offset_table
    assert set(table) == {Q0, Q1}


@pytest.mark.parametrize(
    ("name", "key"),
    [("", ""), ("TOPIC_PUT_NUMS", ""), ("NO_SUCH", "Orders"), ("BROKER_PUT_NUMS", "no cluster")],
)
def test_the_remark_names_the_unknown_statistic(behind, name, key) -> None:
    ext = {"statsName": name, "statsKey": key}
    answer = behind.ask(RequestCode.VIEW_BROKER_STATS_DATA, ext)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"The stats <{name}> <{key}> not exist"


def test_reads_of_the_broker_are_counted_in_the_clusters_statistic(behind) -> None:
    behind.pull()
    ext = {"statsName": "BROKER_GET_NUMS", "statsKey": "DefaultCluster"}
    answer = behind.ask(RequestCode.VIEW_BROKER_STATS_DATA, ext)
    assert bodies.BrokerStatsData.from_bytes(answer.body_bytes()).stats_day.sum == 3
