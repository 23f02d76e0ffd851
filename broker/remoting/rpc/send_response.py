"""The response to a send: a producer's result, and refusals that another broker may not have.

**Source:** RocketMQ ``MQClientAPIImpl#processSendResponse``, ``SendResult``, ``SendStatus``.
"""

from enum import StrEnum

import msgspec

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.rpc.caller import Reply

RETRIED_CODES = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Response codes after which a synchronous send tries another broker.

SYSTEM_BUSY since 5.3.0, GO_AWAY since 5.3.1. **Source:** DefaultMQProducer#retryResponseCodes."""


class SendStatus(StrEnum):
    """How a message was stored; every status means that it is stored."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


SEND_STATUS = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}
"""The response codes of a stored message."""


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message was stored.

    ``msg_id`` the unique key that the client created (of a batch: all, joined by commas),
    ``offset_msg_id`` the broker's id, ``transaction_id`` of a half message, ``recall_handle`` of a
    delayed message that can be recalled (5.x).
    """

    send_status: SendStatus
    msg_id: str
    offset_msg_id: str
    message_queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    recall_handle: str | None = None
    region_id: str | None = None
    trace_on: bool = True


def read_send(reply: Reply, queue: MessageQueue, msg_id: str) -> SendResult:
    """Decode the response of a send to ``queue``."""
    header = reply.header
    return SendResult(
        send_status=SEND_STATUS[reply.code],
        msg_id=header.batch_uniq_id or msg_id,
        offset_msg_id=header.msg_id,
        message_queue=MessageQueue(queue.topic, queue.broker_name, header.queue_id),
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        recall_handle=header.recall_handle,
        region_id=header.msg_region,
        trace_on=header.trace_on != "false",
    )
