"""Where a consumer continues a queue: the stored offset, a given one, or by configuration.

**Source:** RocketMQ ``RebalancePushImpl#computePullFromWhereWithException``.
"""

import logging
from collections.abc import Iterable, Sequence

from broker.client.config import ConsumerConfig
from broker.client.instance.client_instance import MQClientInstance
from broker.client.offset.offset_store import OffsetStore
from broker.client.offset.start_query import query_start
from broker.client.rebalance.rebalancer import QueuesChanged, Rebalancer
from broker.common.message_queue import MessageQueue

log = logging.getLogger("broker.client")


async def resume_offset(
    instance: MQClientInstance,
    offsets: OffsetStore,
    config: ConsumerConfig,
    queue: MessageQueue,
    started_ms: int,
) -> int:
    """Return the stored offset, else the one that ``consume_from_where`` means."""
    stored = await offsets.resume(queue)
    if stored is not None:
        return stored
    return await query_start(
        instance,
        queue,
        config.consume_from_where,
        timestamp_ms=config.consume_timestamp_ms,
        started_ms=started_ms,
    )


async def move_offset(
    instance: MQClientInstance,
    offsets: OffsetStore,
    rebalancer: Rebalancer,
    queue: MessageQueue,
    offset: int,
) -> None:
    """Continue a queue at another offset: commit it and take the queue over again."""
    process = rebalancer.process_queues.get(queue)
    if process is not None:
        process.dropped = True
    offsets.table.update_and_freeze(queue, offset)
    await offsets.persist([queue])
    await rebalancer.remove(queue)
    instance.rebalance_now()


def notify_queues_changed(
    listeners: Iterable[QueuesChanged],
    topic: str,
    queues: Sequence[MessageQueue],
    own: Sequence[MessageQueue],
) -> None:
    """Call the application's queue listeners; one that fails does not disturb the rebalance."""
    for notify in listeners:
        try:
            notify(topic, queues, own)
        except Exception:  # code of the application: anything may be raised
            log.exception("a queue listener of topic %s failed", topic)
