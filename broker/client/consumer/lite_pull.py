"""AsyncLitePullConsumer: the application polls, the client pulls ahead and keeps the offsets.

``subscribe`` joins the group and rebalances; ``assign`` takes fixed queues without a group.

**Source:** RocketMQ ``DefaultLitePullConsumer``, ``DefaultLitePullConsumerImpl``,
``AssignedMessageQueue``.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from broker.client.config import ClientConfig, ConsumerConfig
from broker.client.consumer.membership import check_consumer_start, join_instance
from broker.client.consumer.messages import restore_topic
from broker.client.consumer.position import notify_queues_changed, resume_offset
from broker.client.consumer.process_queue import ProcessQueue
from broker.client.consumer.pull_service import PullService
from broker.client.consumer.subscription_table import SubscriptionTable
from broker.client.instance.client_instance import MQClientInstance
from broker.client.instance.registry import release_instance
from broker.client.lifecycle import AsyncStartable
from broker.client.listener.stats import ConsumerStats
from broker.client.namespace import unwrap_queue, wrap_namespace, wrap_queue
from broker.client.offset.offset_store import OffsetStore, open_offset_store
from broker.client.rebalance.rebalancer import QueuesChanged, Rebalancer
from broker.client.rebalance.strategies import AllocateAveragely, AllocateStrategy
from broker.client.state import ServiceState
from broker.common.clock import Clock, SystemClock
from broker.common.group import CONSUME_ACTIVELY
from broker.common.message_queue import MessageQueue
from broker.common.subscription import SubscriptionData
from broker.errors import ClientError
from broker.message.message import MessageExt
from broker.remoting.protocol.body.consumer.heartbeat import ConsumerData


class AsyncLitePullConsumer(AsyncStartable):
    """Poll messages of subscribed or assigned queues, seek, pause, commit.

    ``auto_commit`` commits polled messages with the next ``poll`` and every 5 s, otherwise
    ``commit`` does. ``read_only`` starts at the offsets of the group and never changes them: the
    members that own a queue afterwards get its messages again.
    """

    def __init__(
        self,
        group: str,
        client: ClientConfig | str,
        config: ConsumerConfig | None = None,
        *,
        auto_commit: bool = True,
        read_only: bool = False,
        strategy: AllocateStrategy | None = None,
        clock: Clock | None = None,
        instance: MQClientInstance | None = None,
    ) -> None:
        self.client = ClientConfig(namesrv=client) if isinstance(client, str) else client
        self.config = config or ConsumerConfig()
        self.group = wrap_namespace(self.client.namespace, group)
        self.clock = clock or SystemClock()
        self.state = ServiceState.CREATE_JUST
        self.auto_commit = auto_commit
        self.read_only = read_only
        self.stats = ConsumerStats(self.clock)
        self.on_queues_changed: list[QueuesChanged] = []
        self.paused = False  # of all queues; see ``pause`` for single ones
        self._table = SubscriptionTable(self.client, self.clock)
        self._assigned: set[MessageQueue] | None = None
        self._paused_queues: set[MessageQueue] = set()
        self._strategy = strategy or AllocateAveragely()
        self._given = instance
        self._parts: _Parts | None = None
        self._ready: deque[tuple[MessageQueue, ProcessQueue, list[MessageExt]]] = deque()
        self._arrived = asyncio.Event()
        self._consumed: dict[MessageQueue, int] = {}  # offsets that the next commit stores
        self._started_ms = 0

    # ---- subscriptions

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic: the group's members share its queues."""
        if self._assigned is not None:
            raise ClientError("subscribe() and assign() exclude each other")
        self._table.subscribe(topic, tags, sql)
        if self._parts is not None:
            self._parts.instance.rebalance_now()

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Consume exactly these queues, independent of other members."""
        if self._table.by_topic and self._assigned is None:
            raise ClientError("subscribe() and assign() exclude each other")
        self._assigned = self._wrap(queues)
        for topic in {queue.topic for queue in self._assigned}:
            self._table.add_all_messages(topic)
        if self._parts is not None:
            await self._parts.instance.routes.refresh_all(self._table.by_topic)
            await self.announce()
            await self.rebalance()

    # ---- life cycle

    async def start(self) -> None:
        """Join the group and start pulling."""
        check_consumer_start(self.group, self.state)
        self.config.check()
        self.state = ServiceState.START_FAILED
        await join_instance(
            self,
            self._begin,
            self.client,
            self.clock,
            given=self._given,
            broadcasting=not self.config.is_clustering,
        )

    async def _begin(self, instance: MQClientInstance) -> None:
        self._parts = self._build(instance)
        instance.register_consumer(self)
        await instance.start()
        await instance.routes.refresh_all(self._table.by_topic)
        self.state = ServiceState.RUNNING
        self._started_ms = self.clock.now_ms()
        await self.announce()
        if self._assigned is None:
            instance.rebalance_now()
        else:
            await self.rebalance()

    def _build(self, instance: MQClientInstance) -> "_Parts":
        offsets = open_offset_store(instance, self.group, self.config, read_only=self.read_only)
        return _Parts(
            instance=instance,
            offsets=offsets,
            rebalancer=Rebalancer(
                instance, self.group, self._strategy, self.config.message_model, self
            ),
            pulls=PullService(
                instance,
                self.group,
                self.config,
                self,
                offsets=None,
                stats=self.stats,
                orderly=False,
            ),
        )

    async def shutdown(self) -> None:
        """Commit polled messages (with ``auto_commit``) and leave the group."""
        if self.state is not ServiceState.RUNNING:
            return
        if self.auto_commit:
            self.finish_polled()
        self.state = ServiceState.SHUTDOWN_ALREADY
        parts = self._running()
        await parts.pulls.close()
        try:
            await parts.rebalancer.drop_all(parts.offsets.release)
        finally:  # also if offsets cannot be written to the local file
            await parts.instance.unregister(consumer_group=self.group)
            await release_instance(parts.instance)
            self._arrived.set()

    def _running(self) -> "_Parts":
        if self._parts is None:
            raise ClientError(f"consumer {self.group} has not been started")
        return self._parts

    # ---- polling

    async def poll(self, timeout_ms: int = 5_000) -> list[MessageExt]:
        """Return the next batch of pulled messages, an empty list if none comes in time."""
        if self.state is not ServiceState.RUNNING:
            raise ClientError(f"consumer {self.group} is {self.state.value}")
        if self.auto_commit:
            self.finish_polled()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        while True:
            batch = self._next_batch()
            if batch is not None:
                queue, process, messages = batch
                offset = process.remove(messages)
                if offset >= 0:
                    self._consumed[queue] = offset
                process.last_consume_ms = self.clock.monotonic_ms()
                return messages
            self._arrived.clear()
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                return []
            try:
                async with asyncio.timeout(left_s):
                    await self._arrived.wait()
            except TimeoutError:
                return []

    def _next_batch(self) -> tuple[MessageQueue, ProcessQueue, list[MessageExt]] | None:
        for position, (queue, process, _) in enumerate(self._ready):
            if not process.dropped and queue not in self._paused_queues:
                found = self._ready[position]
                del self._ready[position]
                return found
        return None

    def finish_polled(self) -> None:
        """Count polled messages as consumed: a commit and the end of a queue's ownership store it.

        Unless ``auto_commit`` does it with the next ``poll``.
        """
        for queue, offset in self._consumed.items():
            self._running().offsets.table.update(queue, offset)
        self._consumed.clear()

    async def commit(self) -> None:
        """Commit everything polled so far, and wait until the brokers have stored it."""
        self.finish_polled()
        parts = self._running()
        await parts.offsets.persist(list(parts.rebalancer.process_queues))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that is stored for the group; None if there is none."""
        return await self._running().offsets.read(wrap_queue(self.client.namespace, queue))

    # ---- positions

    def assignment(self) -> list[MessageQueue]:
        """Return the owned queues."""
        found = self._running().rebalancer.process_queues
        return self._unwrap(queue for queue, process in found.items() if not process.dropped)

    async def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return all readable queues of a topic."""
        route = await self._running().instance.routes.get(
            wrap_namespace(self.client.namespace, topic)
        )
        if route is None:
            raise ClientError(f"topic {topic} does not exist")
        return self._unwrap(route.subscribe_queues())

    def _wrap(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        return {wrap_queue(self.client.namespace, queue) for queue in queues}

    def _unwrap(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        return sorted(unwrap_queue(self.client.namespace, queue) for queue in queues)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return no messages of these queues until :meth:`resume`."""
        self._paused_queues |= self._wrap(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Return messages of these queues again."""
        self._paused_queues -= self._wrap(queues)
        self._arrived.set()

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue an owned queue at an offset; ClientError outside of the queue.

        The offset is committed as if the messages before it had been polled.
        """
        owned = self._running().rebalancer.process_queues
        if wrap_queue(self.client.namespace, queue) not in owned:
            raise ClientError(f"{queue} is not assigned to this consumer")
        first, last = await self._bounds(queue)
        if not first <= offset <= last:
            raise ClientError(f"offset {offset} of {queue}: it must be between {first} and {last}")
        self._restart(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue an owned queue at its first message."""
        self._restart(queue, (await self._bounds(queue))[0])

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue an owned queue after its last message."""
        self._restart(queue, (await self._bounds(queue))[1])

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the first offset stored at or after a time."""
        queue = wrap_queue(self.client.namespace, queue)
        return await self._running().instance.api.search_offset(
            self._master(queue), queue, timestamp_ms
        )

    async def _bounds(self, queue: MessageQueue) -> tuple[int, int]:
        queue = wrap_queue(self.client.namespace, queue)
        api, address = self._running().instance.api, self._master(queue)
        return await api.min_offset(address, queue), await api.max_offset(address, queue)

    def _master(self, queue: MessageQueue) -> str:
        address = self._running().instance.routes.master(queue.broker_name)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} has no master now")
        return address

    def _restart(self, queue: MessageQueue, offset: int) -> None:
        """Drop the queue's cache and the pull in flight, and pull at ``offset``."""
        parts = self._running()
        queue = wrap_queue(self.client.namespace, queue)
        process = parts.rebalancer.process_queues.get(queue)
        if process is None or process.dropped:
            raise ClientError(f"{queue} is not assigned to this consumer")
        parts.pulls.stop(process)
        self._consumed[queue] = offset
        parts.rebalancer.restart(queue, offset)
        self._forget_dropped()

    def _forget_dropped(self) -> None:
        """Drop the batches of queues that were given up or moved to another offset."""
        self._ready = deque(batch for batch in self._ready if not batch[1].dropped)

    # ---- for the instance (ConsumerInner)

    def subscribed_topics(self) -> Iterable[str]:
        """Return the subscribed topics (names on the wire)."""
        return list(self._table.by_topic)

    def heartbeat(self) -> ConsumerData:
        """Return this group's part of a heartbeat."""
        return self._table.consumer_data(self.group, CONSUME_ACTIVELY, self.config)

    async def rebalance(self) -> bool:
        """Rebalance once: by the group, or to the assigned queues."""
        if self.state is not ServiceState.RUNNING:
            return True
        return await self._running().rebalancer.rebalance(
            sorted(self._table.by_topic), fixed=self._assigned
        )

    async def persist_offsets(self) -> None:
        """Commit finished offsets, if ``auto_commit``."""
        if self.auto_commit:
            parts = self._running()
            await parts.offsets.persist(list(parts.rebalancer.process_queues))

    # ---- for the rebalancer (QueueOwner)

    async def prepare(self, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
        """Return all queues: no locks are needed."""
        return set(queues)

    async def start_offset(self, queue: MessageQueue) -> int:
        """Return the stored offset, else the one by ``consume_from_where``."""
        parts = self._running()
        return await resume_offset(
            parts.instance, parts.offsets, self.config, queue, self._started_ms
        )

    def begin(self, queue: MessageQueue, process: ProcessQueue, offset: int) -> None:
        """Start pulling a queue."""
        self._running().pulls.start(queue, process, offset)

    async def release(
        self, processes: Mapping[MessageQueue, ProcessQueue]
    ) -> Collection[MessageQueue]:
        """Commit and give up queues."""
        parts = self._running()
        for queue, process in processes.items():
            parts.pulls.stop(process)
            self._consumed.pop(queue, None)  # without a later poll they may be unprocessed
        self._forget_dropped()
        await parts.offsets.release(list(processes))
        return list(processes)

    async def changed(
        self, topic: str, queues: Sequence[MessageQueue], own: Sequence[MessageQueue]
    ) -> None:
        """Announce the change to the application (MessageQueueListener)."""
        await self.announce()
        notify_queues_changed(self.on_queues_changed, topic, queues, own)

    async def announce(self) -> None:
        """Send the subscriptions to the brokers."""
        sent = self._table.snapshot()
        await self._running().instance.heartbeat()
        self._table.announced(sent)

    # ---- for the pull service (PullOwner)

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Return the subscription of a topic that the brokers know."""
        return self._table.known_to_brokers(topic)

    def deliver(
        self, messages: list[MessageExt], process: ProcessQueue, queue: MessageQueue
    ) -> None:
        """Keep pulled messages for ``poll``."""
        restore_topic(messages, self.group, self.client.namespace)
        self._ready.append((queue, process, messages))
        self._arrived.set()

    def skipped(self, queue: MessageQueue, offset: int) -> None:
        """Count an offset as consumed, because it follows messages that the filter excludes."""
        self._consumed[queue] = offset

    async def offset_moved(self, queue: MessageQueue, offset: int) -> None:
        """Continue a queue at another offset."""
        self._restart(queue, offset)


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a started consumer."""

    instance: MQClientInstance
    offsets: OffsetStore
    rebalancer: Rebalancer
    pulls: PullService
