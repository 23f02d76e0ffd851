"""POP consumption (5.x); all durations and times in ms."""

from broker.remoting.protocol.header.fields import (
    Int32,
    Int64,
    ResponseHeader,
    TopicRequestHeader,
)


class PopMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """POP_MESSAGE (200050).

    ``queue_id`` -1 any; ``init_mode`` 0 from the min offset, 1 from the max; ``attempt_id`` allows
    an ordered pop to be repeated.

    **Source:** RocketMQ ``PopMessageRequestHeader``.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopMessageResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to a pop or peek; the client builds the receipt handles from these fields.

    **Source:** RocketMQ ``PopMessageResponseHeader``.
    """

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """ACK_MESSAGE (200051); ``extra_info`` receipt handle, ``offset`` queue offset.

    **Source:** RocketMQ ``AckMessageRequestHeader``.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64


class ChangeInvisibleTimeRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """CHANGE_MESSAGE_INVISIBLETIME (200053); ``invisible_time`` counts from now.

    **Source:** RocketMQ ``ChangeInvisibleTimeRequestHeader``.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64


class ChangeInvisibleTimeResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 200053: parts of the new receipt handle.

    **Source:** RocketMQ ``ChangeInvisibleTimeResponseHeader``.
    """

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class PeekMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """PEEK_MESSAGE (200052).

    **Source:** RocketMQ ``PeekMessageRequestHeader``.
    """

    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


class NotificationRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """NOTIFICATION (200054): wait until messages can be popped.

    **Source:** RocketMQ ``NotificationRequestHeader``.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None


class NotificationResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 200054.

    **Source:** RocketMQ ``NotificationResponseHeader``.
    """

    has_msg: bool
    polling_full: bool = False


class PollingInfoRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """POLLING_INFO (200055).

    **Source:** RocketMQ ``PollingInfoRequestHeader``.
    """

    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 200055: number of suspended requests.

    **Source:** RocketMQ ``PollingInfoResponseHeader``.
    """

    polling_num: Int32
