"""AsyncPushConsumer: a member of a consumer group whose listener is called with messages.

**Source:** RocketMQ ``DefaultMQPushConsumer``, ``DefaultMQPushConsumerImpl``.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from broker.client.config import ClientConfig, ConsumerConfig
from broker.client.consumer.broker_requests import ConsumerRequests
from broker.client.consumer.membership import check_consumer_start, join_instance
from broker.client.consumer.messages import restore_topic
from broker.client.consumer.position import move_offset, notify_queues_changed, resume_offset
from broker.client.consumer.process_queue import ProcessQueue
from broker.client.consumer.push_parts import ConsumeService, PopParts, PushParts, build_parts
from broker.client.consumer.subscription_table import SubscriptionTable
from broker.client.hooks.events import ConsumeHook
from broker.client.instance.client_instance import MQClientInstance
from broker.client.instance.registry import release_instance
from broker.client.lifecycle import AsyncStartable
from broker.client.listener.listeners import ConcurrentListener, OrderlyListener
from broker.client.listener.orderly import ConsumeOrderlyService
from broker.client.listener.send_back import UNLIMITED
from broker.client.listener.stats import ConsumerStats
from broker.client.namespace import unwrap_queue, wrap_namespace
from broker.client.offset.offset_store import OffsetStore
from broker.client.pop.pop_process_queue import PopProcessQueue
from broker.client.rebalance.rebalancer import QueuesChanged
from broker.client.rebalance.strategies import AllocateAveragely, AllocateStrategy
from broker.client.state import ServiceState
from broker.common.clock import Clock, SystemClock
from broker.common.group import CONSUME_PASSIVELY
from broker.common.message_queue import MessageQueue
from broker.common.subscription import SubscriptionData
from broker.common.topic import pop_retry_topic, retry_topic
from broker.errors import ClientError, RocketMQError
from broker.message.message import MessageExt
from broker.remoting.protocol.body.consumer.heartbeat import ConsumerData

log = logging.getLogger("broker.client")

LOCK_INTERVAL_MS = 20_000
DELAYED_UNLOCK_S = 20.0
RELEASE_LOCK_WAIT_S = 0.5
MAX_UNLOCK_TRIES = 40
"""Rounds after which a queue whose listener does not end is given up (Java: 20 s)."""
DEFAULT_MAX_RECONSUME_TIMES = 16


class AsyncPushConsumer(AsyncStartable):
    """Subscribe, set a listener, start.

    >>> import asyncio
    >>> from broker.client.publish.async_producer import AsyncProducer
    >>> from broker.client.results import ConsumeConcurrentlyStatus
    >>> from broker.message.message import Message
    >>> async def main(namesrv):
    ...     received = asyncio.Queue()
    ...     async def listener(messages, context):
    ...         for message in messages:
    ...             received.put_nowait(message.body)
    ...         return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
    ...     consumer = AsyncPushConsumer("billing", namesrv)
    ...     consumer.subscribe("T", "A || B")
    ...     consumer.listen(listener)
    ...     async with AsyncProducer("orders", namesrv) as producer, consumer:
    ...         await producer.send(Message("T", b"hello", tags="A"))
    ...         return await received.get()
    >>> asyncio.run(main(namesrv))
    b'hello'
    """

    def __init__(
        self,
        group: str,
        client: ClientConfig | str,
        config: ConsumerConfig | None = None,
        *,
        strategy: AllocateStrategy | None = None,
        clock: Clock | None = None,
        instance: MQClientInstance | None = None,
    ) -> None:
        self.client = ClientConfig(namesrv=client) if isinstance(client, str) else client
        self.config = config or ConsumerConfig()
        self.group = wrap_namespace(self.client.namespace, group)
        self.clock = clock or SystemClock()
        self.state = ServiceState.CREATE_JUST
        self.paused = False
        self.started_at_ms = 0
        self.stats = ConsumerStats(self.clock)
        self.on_queues_changed: list[QueuesChanged] = []
        self.consume_hooks: list[ConsumeHook] = []
        self.strategy = strategy or AllocateAveragely()
        self._table = SubscriptionTable(self.client, self.clock)
        self._listener: ConcurrentListener | None = None
        self._orderly: OrderlyListener | None = None
        self._given = instance
        self._parts: PushParts | None = None
        self._periodic: list[asyncio.Task[None]] = []
        self.unlock_delay_s = DELAYED_UNLOCK_S

    # ---- before the start

    def listen(self, listener: ConcurrentListener) -> None:
        """Set a concurrent listener: a function or a coroutine function."""
        self._check_not_started()
        self._listener, self._orderly = listener, None

    def listen_orderly(self, listener: OrderlyListener) -> None:
        """Set an orderly listener: messages of one queue come in order, one call at a time."""
        self._check_not_started()
        self._listener, self._orderly = None, listener

    def _check_not_started(self) -> None:
        if self.state is not ServiceState.CREATE_JUST:
            raise ClientError(f"consumer {self.group} is {self.state.value}")

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic by tags (``A || B``, ``*``) or by an SQL92 expression.

        All members of a group must subscribe to the same. A change after the start is sent to the
        brokers with the next rebalance, which it triggers.
        """
        self._table.subscribe(topic, tags, sql)
        if self._parts is not None:
            self._parts.instance.rebalance_now()

    def unsubscribe(self, topic: str) -> None:
        """Remove a topic; its queues are given up with the next rebalance."""
        self._table.unsubscribe(topic)
        if self._parts is not None:
            self._parts.instance.rebalance_now()

    # ---- life cycle

    async def start(self) -> None:
        """Join the group and start pulling.

        Raises ClientError for an invalid setting, a missing listener or a refused subscription.
        """
        check_consumer_start(self.group, self.state)
        self.config.check()
        if self._listener is None and self._orderly is None:
            raise ClientError(f"consumer {self.group} has no listener", "call listen() first")
        self.state = ServiceState.START_FAILED
        await join_instance(
            self,
            self._begin,
            self.client,
            self.clock,
            given=self._given,
            broadcasting=not self.config.is_clustering,
        )

    @property
    def max_reconsume_times(self) -> int:
        """Deliveries after the first before a message goes to the DLQ.

        Unless it is set, messages that are sent back follow ``retryMaxTimes`` of the group instead.
        """
        if self.config.max_reconsume_times >= 0:
            return self.config.max_reconsume_times
        return UNLIMITED if self._orderly is not None else DEFAULT_MAX_RECONSUME_TIMES

    async def _begin(self, instance: MQClientInstance) -> None:
        if self.config.is_clustering:
            self._table.add_all_messages(retry_topic(self.group))
        self._parts = build_parts(self, instance, self._listener, self._orderly, self._lock)
        instance.register_consumer(self)
        ConsumerRequests(self, instance).register()
        await instance.start()
        await instance.routes.refresh_all(self.subscriptions)
        for subscription in self.subscriptions.values():
            await instance.check_client_in_broker(self.group, subscription)
        self.started_at_ms = self.clock.now_ms()
        self.state = ServiceState.RUNNING
        await self.announce()
        instance.rebalance_now()
        self._periodic.append(instance.every(self.config.consume_timeout_ms, self._clean_expired))
        if self._orderly is not None and self.config.is_clustering:
            self._periodic.append(instance.every(LOCK_INTERVAL_MS, self._renew_locks))

    async def shutdown(self) -> None:
        """Leave the group: stop pulling, wait for listeners, commit, unlock, unregister."""
        if self.state is not ServiceState.RUNNING or self._parts is None:
            return
        self.state = ServiceState.SHUTDOWN_ALREADY
        parts = self._parts
        await parts.pulls.close(self.config.await_suspended_pulls_ms)
        if parts.pop is not None:
            await parts.pop.pops.close()
        await parts.service.close(self.config.await_termination_ms)
        try:
            await parts.rebalancer.drop_all(parts.offsets.release)
            await parts.locks.unlock_pending()
        finally:  # also if offsets cannot be written to the local file
            for task in self._periodic:
                task.cancel()
            await parts.instance.unregister(consumer_group=self.group)
            await release_instance(parts.instance)

    # ---- while running

    def suspend(self) -> None:
        """Pull nothing more until :meth:`resume`; messages already pulled are consumed."""
        self.paused = True

    def resume(self) -> None:
        """Pull again."""
        self.paused = False
        self.running_parts().instance.rebalance_now()

    @property
    def subscriptions(self) -> dict[str, SubscriptionData]:
        """The subscriptions by topic (names on the wire)."""
        return self._table.by_topic

    @property
    def process_queues(self) -> dict[MessageQueue, ProcessQueue]:
        """The owned queues."""
        return self.running_parts().rebalancer.process_queues

    @property
    def pop_queues(self) -> dict[MessageQueue, PopProcessQueue]:
        """The queues that are popped (POP mode); queue id -1 is any queue of the broker."""
        return self.running_parts().rebalancer.pop_queues

    @property
    def offsets(self) -> OffsetStore:
        """The offset store."""
        return self.running_parts().offsets

    @property
    def service(self) -> ConsumeService:
        """The consume service."""
        return self.running_parts().service

    def cached_messages(self) -> int:
        """Return how many pulled and popped messages are not finished."""
        return sum(process.count for process in self.process_queues.values()) + sum(
            process.wait_ack_count for process in self.pop_queues.values()
        )

    def lag(self) -> int:
        """Return how many messages of the owned queues follow the next one to be committed."""
        table = self.offsets.table
        return sum(
            max(0, process.broker_max_offset - (table.get(queue) or 0))
            for queue, process in self.process_queues.items()
            if process.broker_max_offset
        )

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this member owns now, without those of the retry topic."""
        own_retry_topic = retry_topic(self.group)
        pulled = (one for one, process in self.process_queues.items() if not process.dropped)
        return sorted(
            unwrap_queue(self.client.namespace, queue)
            for queue in (*pulled, *self.pop_queues)
            if queue.topic != own_retry_topic
        )

    def running_parts(self) -> PushParts:
        """Return the parts that exist since the start; ClientError if it was not started."""
        if self._parts is None:
            raise ClientError(f"consumer {self.group} has not been started")
        return self._parts

    # ---- for the instance (ConsumerInner)

    def subscribed_topics(self) -> Iterable[str]:
        """Return the subscribed topics (names on the wire)."""
        return list(self.subscriptions)

    def heartbeat(self) -> ConsumerData:
        """Return this group's part of a heartbeat."""
        return self._table.consumer_data(self.group, CONSUME_PASSIVELY, self.config)

    async def rebalance(self) -> bool:
        """Rebalance once, unless suspended."""
        if self.paused or self.state is not ServiceState.RUNNING:
            return True
        return await self.running_parts().rebalancer.rebalance(sorted(self.subscriptions))

    async def persist_offsets(self) -> None:
        """Commit the offsets of all owned queues."""
        await self.running_parts().offsets.persist(list(self.process_queues))

    # ---- for the rebalancer (QueueOwner)

    async def prepare(self, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
        """Return the queues that may be taken over: all, or those that the brokers locked."""
        if self._orderly is None or not self.config.is_clustering:
            return set(queues)
        return await self.running_parts().locks.lock(queues, {})

    async def start_offset(self, queue: MessageQueue) -> int:
        """Return where to start: the stored offset, else by ``consume_from_where``."""
        parts = self.running_parts()
        return await resume_offset(
            parts.instance, parts.offsets, self.config, queue, self.started_at_ms
        )

    def begin(self, queue: MessageQueue, process: ProcessQueue, offset: int) -> None:
        """Start pulling a queue."""
        if self._orderly is not None and self.config.is_clustering:
            process.locked = True
            process.last_lock_ms = self.clock.monotonic_ms()
        self.running_parts().pulls.start(queue, process, offset)

    def begin_pop(self, queue: MessageQueue, process: PopProcessQueue) -> None:
        """Start popping a queue."""
        self._pop.pops.start(queue, process)

    def release_pop(self, process: PopProcessQueue) -> None:
        """Stop popping a queue; results of its messages no longer count."""
        self._pop.pops.stop(process)

    @property
    def _pop(self) -> PopParts:
        pop = self.running_parts().pop
        assert pop is not None, "queues are popped only if brokers may assign them"
        return pop

    async def assigned(self, topic: str, *, pop: bool) -> None:
        """Follow the mode of a topic: while it is pulled, the group's POP retry topics are too.

        They hold the failed messages from the time in POP mode. Java 5.3.3 knows only the name of
        version 1; a topic of version 2 is subscribed if it exists.
        """
        routes = self.running_parts().instance.routes
        for name in (
            pop_retry_topic(topic, self.group),
            pop_retry_topic(topic, self.group, version_2=True),
        ):
            if pop:
                self.subscriptions.pop(name, None)
            elif name not in self.subscriptions and await routes.get(name) is not None:
                self._table.add_all_messages(name)
                self.running_parts().instance.rebalance_now()

    async def release(
        self, processes: Mapping[MessageQueue, ProcessQueue]
    ) -> Collection[MessageQueue]:
        """Commit and give up queues, except those on which an orderly listener still runs."""
        parts = self.running_parts()
        for process in processes.values():
            parts.pulls.stop(process)
        service = parts.service
        if isinstance(service, ConsumeOrderlyService) and self.config.is_clustering:
            return await self._release_orderly(processes, service)
        await parts.offsets.release(list(processes))
        return list(processes)

    async def _release_orderly(
        self, processes: Mapping[MessageQueue, ProcessQueue], service: ConsumeOrderlyService
    ) -> Collection[MessageQueue]:
        parts = self.running_parts()
        ended = await asyncio.gather(
            *(self._listener_ended(*one, service) for one in processes.items())
        )
        given_up = [queue for queue, is_free in zip(processes, ended, strict=True) if is_free]
        for queue in given_up:
            service.forget(processes[queue])
        await parts.offsets.release(given_up)
        # A shutdown unlocks all queues of a broker at once.
        running = self.state is ServiceState.RUNNING
        now = [queue for queue in given_up if running and not processes[queue].count]
        for queue in given_up:
            if queue not in now:
                parts.locks.unlock_later(queue, self.unlock_delay_s)
        await parts.locks.unlock(now)
        return given_up

    async def _listener_ended(
        self, queue: MessageQueue, process: ProcessQueue, service: ConsumeOrderlyService
    ) -> bool:
        """Wait for an orderly listener; after many rounds its queue is given up while it runs."""
        lock = service.consume_lock(process)
        try:
            async with asyncio.timeout(RELEASE_LOCK_WAIT_S):
                await lock.acquire()
        except TimeoutError:
            process.try_unlock_times += 1
            if process.try_unlock_times < MAX_UNLOCK_TRIES:
                return False
            log.warning("%s: %s is given up while its listener runs", self.group, queue)
        else:
            lock.release()
        return True

    async def changed(
        self, topic: str, queues: Sequence[MessageQueue], own: Sequence[MessageQueue]
    ) -> None:
        """Announce the change: new version of the subscription, heartbeat, listeners."""
        parts = self.running_parts()
        self._table.renew(topic)
        parts.pulls.set_topic_limits(topic, len(own))
        await self.announce()
        notify_queues_changed(self.on_queues_changed, topic, queues, own)

    async def announce(self) -> None:
        """Send the subscriptions to the brokers; pulls use their version from then on."""
        sent = self._table.snapshot()
        await self.running_parts().instance.heartbeat()
        self._table.announced(sent)

    # ---- for the pull service (PullOwner)

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Return the subscription of a topic that the brokers know."""
        return self._table.known_to_brokers(topic)

    def deliver(
        self, messages: list[MessageExt], process: ProcessQueue, queue: MessageQueue
    ) -> None:
        """Pass messages to the listener."""
        restore_topic(messages, self.group, self.client.namespace)
        self.running_parts().service.dispatch(messages, process, queue)

    def deliver_popped(
        self, messages: list[MessageExt], process: PopProcessQueue, queue: MessageQueue
    ) -> None:
        """Pass popped messages to the listener."""
        restore_topic(messages, self.group, self.client.namespace)
        self._pop.service.dispatch(messages, process, queue)

    def skipped(self, queue: MessageQueue, offset: int) -> None:
        """Count an offset as consumed, because it follows messages that the filter excludes."""
        self.offsets.table.update(queue, offset, increase_only=True)

    async def offset_moved(self, queue: MessageQueue, offset: int) -> None:
        """Continue a queue at another offset: commit it and take the queue over again."""
        parts = self.running_parts()
        await move_offset(parts.instance, parts.offsets, parts.rebalancer, queue, offset)

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue owned queues at other offsets; results of cached messages no longer count.

        **Source:** RocketMQ ``MQClientInstance#resetOffset``.
        """
        parts = self.running_parts()
        for queue, offset in offsets.items():
            process = self.process_queues.get(queue)
            if process is None:
                continue
            process.dropped = True
            parts.pulls.stop(process)
            process.clear()
            parts.offsets.table.update_and_freeze(queue, offset)
            await parts.rebalancer.remove(queue)
        parts.instance.rebalance_now()

    # ---- locks and periodic work

    async def _lock(self, queue: MessageQueue) -> bool:
        """Lock one owned queue at its broker."""
        return queue in await self.running_parts().locks.lock([queue], self.process_queues)

    async def _renew_locks(self) -> None:
        queues = [queue for queue, one in self.process_queues.items() if not one.dropped]
        await self.running_parts().locks.lock(queues, self.process_queues)

    async def _clean_expired(self) -> None:
        for queue, process in list(self.process_queues.items()):
            try:
                await self.service.clean_expired(process, queue)
            except RocketMQError as error:
                log.warning("%s: expired messages of %s: %s", self.group, queue, error.message)
