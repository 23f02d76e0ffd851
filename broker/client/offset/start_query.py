"""The start offset of a queue that a consumer takes over.

**Source:** RocketMQ ``RebalancePushImpl#computePullFromWhereWithException``.
"""

from broker.client.instance.client_instance import MQClientInstance
from broker.client.offset.start_offset import ConsumeFromWhere, StartFrom, start_without_offset
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError

HALF_HOUR_MS = 30 * 60_000


async def query_start(
    instance: MQClientInstance,
    queue: MessageQueue,
    where: ConsumeFromWhere,
    *,
    timestamp_ms: int | None,
    started_ms: int,
) -> int:
    """Return where a queue without stored offset starts.

    ``timestamp_ms`` None means half an hour before ``started_ms``. RocketMQError if it is not
    known now.
    """
    start = start_without_offset(where, queue.topic)
    if start is StartFrom.ZERO:
        return 0
    address = instance.routes.master(queue.broker_name)
    if address is None:
        raise ClientError(f"broker {queue.broker_name} has no master now")
    if start is StartFrom.MAX_OFFSET:
        return await instance.api.max_offset(address, queue)
    moment_ms = started_ms - HALF_HOUR_MS if timestamp_ms is None else timestamp_ms
    return await instance.api.search_offset(address, queue, moment_ms)
