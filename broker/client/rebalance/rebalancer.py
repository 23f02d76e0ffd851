"""Rebalancer: brings the owned queues of a consumer in line with its allocation.

**Source:** RocketMQ ``RebalanceImpl``, ``RebalancePushImpl``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from broker.client.config import MessageModel
from broker.client.consumer.process_queue import ProcessQueue
from broker.client.instance.client_instance import MQClientInstance
from broker.client.rebalance.plan import plan_rebalance
from broker.client.rebalance.strategies import AllocateStrategy
from broker.common.message_queue import MessageQueue
from broker.common.topic import is_retry_topic
from broker.errors import RocketMQError

log = logging.getLogger("broker.client")

QueuesChanged = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], None]
"""Called with (topic, all queues, own queues) after a change (MessageQueueListener)."""


class QueueOwner(Protocol):
    """The part of a consumer that its rebalancer uses."""

    async def prepare(self, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
        """Return the queues that may be taken over now (orderly: those that are locked)."""
        ...

    async def start_offset(self, queue: MessageQueue) -> int:
        """Return where consumption starts; RocketMQError if it is not known now."""
        ...

    def begin(self, queue: MessageQueue, process: ProcessQueue, offset: int) -> None:
        """Start pulling a queue that was taken over."""
        ...

    async def release(self, queue: MessageQueue, process: ProcessQueue) -> bool:
        """Give up a dropped queue; False to keep it for the next round."""
        ...

    async def changed(
        self, topic: str, queues: Sequence[MessageQueue], own: Sequence[MessageQueue]
    ) -> None:
        """React to a change of the owned queues of a topic."""
        ...


class Rebalancer:
    """The owned queues of one consumer: ``process_queues``."""

    def __init__(
        self,
        instance: MQClientInstance,
        group: str,
        strategy: AllocateStrategy,
        model: MessageModel,
        owner: QueueOwner,
    ) -> None:
        self.process_queues: dict[MessageQueue, ProcessQueue] = {}
        self.strategy = strategy
        self._instance = instance
        self._group = group
        self._model = model
        self._owner = owner
        self._lock = asyncio.Lock()
        self._fixed: Collection[MessageQueue] | None = None

    async def rebalance(
        self, topics: Sequence[str], *, fixed: Collection[MessageQueue] | None = None
    ) -> bool:
        """Rebalance all topics; returns whether every result is final.

        With ``fixed`` the consumer owns exactly these queues, without asking for the members.
        """
        async with self._lock:
            self._fixed = fixed
            balanced = True
            for topic in topics:
                try:
                    balanced = await self._rebalance_topic(topic) and balanced
                except RocketMQError as error:
                    log.warning("%s: rebalance of %s: %s", self._group, topic, error.message)
                    balanced = False
            await self._drop_unsubscribed(set(topics))
            return balanced

    async def drop_all(self, work: Callable[[], Awaitable[None]] | None = None) -> None:
        """Drop and release every queue; ``work`` runs between the two (the last commit)."""
        async with self._lock:
            for process in self.process_queues.values():
                process.dropped = True
            if work is not None:
                await work()
            await self._remove(list(self.process_queues))

    async def remove(self, queue: MessageQueue) -> None:
        """Drop and release one queue; the next rebalance takes it over again."""
        process = self.process_queues.get(queue)
        if process is not None:
            process.dropped = True
            await self._remove([queue])

    def owned(self, topic: str) -> list[MessageQueue]:
        """Return the owned queues of a topic, sorted, without dropped ones."""
        return sorted(
            queue
            for queue, process in self.process_queues.items()
            if queue.topic == topic and not process.dropped
        )

    async def allocation(self, topic: str) -> tuple[list[MessageQueue], list[MessageQueue]] | None:
        """Return (all queues, own queues) of a topic; None while either list is unknown.

        The present state is kept then: a name server or broker that does not answer must not make
        a member give up its queues.
        """
        route = await self._instance.routes.get(topic)
        if route is None:
            if not is_retry_topic(topic):
                log.warning("%s: topic %s does not exist", self._group, topic)
            return None
        queues = sorted(route.subscribe_queues())
        if self._fixed is not None:
            return queues, [one for one in queues if one in self._fixed]
        if self._model is MessageModel.BROADCASTING:
            return queues, queues
        ids = await self._instance.consumer_ids(topic, self._group)
        if not ids or not queues:
            return None
        own = self.strategy.allocate(self._group, self._instance.client_id, queues, sorted(ids))
        return queues, own

    async def _rebalance_topic(self, topic: str) -> bool:
        found = await self.allocation(topic)
        if found is None:
            return is_retry_topic(topic) and self._instance.routes.known(topic) is None
        queues, own = found
        now_ms = self._instance.clock.monotonic_ms()
        plan = plan_rebalance(topic, self.process_queues, own, now_ms)
        for queue in (*plan.remove, *plan.stalled):
            self.process_queues[queue].dropped = True
        removed = await self._remove([*plan.remove, *plan.stalled])
        added = await self._add([one for one in plan.add if one not in self.process_queues])
        if removed or added:
            log.info(
                "%s: %s: %d of %d queues", self._group, topic, len(self.owned(topic)), len(queues)
            )
            await self._owner.changed(topic, queues, self.owned(topic))
        return set(self.owned(topic)) == set(own) and not any(
            process.dropped
            for queue, process in self.process_queues.items()
            if queue.topic == topic
        )

    async def _remove(self, queues: Sequence[MessageQueue]) -> int:
        removed = 0
        for queue in queues:
            process = self.process_queues[queue]
            if await self._owner.release(queue, process):
                self.process_queues.pop(queue, None)
                removed += 1
        return removed

    async def _add(self, queues: Sequence[MessageQueue]) -> int:
        if not queues:
            return 0
        allowed = await self._owner.prepare(queues)
        added = 0
        for queue in queues:
            if queue not in allowed:
                continue
            try:
                offset = await self._owner.start_offset(queue)
            except RocketMQError as error:
                log.warning("%s: start offset of %s: %s", self._group, queue, error.message)
                continue
            process = ProcessQueue(self._instance.clock.monotonic_ms())
            self.process_queues[queue] = process
            self._owner.begin(queue, process, offset)
            added += 1
        return added

    async def _drop_unsubscribed(self, topics: set[str]) -> None:
        gone = [queue for queue in self.process_queues if queue.topic not in topics]
        for queue in gone:
            self.process_queues[queue].dropped = True
        await self._remove(gone)
