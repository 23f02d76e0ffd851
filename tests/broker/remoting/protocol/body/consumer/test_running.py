"""The running information of a consumer: Java's spellings, queues as keys."""

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.body.consumer.running import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    PopProcessQueueInfo,
    ProcessQueueInfo,
)

MQ = b'{"brokerName":"b-a","queueId":0,"topic":"T1"}'
QUEUE = MessageQueue("T1", "b-a", 0)


def test_a_process_queue_has_the_spelling_of_java() -> None:
    body = ProcessQueueInfo(cached_msg_size_in_mib=3, droped=True).to_bytes()
    assert b'"cachedMsgSizeInMiB":3' in body
    assert b'"droped":true' in body
    assert ProcessQueueInfo.from_bytes(body).cached_msg_size_in_mib == 3


def test_rates_are_spelled_with_capitals() -> None:
    body = (
        b'{"consumeFailedMsgs":1,"consumeFailedTPS":2.0,"consumeOKTPS":3.0,"consumeRT":4.0,'
        b'"pullRT":5.0,"pullTPS":6.0}'
    )
    status = ConsumeStatus.from_bytes(body)
    assert (status.consume_failed_tps, status.consume_ok_tps, status.pull_tps) == (2.0, 3.0, 6.0)
    assert status.to_bytes() == body


def test_queues_are_keys_of_pulled_and_popped_tables() -> None:
    info = ConsumerRunningInfo(
        properties={"PROP_CONSUMEORDERLY": "false"},
        mq_table={QUEUE: ProcessQueueInfo(commit_offset=25)},
        mq_pop_table={QUEUE: PopProcessQueueInfo(wait_ack_count=2)},
    )
    body = info.to_bytes()
    assert b'"mqPopTable":{' + MQ + b':{"droped":false' in body
    assert ConsumerRunningInfo.from_bytes(body) == info


def test_a_4_9_client_sends_no_popped_queues_and_the_stack_only_on_request() -> None:
    info = ConsumerRunningInfo.from_bytes(b'{"mqTable":{},"properties":{}}')
    assert (info.mq_pop_table, info.jstack) == ({}, None)
    assert b"jstack" not in info.to_bytes()


def test_a_direct_consumption_reports_result_and_duration() -> None:
    body = b'{"autoCommit":true,"consumeResult":"CR_LATER","order":false,"spentTimeMills":3}'
    result = ConsumeMessageDirectlyResult.from_bytes(body)
    assert (result.consume_result, result.spent_time_mills) == ("CR_LATER", 3)
    assert result.to_bytes() == body
