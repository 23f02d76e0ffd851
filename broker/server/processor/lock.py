"""Queue locks of orderly consumers: LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42).

**Source:** RocketMQ AdminBrokerProcessor#lockBatchMQ, #unlockBatchMQ.
"""

from typing import TYPE_CHECKING

from broker.remoting.protocol.body.consumer.lock import LockBatchRequestBody, LockBatchResponseBody
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def lock(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """LOCK_BATCH_MQ: the requested queues that the client holds now; never an error."""
    body = LockBatchRequestBody.from_bytes(request.body_bytes())
    now_ms = int(context.clock.monotonic_ms())
    held = context.locks.lock(body.consumer_group or "", body.client_id or "", body.mq_set, now_ms)
    return response(request, body=LockBatchResponseBody(lock_ok_mq_set=held).to_bytes())


def unlock(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UNLOCK_BATCH_MQ: release the client's locks on these queues."""
    body = LockBatchRequestBody.from_bytes(request.body_bytes())
    context.locks.unlock(body.consumer_group or "", body.client_id or "", body.mq_set)
    return response(request)


HANDLERS = {RequestCode.LOCK_BATCH_MQ: lock, RequestCode.UNLOCK_BATCH_MQ: unlock}
