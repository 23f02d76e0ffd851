"""Bodies about consumption: queues as JSON keys, fields of 5.x, absent and empty values."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.body.consumer.consume import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    QuerySubscriptionResponseBody,
)

MQ = b'{"brokerName":"b-a","queueId":0,"topic":"T1"}'
QUEUE = MessageQueue("T1", "b-a", 0)


def test_the_progress_of_a_group_is_keyed_by_queue() -> None:
    wrapper = OffsetWrapper(
        broker_offset=25, consumer_offset=20, pull_offset=22, last_timestamp=1700000000100
    )
    body = (
        b'{"consumeTps":0.0,"offsetTable":{' + MQ + b':{"brokerOffset":25,"consumerOffset":20,'
        b'"lastTimestamp":1700000000100,"pullOffset":22}}}'
    )
    assert ConsumeStats.from_bytes(body).offset_table == {QUEUE: wrapper}
    assert ConsumeStats(offset_table={QUEUE: wrapper}).to_bytes() == body


def test_a_broker_before_5_0_sends_no_pull_offset() -> None:
    body = b'{"consumeTps":0.0,"offsetTable":{' + MQ + b':{"brokerOffset":25,"consumerOffset":20}}}'
    (wrapper,) = ConsumeStats.from_bytes(body).offset_table.values()
    assert (wrapper.broker_offset, wrapper.pull_offset) == (25, 0)


def test_the_groups_of_a_broker_are_a_list_of_maps() -> None:
    body = (
        b'{"brokerAddr":"10.0.0.1:10911","consumeStatsList":[{"G1":[{"consumeTps":0.0,'
        b'"offsetTable":{}}]}],"totalDiff":5,"totalInflightDiff":2}'
    )
    stats = ConsumeStatsList.from_bytes(body)
    assert [list(entry) for entry in stats.consume_stats_list] == [["G1"]]
    assert (stats.total_diff, stats.total_inflight_diff) == (5, 2)
    assert stats.to_bytes() == body
    assert ConsumeStatsList.from_bytes(b'{"totalDiff":5}').total_inflight_diff is None


def test_formatted_times_of_java_survive_although_they_are_not_declared() -> None:
    body = (
        b'{"consumeTimeSpanSet":[{"consumeTimeStamp":1,"consumeTimeStampStr":"x","delayTime":0,'
        b'"maxTimeStamp":3,"messageQueue":' + MQ + b',"minTimeStamp":2}]}'
    )
    span = QueryConsumeTimeSpanBody.from_bytes(body)
    (queue,) = span.consume_time_span_set
    assert (queue.message_queue, queue.min_time_stamp, queue.max_time_stamp) == (QUEUE, 2, 3)
    assert span.to_bytes() == body


def test_correction_offsets_are_keyed_by_unquoted_queue_ids() -> None:
    body = QueryCorrectionOffsetBody(correction_offsets={0: 5, 3: 7})
    assert body.to_bytes() == b'{"correctionOffsets":{0:5,3:7}}'
    assert QueryCorrectionOffsetBody.from_bytes(b'{"correctionOffsets":{"3":7}}') == (
        QueryCorrectionOffsetBody(correction_offsets={3: 7})
    )


def test_an_offline_group_has_no_subscription() -> None:
    body = QuerySubscriptionResponseBody(group="G1", topic="T1")
    assert body.to_bytes() == b'{"group":"G1","topic":"T1"}'


@pytest.mark.parametrize(
    ("body", "units"), [(b'{"maxQueueIndex":25}', None), (b'{"queueData":[]}', 0)]
)
def test_absent_units_differ_from_an_empty_list(body: bytes, units: int | None) -> None:
    found = QueryConsumeQueueResponseBody.from_bytes(body).queue_data
    assert (found if found is None else len(found)) == units


def test_unit_fields_have_the_names_of_java() -> None:
    body = (
        b'{"maxQueueIndex":25,"minQueueIndex":0,"queueData":[{"eval":true,"physicOffset":1000,'
        b'"physicSize":108,"tagsCode":-5}]}'
    )
    found = QueryConsumeQueueResponseBody.from_bytes(body)
    assert found.queue_data is not None
    (unit,) = found.queue_data
    assert (unit.physic_offset, unit.physic_size, unit.tags_code, unit.eval) == (
        1000,
        108,
        -5,
        True,
    )
    assert found.to_bytes() == body


def test_statistics_have_three_windows() -> None:
    item = BrokerStatsItem(sum=3, tps=0.5, avgpt=1.5)
    body = BrokerStatsData(stats_hour=item).to_bytes()
    zero = b'{"avgpt":0.0,"sum":0,"tps":0.0}'
    assert body == (
        b'{"statsDay":'
        + zero
        + b',"statsHour":{"avgpt":1.5,"sum":3,"tps":0.5},"statsMinute":'
        + zero
        + b"}"
    )
    assert BrokerStatsData.from_bytes(body).stats_hour == item
