"""PullService: one pull loop per owned queue.

At most one pull of a queue is in flight; the next one is sent as soon as its messages are passed
on, before the listener has finished, until flow control stops it.

**Source:** RocketMQ ``PullMessageService``, ``DefaultMQPushConsumerImpl#pullMessage``,
``PullAPIWrapper``.
"""

import asyncio
import logging
from collections import Counter
from typing import Protocol

from broker.client.config import ConsumerConfig
from broker.client.consumer.flow_control import (
    BROKER_FLOW_CONTROL_MS,
    FLOW_CONTROL_MS,
    SUSPENDED_MS,
    FlowLimits,
    FlowReason,
    check_flow,
)
from broker.client.consumer.messages import (
    PullResult,
    add_offset_bounds,
    read_messages,
    select_messages,
)
from broker.client.consumer.process_queue import ProcessQueue
from broker.client.instance.client_instance import MQClientInstance
from broker.client.listener.stats import ConsumerStats
from broker.client.offset.offset_store import OffsetStore
from broker.client.results import PullStatus
from broker.common import sysflag
from broker.common.message_queue import MessageQueue
from broker.common.subscription import SubscriptionData
from broker.errors import BrokerError, ClientError, RocketMQError
from broker.message.message import MessageExt
from broker.remoting.protocol.codes import RequestCode, ResponseCode

log = logging.getLogger("broker.client")

PULL_STATUS = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}
FORGOTTEN_CODES = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)
"""Refusals by a broker that does not know the group's subscription."""

FLOW_LOG_EVERY = 1_000


