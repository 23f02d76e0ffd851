"""Bodies of queue locks, of assignment by the broker and of request modes."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.body.consumer.lock import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueueAssignment,
    MessageRequestModeSerializeWrapper,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)

MQ = b'{"brokerName":"b-a","queueId":0,"topic":"T1"}'
QUEUE = MessageQueue("T1", "b-a", 0)


def test_a_lock_request_names_group_client_and_queues() -> None:
    request = LockBatchRequestBody(consumer_group="G1", client_id="c1", mq_set=[QUEUE])
    assert request.to_bytes() == (
        b'{"clientId":"c1","consumerGroup":"G1","mqSet":[' + MQ + b'],"onlyThisBroker":false}'
    )
    assert LockBatchRequestBody.from_bytes(request.to_bytes()) == request


def test_a_4_9_client_does_not_send_only_this_broker() -> None:
    assert LockBatchRequestBody.from_bytes(b'{"mqSet":[]}').only_this_broker is False


def test_locked_queues_are_spelled_with_ok_in_capitals() -> None:
    body = LockBatchResponseBody(lock_ok_mq_set=[QUEUE])
    assert body.to_bytes() == b'{"lockOKMQSet":[' + MQ + b"]}"
    assert LockBatchResponseBody.from_bytes(b"{}").lock_ok_mq_set == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b"{}", None), (b'{"messageQueueAssignments":[]}', [])],
    ids=["cannot assign", "no queue"],
)
def test_an_absent_assignment_differs_from_an_empty_one(body: bytes, expected) -> None:
    assert QueryAssignmentResponseBody.from_bytes(body).message_queue_assignments == expected
    again = QueryAssignmentResponseBody(message_queue_assignments=expected)
    assert again.to_bytes() == body


def test_an_assigned_queue_has_a_mode() -> None:
    body = b'{"messageQueueAssignments":[{"messageQueue":' + MQ + b',"mode":"POP"}]}'
    assert QueryAssignmentResponseBody.from_bytes(body).message_queue_assignments == [
        MessageQueueAssignment(message_queue=QUEUE, mode="POP")
    ]
    request = QueryAssignmentRequestBody(topic="T1", consumer_group="G1", strategy_name="AVG")
    assert QueryAssignmentRequestBody.from_bytes(request.to_bytes()) == request


def test_modes_are_pull_unless_set_and_kept_by_topic_and_group() -> None:
    assert SetMessageRequestModeRequestBody.from_bytes(b"{}").mode == "PULL"
    mode = SetMessageRequestModeRequestBody(
        topic="T1", consumer_group="G1", mode="POP", pop_share_queue_num=2
    )
    wrapper = MessageRequestModeSerializeWrapper(message_request_mode_map={"T1": {"G1": mode}})
    assert MessageRequestModeSerializeWrapper.from_bytes(wrapper.to_bytes()) == wrapper
    assert wrapper.to_bytes() == (
        b'{"messageRequestModeMap":{"T1":{"G1":{"consumerGroup":"G1","mode":"POP",'
        b'"popShareQueueNum":2,"topic":"T1"}}}}'
    )
