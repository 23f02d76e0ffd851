"""Queue locks, assignment by the broker, request modes."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from msgspec import field

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.body.base import Body


class LockBatchRequestBody(Body, frozen=True, kw_only=True):
    """LOCK_BATCH_MQ (41), UNLOCK_BATCH_MQ (42); ``only_this_broker`` is 5.x.

    **Source:** RocketMQ ``LockBatchRequestBody``, ``UnlockBatchRequestBody``.
    """

    consumer_group: str | None = None
    client_id: str | None = None
    only_this_broker: bool = False
    mq_set: list[MessageQueue] = []


class LockBatchResponseBody(Body, frozen=True, kw_only=True):
    """LOCK_BATCH_MQ (41): the queues now locked by the requesting client.

    **Source:** RocketMQ ``LockBatchResponseBody``.
    """

    lock_ok_mq_set: list[MessageQueue] = field(name="lockOKMQSet", default_factory=list)


class QueryAssignmentRequestBody(Body, frozen=True, kw_only=True):
    """QUERY_ASSIGNMENT (400).

    **Source:** RocketMQ ``QueryAssignmentRequestBody``.
    """

    topic: str | None = None
    consumer_group: str | None = None
    client_id: str | None = None
    strategy_name: str | None = None
    message_model: str | None = None


class MessageQueueAssignment(Body, frozen=True, kw_only=True):
    """One queue and its request mode, PULL or POP; queue id -1 is any queue.

    **Source:** RocketMQ ``MessageQueueAssignment``.
    """

    message_queue: MessageQueue | None = None
    mode: str = "PULL"
    attachments: dict[str, str] | None = None


class QueryAssignmentResponseBody(Body, frozen=True, kw_only=True):
    """QUERY_ASSIGNMENT (400); absent: the broker cannot assign, empty: no queue.

    **Source:** RocketMQ ``QueryAssignmentResponseBody``.
    """

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestModeRequestBody(Body, frozen=True, kw_only=True):
    """SET_MESSAGE_REQUEST_MODE (401); mode PULL or POP.

    **Source:** RocketMQ ``SetMessageRequestModeRequestBody``.
    """

    topic: str | None = None
    consumer_group: str | None = None
    mode: str = "PULL"
    pop_share_queue_num: int = 0


class MessageRequestModeSerializeWrapper(Body, frozen=True, kw_only=True):
    """GET_ALL_MESSAGE_REQUEST_MODE (402): topic to group to mode.

    **Source:** RocketMQ ``MessageRequestModeSerializeWrapper``.
    """

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}
