"""Queries for messages and ConsumeQueue units."""

from msgspec import field

from broker.remoting.protocol.header.fields import (
    Int32,
    Int64,
    RequestHeader,
    ResponseHeader,
    TopicRequestHeader,
)


class QueryMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """QUERY_MESSAGE (12): by key, or by unique key when ``unique_key_query`` is set; times in ms.

    **Source:** RocketMQ ``QueryMessageRequestHeader``, ``MixAll#UNIQUE_MSG_QUERY_FLAG``.
    """

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = field(name="_UNIQUE_KEY_QUERY", default=None)


class QueryMessageResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 12, also with QUERY_NOT_FOUND: end of the index (ms, physical offset).

    **Source:** RocketMQ ``QueryMessageResponseHeader``.
    """

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """VIEW_MESSAGE_BY_ID (33): the record at a physical offset.

    **Source:** RocketMQ ``ViewMessageRequestHeader``.
    """

    topic: str | None = None
    offset: Int64


class QueryConsumeQueueRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """QUERY_CONSUME_QUEUE (321): ``count`` units from queue offset ``index`` on.

    **Source:** RocketMQ ``QueryConsumeQueueRequestHeader``.
    """

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None
