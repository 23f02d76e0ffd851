"""Offset requests: committed, max, min, by time; reset and clone."""

from broker.remoting.protocol.header.fields import (
    Int32,
    Int64,
    RequestHeader,
    ResponseHeader,
    TopicRequestHeader,
)


class QueueRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """A message queue of one broker: GET_MIN_OFFSET (31), GET_EARLIEST_MSG_STORETIME (32).

    **Source:** RocketMQ ``GetMinOffsetRequestHeader``, ``GetEarliestMsgStoretimeRequestHeader``.
    """

    topic: str
    queue_id: Int32


class GetMaxOffsetRequestHeader(QueueRequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_MAX_OFFSET (30); ``committed`` is sent by Java clients and not used by brokers.

    **Source:** RocketMQ ``GetMaxOffsetRequestHeader``.
    """

    committed: bool | None = None


class SearchOffsetRequestHeader(QueueRequestHeader, frozen=True, kw_only=True, gc=False):
    """SEARCH_OFFSET_BY_TIMESTAMP (29): ``timestamp`` ms, ``boundary_type`` LOWER or UPPER (5.x).

    **Source:** RocketMQ ``SearchOffsetRequestHeader``.
    """

    timestamp: Int64
    boundary_type: str | None = None


class QueryConsumerOffsetRequestHeader(QueueRequestHeader, frozen=True, kw_only=True, gc=False):
    """QUERY_CONSUMER_OFFSET (14).

    ``set_zero_if_not_found`` (5.x) false: never return 0 for a group without offset.

    **Source:** RocketMQ ``QueryConsumerOffsetRequestHeader``.
    """

    consumer_group: str
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffsetRequestHeader(QueueRequestHeader, frozen=True, kw_only=True, gc=False):
    """UPDATE_CONSUMER_OFFSET (15).

    **Source:** RocketMQ ``UpdateConsumerOffsetRequestHeader``.
    """

    consumer_group: str
    commit_offset: Int64


class OffsetResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 14, 29, 30 and 31: a queue offset.

    **Source:** RocketMQ ``QueryConsumerOffsetResponseHeader``, ``SearchOffsetResponseHeader``,
    ``GetMaxOffsetResponseHeader``, ``GetMinOffsetResponseHeader``.
    """

    offset: Int64


class EarliestMsgStoretimeResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 32: store time in ms, -1 if the queue is empty.

    **Source:** RocketMQ ``GetEarliestMsgStoretimeResponseHeader``.
    """

    timestamp: Int64


class ResetOffsetRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """INVOKE_BROKER_TO_RESET_OFFSET (222), RESET_CONSUMER_CLIENT_OFFSET (220).

    ``timestamp`` ms, -1 max offset; ``queue_id`` -1 all queues; ``offset`` (5.x) takes precedence
    over ``timestamp``.

    **Source:** RocketMQ ``ResetOffsetRequestHeader``.
    """

    topic: str
    group: str
    timestamp: Int64
    is_force: bool
    queue_id: Int32 = -1
    offset: Int64 | None = None


class GetConsumerStatusRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223), GET_CONSUMER_STATUS_FROM_CLIENT (221).

    ``client_addr`` is a client id, empty for all members.

    **Source:** RocketMQ ``GetConsumerStatusRequestHeader``.
    """

    topic: str
    group: str
    client_addr: str | None = None


class CloneGroupOffsetRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CLONE_GROUP_OFFSET (314).

    **Source:** RocketMQ ``CloneGroupOffsetRequestHeader``.
    """

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False
