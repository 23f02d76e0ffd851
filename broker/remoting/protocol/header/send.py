"""Producer requests: send, send back, reply, recall.

``SendMessageRequestHeaderV2`` has the attributes of the long form with one-letter wire names, so
handlers support both.
"""

from msgspec import field

from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.header.fields import (
    Int32,
    Int64,
    RequestHeader,
    ResponseHeader,
    TopicRequestHeader,
    decode_header_fields,
)


class SendMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """SEND_MESSAGE (10), SEND_REPLY_MESSAGE (324).

    ``queue_id`` -1: the broker selects one; ``sys_flag`` message flag bits; ``born_timestamp`` ms;
    ``properties`` the 0x01/0x02 property string; ``reconsume_times`` above 0 when a consumer
    sends to its retry topic; ``batch`` the body contains several messages.

    **Source:** RocketMQ ``SendMessageRequestHeader``.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None


class SendMessageRequestHeaderV2(SendMessageRequestHeader, frozen=True, kw_only=True, gc=False):
    """SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320), SEND_REPLY_MESSAGE_V2 (325).

    **Source:** RocketMQ ``SendMessageRequestHeaderV2``.
    """

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str | None = field(name="i", default=None)
    reconsume_times: Int32 | None = field(name="j", default=None)
    unit_mode: bool | None = field(name="k", default=None)
    max_reconsume_times: Int32 | None = field(name="l", default=None)
    batch: bool | None = field(name="m", default=None)
    bname: str | None = field(name="n", default=None)


_LONG_FORM = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)


def decode_send_header(command: RemotingCommand) -> SendMessageRequestHeader:
    """Decode the send header of codes 10, 310, 320, 324, 325 in the form of the code.

    Raises RemoteProtocolError naming the field.

    **Source:** RocketMQ ``SendMessageRequestHeader#parseRequestHeader``.
    """
    if command.code in _LONG_FORM:
        return decode_header_fields(SendMessageRequestHeader, command.ext_fields)
    return decode_header_fields(SendMessageRequestHeaderV2, command.ext_fields)


class SendMessageResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to a send.

    ``msg_id`` offset message id (of a batch: all, joined by commas); ``queue_offset`` of the first
    message; ``transaction_id`` the unique key; ``recall_handle`` of a delayed message that can be
    recalled (5.x); ``msg_region`` and ``trace_on`` are set on failures too.

    **Source:** RocketMQ ``SendMessageResponseHeader``.
    """

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = field(name="MSG_REGION", default=None)
    trace_on: str | None = field(name="TRACE_ON", default=None)


class ConsumerSendMsgBackRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CONSUMER_SEND_MSG_BACK (36): consume this message again later.

    ``offset`` physical offset of the message; ``delay_level`` 0: selected by the broker, below 0:
    send to the DLQ.

    **Source:** RocketMQ ``ConsumerSendMsgBackRequestHeader``.
    """

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class ReplyMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """PUSH_REPLY_MESSAGE_TO_CLIENT (326): the reply to a client's request message.

    ``born_host`` and ``store_host`` are ``ip:port``; timestamps in ms.

    **Source:** RocketMQ ``ReplyMessageRequestHeader``.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    store_timestamp: Int64


class RecallMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """RECALL_MESSAGE (370): recall a delayed message (5.3.2).

    **Source:** RocketMQ ``RecallMessageRequestHeader``.
    """

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 370: ``msg_id`` is the unique key of the recalled message.

    **Source:** RocketMQ ``RecallMessageResponseHeader``.
    """

    msg_id: str
    msg_region: str | None = field(name="MSG_REGION", default=None)