class PullOwner(Protocol):
    """The consumer of a pull service."""

    paused: bool

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Return the subscription of a topic."""
        ...

    def deliver(
        self, messages: list[MessageExt], process: ProcessQueue, queue: MessageQueue
    ) -> None:
        """Pass pulled messages, which are in the process queue already, to the listener."""
        ...

    def skipped(self, queue: MessageQueue, offset: int) -> None:
        """Count an offset as consumed: no message before it remains in the queue or cached."""
        ...

    async def offset_moved(self, queue: MessageQueue, offset: int) -> None:
        """Continue a queue at another offset, because the present one does not exist."""
        ...

    async def announce(self) -> None:
        """Send the subscriptions to the brokers."""
        ...


class PullService:
    """The pull loops of one consumer; pulls carry an offset to commit if there are ``offsets``.

    A lite pull consumer has none: the broker may execute a pull after a later commit.
    """

    def __init__(
        self,
        instance: MQClientInstance,
        group: str,
        config: ConsumerConfig,
        owner: PullOwner,
        *,
        offsets: OffsetStore | None,
        stats: ConsumerStats,
        orderly: bool,
    ) -> None:
        self._instance = instance
        self._group = group
        self._config = config
        self._owner = owner
        self._offsets = offsets
        self._stats = stats
        self._orderly = orderly
        self.loops: dict[ProcessQueue, asyncio.Task[None]] = {}
        self.suggested_broker_ids: dict[MessageQueue, int] = {}
        self._announcing = False
        self._closing = False
        self.limits: dict[str, FlowLimits] = {}
        self.flow_controlled: Counter[FlowReason] = Counter()
        self._default_limits = FlowLimits(
            count=config.pull_threshold_for_queue,
            size_bytes=config.pull_threshold_size_for_queue,
            span=config.consume_concurrently_max_span,
        )

    def start(self, queue: MessageQueue, process: ProcessQueue, offset: int) -> None:
        """Start the loop of a queue at ``offset``."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._run(queue, process, offset))
        self.loops[process] = task
        task.add_done_callback(lambda _: self.loops.pop(process, None))

    def stop(self, process: ProcessQueue) -> None:
        """End the loop of a dropped queue; a pull in flight is abandoned."""
        task = self.loops.get(process)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    def set_topic_limits(self, topic: str, owned: int) -> None:
        """Divide the limits of a topic by its owned queues."""
        self.limits[topic] = self._default_limits.for_topic(
            self._config.pull_threshold_for_topic,
            self._config.pull_threshold_size_for_topic,
            owned,
        )

    async def _run(self, queue: MessageQueue, process: ProcessQueue, offset: int) -> None:
        clock = self._instance.clock
        while not (self._closing or process.is_dropped()):
            process.last_pull_ms = clock.monotonic_ms()
            wait_ms = self._wait_ms(queue, process)
            if wait_ms:
                await asyncio.sleep(wait_ms / 1000)
                continue
            try:
                result = await self.pull(queue, offset)
                if self._closing or process.is_dropped():
                    return
                offset = await self._accept(queue, process, offset, result)
            except BrokerError as error:
                await self._pause_after(queue, error)
            except RocketMQError as error:
                log.warning("%s: pull of %s: %s", self._group, queue, error.message)
                await self._pause_after_failure(queue)
            except Exception:  # a defect: the queue would stall until it is recreated, 120 s
                log.exception("%s: pull of %s failed", self._group, queue)
                await self._pause_after_failure(queue)

    def _wait_ms(self, queue: MessageQueue, process: ProcessQueue) -> int:
        """Return how long the next pull must wait; 0 if it need not."""
        if self._owner.paused:
            return SUSPENDED_MS
        limits = self.limits.get(queue.topic, self._default_limits)
        reason = check_flow(process, limits, orderly=self._orderly)
        if reason is not None:
            self.flow_controlled[reason] += 1
            if self.flow_controlled[reason] % FLOW_LOG_EVERY == 1:
                log.warning("%s: flow control of %s: %s", self._group, queue, reason.value)
            return FLOW_CONTROL_MS
        if self._orderly and self._config.is_clustering and not process.locked:
            return self._config.pull_delay_when_exception_ms
        if self._owner.subscription(queue.topic) is None:
            return self._config.pull_delay_when_exception_ms
        return 0

    async def pull(self, queue: MessageQueue, offset: int) -> PullResult:
        """Pull once; the broker suspends a pull that finds nothing."""
        routes = self._instance.routes
        broker_id = self.suggested_broker_ids.get(queue, 0)
        found = routes.reader(queue.broker_name, broker_id)
        if found is None:
            await routes.refresh(queue.topic)
            found = routes.reader(queue.broker_name, broker_id)
        if found is None:
            raise ClientError(f"broker {queue.broker_name} of topic {queue.topic} has no address")
        address, is_slave = found
        subscription = self._owner.subscription(queue.topic)
        if subscription is None:
            raise ClientError(f"topic {queue.topic} is not subscribed")
        committed = 0
        if self._offsets is not None and not is_slave:
            committed = self._offsets.offset_of_pull(queue)
        flag = sysflag.PULL_SUSPEND
        if committed > 0:
            flag |= sysflag.PULL_COMMIT_OFFSET
        began_ms = self._instance.clock.monotonic_ms()
        reply = await self._instance.api.call(
            address,
            RequestCode.PULL_MESSAGE,
            accept=PULL_STATUS,
            timeout_ms=self._config.pull_timeout_ms,
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=self._config.pull_batch_size,
            max_msg_bytes=self._config.pull_batch_size_bytes,
            sys_flag=flag,
            commit_offset=committed,
            suspend_timeout_millis=self._config.broker_suspend_max_ms,
            sub_version=subscription.sub_version,
            expression_type=subscription.expression_type,
            bname=queue.broker_name,
        )
        header = reply.header
        self.suggested_broker_ids[queue] = header.suggest_which_broker_id
        status = PULL_STATUS[reply.code]
        messages: list[MessageExt] = []
        if status is PullStatus.FOUND:
            messages = select_messages(read_messages(reply.body), subscription)
            messages = [one for one in messages if one.queue_offset >= offset]
            add_offset_bounds(messages, header.min_offset, header.max_offset)
            took_ms = self._instance.clock.monotonic_ms() - began_ms
            self._stats.pulled(queue.topic, len(messages), took_ms)
        return PullResult(
            status=status,
            next_begin_offset=header.next_begin_offset,
            min_offset=header.min_offset,
            max_offset=header.max_offset,
            messages=messages,
            suggested_broker_id=header.suggest_which_broker_id,
        )

    async def _accept(
        self, queue: MessageQueue, process: ProcessQueue, offset: int, result: PullResult
    ) -> int:
        """Pass the result on; returns the offset of the next pull."""
        process.broker_max_offset = result.max_offset
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning(
                "%s: offset %d of %s does not exist: continue at %d",
                self._group,
                offset,
                queue,
                result.next_begin_offset,
            )
            await self._owner.offset_moved(queue, result.next_begin_offset)
            return result.next_begin_offset
        if result.messages:
            process.put(result.messages)
            self._owner.deliver(result.messages, process, queue)
            if self._config.pull_interval_ms:
                await asyncio.sleep(self._config.pull_interval_ms / 1000)
        elif not process.count:
            # nothing to consume up to here: without this the lag of a filtering group would grow
            self._owner.skipped(queue, result.next_begin_offset)
        return result.next_begin_offset

    async def _pause_after(self, queue: MessageQueue, error: BrokerError) -> None:
        if error.code == ResponseCode.FLOW_CONTROL:
            await asyncio.sleep(BROKER_FLOW_CONTROL_MS / 1000)
            return
        log.warning("%s: pull of %s: %s", self._group, queue, error.message)
        if error.code in FORGOTTEN_CODES:
            await self._announce_once()
        await self._pause_after_failure(queue)

    async def _announce_once(self) -> None:
        """Send the subscriptions again: a broker that was restarted does not know them.

        Java's consumer stays idle until its next heartbeat, up to 30 s.
        """
        if self._announcing:
            return
        self._announcing = True
        try:
            await self._owner.announce()
        finally:
            self._announcing = False

    async def _pause_after_failure(self, queue: MessageQueue) -> None:
        self.suggested_broker_ids.pop(queue, None)
        await asyncio.sleep(self._config.pull_delay_when_exception_ms / 1000)

    async def close(self, wait_ms: float = 0) -> None:
        """End all loops; ``wait_ms``: the time that brokers have to answer suspended pulls."""
        self._closing = True
        tasks = list(self.loops.values())
        if tasks and wait_ms:
            await asyncio.wait(tasks, timeout=wait_ms / 1000)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
