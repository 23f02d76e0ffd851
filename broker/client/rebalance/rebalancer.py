"""Rebalancer: brings the owned queues of a consumer in line with its allocation.

**Source:** RocketMQ ``RebalanceImpl``, ``RebalancePushImpl``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from broker.client.config import MessageModel
from broker.client.consumer.process_queue import ProcessQueue
from broker.client.instance.client_instance import MQClientInstance
from broker.client.pop.pop_process_queue import PopProcessQueue
from broker.client.rebalance.assignment import BrokerAssignments
from broker.client.rebalance.plan import RebalancePlan, plan_rebalance
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

    async def release(
        self, processes: Mapping[MessageQueue, ProcessQueue]
    ) -> Collection[MessageQueue]:
        """Give up dropped queues; returns those given up, the others stay for the next round."""
        ...

    async def changed(
        self, topic: str, queues: Sequence[MessageQueue], own: Sequence[MessageQueue]
    ) -> None:
        """React to a change of the owned queues of a topic."""
        ...


class PopQueueOwner(Protocol):
    """The part of a consumer in POP mode that its rebalancer uses."""

    def begin_pop(self, queue: MessageQueue, process: PopProcessQueue) -> None:
        """Start popping a queue."""
        ...

    def release_pop(self, process: PopProcessQueue) -> None:
        """Stop popping a queue."""
        ...

    async def assigned(self, topic: str, *, pop: bool) -> None:
        """React to the mode that a broker has assigned for a topic."""
        ...


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """All queues of a topic, and the own ones to pull and to pop."""

    queues: list[MessageQueue]
    own: list[MessageQueue]
    pop: list[MessageQueue] = []


class Rebalancer:
    """The owned queues of one consumer: ``process_queues``, and ``pop_queues`` in POP mode.

    With ``pop_owner`` brokers are asked for the assignment and its mode.
    """

    def __init__(
        self,
        instance: MQClientInstance,
        group: str,
        strategy: AllocateStrategy,
        model: MessageModel,
        owner: QueueOwner,
        *,
        pop_owner: PopQueueOwner | None = None,
    ) -> None:
        self.process_queues: dict[MessageQueue, ProcessQueue] = {}
        self.pop_queues: dict[MessageQueue, PopProcessQueue] = {}
        self.strategy = strategy
        self._instance = instance
        self._group = group
        self._model = model
        self._owner = owner
        self._pop_owner = pop_owner
        self._assignments = BrokerAssignments(instance, group, strategy.name, model)
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
            found: dict[str, Allocation] = {}
            for topic in topics:
                try:
                    allocation = await self.allocation(topic)
                except RocketMQError as error:
                    self._log_failure(topic, error)
                    balanced = False
                    continue
                if allocation is not None:
                    found[topic] = allocation
                elif not is_retry_topic(topic) or self._instance.routes.known(topic) is not None:
                    balanced = False
            plans = self._plan(found)
            removed = await self._drop(plans.values(), subscribed=set(topics))
            for topic, plan in plans.items():
                try:
                    balanced = await self._apply(topic, found[topic], plan, removed) and balanced
                except RocketMQError as error:
                    self._log_failure(topic, error)
                    balanced = False
            return balanced

    def _log_failure(self, topic: str, error: RocketMQError) -> None:
        log.warning("%s: rebalance of %s: %s", self._group, topic, error.message)

    def _plan(self, found: Mapping[str, Allocation]) -> dict[str, RebalancePlan]:
        now_ms = self._instance.clock.monotonic_ms()
        return {
            topic: plan_rebalance(topic, self.process_queues, one.own, now_ms)
            for topic, one in found.items()
        }

    async def _drop(
        self, plans: Iterable[RebalancePlan], *, subscribed: Collection[str]
    ) -> set[MessageQueue]:
        """Drop and release the queues of all topics together; returns those given up.

        One by one, each would wait for the time-out of a broker that does not respond.
        """
        self._remove_popped([queue for queue in self.pop_queues if queue.topic not in subscribed])
        gone = [queue for queue in self.process_queues if queue.topic not in subscribed]
        for plan in plans:
            gone += [*plan.remove, *plan.stalled]
        for queue in gone:
            self.process_queues[queue].dropped = True
        return await self._remove(gone)

    async def drop_all(self, commit: Callable[[list[MessageQueue]], Awaitable[None]]) -> None:
        """Drop every queue, commit the offsets of all together, and release them."""
        async with self._lock:
            for process in self.process_queues.values():
                process.dropped = True
            await commit(list(self.process_queues))
            self._remove_popped(list(self.pop_queues))
            await self._remove(list(self.process_queues))

    async def remove(self, queue: MessageQueue) -> None:
        """Drop and release one queue; the next rebalance takes it over again."""
        process = self.process_queues.get(queue)
        if process is not None:
            process.dropped = True
            await self._remove([queue])

    def restart(self, queue: MessageQueue, offset: int) -> None:
        """Drop the cache of an owned queue and begin it at ``offset``, without giving it up."""
        self.process_queues[queue].dropped = True
        self._begin(queue, offset)

    def owned(self, topic: str) -> list[MessageQueue]:
        """Return the owned queues of a topic, sorted, without dropped ones."""
        return sorted(
            queue
            for queue, process in self.process_queues.items()
            if queue.topic == topic and not process.dropped
        )

    async def allocation(self, topic: str) -> Allocation | None:
        """Return all queues and own queues of a topic; None while either list is unknown.

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
            own = [one for one in queues if one in self._fixed]
            return Allocation(queues=queues, own=own)
        if self._model is MessageModel.BROADCASTING:
            return Allocation(queues=queues, own=queues)
        if self._pop_owner is not None:
            assigned = await self._assignments.query(topic)
            if assigned is not None:
                if not is_retry_topic(topic) and (assigned.pop or assigned.pull):
                    await self._pop_owner.assigned(topic, pop=not assigned.pull)
                return Allocation(queues=queues, own=assigned.pull, pop=assigned.pop)
        ids = await self._instance.consumer_ids(topic, self._group)
        if not ids or not queues:
            return None
        own = self.strategy.allocate(self._group, self._instance.client_id, queues, sorted(ids))
        return Allocation(queues=queues, own=own)

    async def _apply(
        self, topic: str, found: Allocation, plan: RebalancePlan, removed: Collection[MessageQueue]
    ) -> bool:
        """Take over the added queues of a topic; returns whether its allocation is reached."""
        added = await self._add([one for one in plan.add if one not in self.process_queues])
        now_ms = self._instance.clock.monotonic_ms()
        moved = self._apply_popped(topic, found.pop, now_ms)
        if added or moved or any(queue.topic == topic for queue in removed):
            owned = self.owned(topic)
            log.info("%s: %s: %d of %d queues", self._group, topic, len(owned), len(found.queues))
            await self._owner.changed(topic, found.queues, owned + found.pop)
        return set(self.owned(topic)) == set(found.own) and not any(
            process.dropped
            for queue, process in self.process_queues.items()
            if queue.topic == topic
        )

    async def _remove(self, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
        if not queues:
            return set()
        dropped = {queue: self.process_queues[queue] for queue in queues}
        released = await self._owner.release(dropped)
        for queue in released:
            if self.process_queues.get(queue) is dropped[queue]:  # else taken over again meanwhile
                del self.process_queues[queue]
        return set(released)

    async def _add(self, queues: Sequence[MessageQueue]) -> int:
        if not queues:
            return 0
        allowed = await self._owner.prepare(queues)
        added = await asyncio.gather(*(self._take_over(one) for one in queues if one in allowed))
        return sum(added)

    async def _take_over(self, queue: MessageQueue) -> bool:
        try:
            offset = await self._owner.start_offset(queue)
        except RocketMQError as error:
            log.warning("%s: start offset of %s: %s", self._group, queue, error.message)
            return False
        self._begin(queue, offset)
        return True

    def _begin(self, queue: MessageQueue, offset: int) -> None:
        process = ProcessQueue(self._instance.clock.monotonic_ms())
        self.process_queues[queue] = process
        self._owner.begin(queue, process, offset)

    def _apply_popped(self, topic: str, assigned: Sequence[MessageQueue], now_ms: float) -> int:
        """Bring the popped queues of a topic in line; returns the number of changes."""
        plan = plan_rebalance(topic, self.pop_queues, assigned, now_ms)
        self._remove_popped([*plan.remove, *plan.stalled])
        for queue in plan.add:
            assert self._pop_owner is not None, "only its assignment has queues to pop"
            self.pop_queues[queue] = PopProcessQueue(now_ms)
            self._pop_owner.begin_pop(queue, self.pop_queues[queue])
        return len(plan.remove) + len(plan.add)

    def _remove_popped(self, queues: Sequence[MessageQueue]) -> None:
        for queue in queues:
            assert self._pop_owner is not None, "only its assignment has queues to pop"
            process = self.pop_queues.pop(queue)
            process.dropped = True
            self._pop_owner.release_pop(process)
