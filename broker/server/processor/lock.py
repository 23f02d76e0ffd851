"""Queue locks of orderly consumers: LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42).

Long lists are decoded in a thread and locked in slices: the locks do not depend on each other.

**Source:** RocketMQ AdminBrokerProcessor#lockBatchMQ, #unlockBatchMQ.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.body.consumer.lock import LockBatchRequestBody, LockBatchResponseBody
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext
from broker.server.processor.responses import with_body
from broker.server.slices import collect_in_slices, decode_body

if TYPE_CHECKING:
    from broker.remoting.server import Connection

QUEUES_PER_PART: Final = 512
PARTS_PER_SLICE: Final = 8  # about 2 ms


async def lock(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """LOCK_BATCH_MQ: the requested queues that the client holds now; never an error."""
    body = await decode_body(LockBatchRequestBody.from_bytes, request.body_bytes())
    now_ms = int(context.clock.monotonic_ms())
    parts = (
        context.locks.lock(body.consumer_group or "", body.client_id or "", part, now_ms)
        for part in _parts(body)
    )
    held = [queue for part in await collect_in_slices(parts, PARTS_PER_SLICE) for queue in part]
    return await with_body(request, LockBatchResponseBody(lock_ok_mq_set=held), len(held))


async def unlock(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UNLOCK_BATCH_MQ: release the client's locks on these queues."""
    body = await decode_body(LockBatchRequestBody.from_bytes, request.body_bytes())
    await collect_in_slices(_unlock_parts(context, body), PARTS_PER_SLICE)
    return response(request)


def _unlock_parts(context: BrokerContext, body: LockBatchRequestBody) -> Iterator[None]:
    for part in _parts(body):
        context.locks.unlock(body.consumer_group or "", body.client_id or "", part)
        yield


def _parts(body: LockBatchRequestBody) -> Iterator[list[MessageQueue]]:
    return (
        body.mq_set[start : start + QUEUES_PER_PART]
        for start in range(0, len(body.mq_set), QUEUES_PER_PART)
    )


HANDLERS = {RequestCode.LOCK_BATCH_MQ: lock, RequestCode.UNLOCK_BATCH_MQ: unlock}
