"""PopService: one pop loop per assigned queue, with long polling at the broker.

**Source:** RocketMQ ``PullMessageService``, ``DefaultMQPushConsumerImpl#popMessage``.
"""

import asyncio
import logging
from typing import Protocol

from broker.client.config import ConsumerConfig
from broker.client.consumer.flow_control import (
    BROKER_FLOW_CONTROL_MS,
    FLOW_CONTROL_MS,
    SUSPENDED_MS,
)
from broker.client.instance.client_instance import MQClientInstance
from broker.client.listener.stats import ConsumerStats
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.client.pop.pop_api import INIT_MODE_MAX, INIT_MODE_MIN, PopAPI, PopRequest, PopResult
from broker.client.pop.pop_process_queue import PopProcessQueue
from broker.client.results import PopStatus
from broker.common.message_queue import MessageQueue
from broker.common.subscription import SubscriptionData
from broker.errors import BrokerError, RocketMQError
from broker.message.message import MessageExt
from broker.remoting.protocol.codes import ResponseCode

log = logging.getLogger("broker.client")


class PopOwner(Protocol):
    """The consumer of a pop service."""

    paused: bool

    @property
    def max_reconsume_times(self) -> int:
        """Deliveries after the first before a message is no longer consumed."""
        ...

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Return the subscription of a topic."""
        ...

    def deliver_popped(
        self, messages: list[MessageExt], process: PopProcessQueue, queue: MessageQueue
    ) -> None:
        """Pass popped messages, which are counted already, to the listener."""
        ...


class PopService:
    """The pop loops of one push consumer."""

    def __init__(
        self,
        instance: MQClientInstance,
        group: str,
        config: ConsumerConfig,
        owner: PopOwner,
        *,
        stats: ConsumerStats,
    ) -> None:
        self.api = PopAPI(instance, group)
        self._clock = instance.clock
        self._group = group
        self._config = config
        self._owner = owner
        self._stats = stats
        self.loops: dict[PopProcessQueue, asyncio.Task[None]] = {}
        self._init_mode = (
            INIT_MODE_MIN
            if config.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
            else INIT_MODE_MAX
        )

    def start(self, queue: MessageQueue, process: PopProcessQueue) -> None:
        """Start the loop of a queue."""
        task = asyncio.get_running_loop().create_task(self._run(queue, process))
        self.loops[process] = task
        task.add_done_callback(lambda _: self.loops.pop(process, None))

    def stop(self, process: PopProcessQueue) -> None:
        """End the loop of a queue; messages on their way become visible again by themselves."""
        task = self.loops.pop(process, None)
        if task is not None:
            task.cancel()

    async def _run(self, queue: MessageQueue, process: PopProcessQueue) -> None:
        while not process.is_dropped():
            process.last_pop_ms = self._clock.monotonic_ms()
            subscription = self._owner.subscription(queue.topic)
            wait_ms = self._wait_ms(process)
            if wait_ms or subscription is None:
                await asyncio.sleep((wait_ms or self._config.pull_delay_when_exception_ms) / 1000)
                continue
            try:
                began_ms = self._clock.monotonic_ms()
                result = await self.api.pop(self._request(queue, subscription))
                if result.status is PopStatus.FOUND:
                    took_ms = self._clock.monotonic_ms() - began_ms
                    self._stats.pulled(queue.topic, len(result.messages), took_ms)
                    await self._accept(queue, process, result)
                wait_ms = self._pause_ms(result)
            except BrokerError as error:
                wait_ms = BROKER_FLOW_CONTROL_MS
                if error.code != ResponseCode.FLOW_CONTROL:
                    log.warning("%s: pop of %s: %s", self._group, queue, error.message)
                    wait_ms = self._config.pull_delay_when_exception_ms
            except RocketMQError as error:
                log.warning("%s: pop of %s: %s", self._group, queue, error.message)
                wait_ms = self._config.pull_delay_when_exception_ms
            except Exception:  # a defect: the queue would stall until it is recreated, 120 s
                log.exception("%s: pop of %s failed", self._group, queue)
                wait_ms = self._config.pull_delay_when_exception_ms
            if wait_ms:
                await asyncio.sleep(wait_ms / 1000)

    def _wait_ms(self, process: PopProcessQueue) -> int:
        """Return how long the next pop must wait; 0 if it need not."""
        if self._owner.paused:
            return SUSPENDED_MS
        if process.wait_ack_count > self._config.pop_threshold_for_queue:
            return FLOW_CONTROL_MS
        return 0

    def _pause_ms(self, result: PopResult) -> int:
        """Return how long to wait after a response."""
        if result.status is PopStatus.POLLING_FULL:
            return self._config.pull_delay_when_exception_ms
        return self._config.pull_interval_ms if result.messages else 0

    def _request(self, queue: MessageQueue, subscription: SubscriptionData) -> PopRequest:
        return PopRequest(
            queue=queue,
            subscription=subscription,
            max_messages=self._config.pop_batch_nums,
            invisible_ms=self._config.pop_invisible_ms,
            poll_ms=self._config.broker_suspend_max_ms,
            init_mode=self._init_mode,
        )

    async def _accept(
        self, queue: MessageQueue, process: PopProcessQueue, result: PopResult
    ) -> None:
        """Pass messages to the listener; those of other tags or over the maximum are acknowledged.

        Java 5.3.3 forgets to acknowledge the latter, if no tag was filtered out, so that the broker
        delivers them without end.
        """
        limit = self._owner.max_reconsume_times
        wanted = [one for one in result.messages if one.reconsume_times <= limit]
        if wanted:
            process.found(len(wanted))
            self._owner.deliver_popped(wanted, process, queue)
        spent = [one for one in result.messages if one.reconsume_times > limit]
        for message in spent:
            log.warning(
                "%s: acknowledged after %d deliveries: %s",
                self._group,
                message.reconsume_times,
                message,
            )
        for message in (*result.unwanted, *spent):
            await self.api.ack(message, queue.topic)

    async def close(self) -> None:
        """End all loops."""
        tasks = list(self.loops.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
