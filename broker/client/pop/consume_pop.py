"""ConsumePopConcurrentlyService: the listener's results become acknowledgements.

A consumed message is acknowledged; a failed one stays invisible for the interval of its number of
deliveries. A message whose invisible time has passed is not consumed, and its result does not
count: the broker delivers it again.

**Source:** RocketMQ ``ConsumeMessagePopConcurrentlyService``.
"""

import asyncio
import logging
from collections.abc import Sequence

from broker.client.config import ConsumerConfig
from broker.client.consumer.process_queue import StartMark
from broker.client.listener.concurrently import ConcurrentRunner, consumed_count, in_calls
from broker.client.listener.listener_runner import ListenerSkippedError
from broker.client.listener.listeners import ConsumeConcurrentlyContext
from broker.client.pop.pop_api import PopAPI
from broker.client.pop.pop_process_queue import PopProcessQueue
from broker.client.pop.receipt_handle import handle_of
from broker.client.results import ConsumeConcurrentlyStatus
from broker.common.message_queue import MessageQueue
from broker.errors import RocketMQError
from broker.message.message import MessageExt

log = logging.getLogger("broker.client")

MINUTES_S = tuple(60 * minutes for minutes in range(1, 11))
POP_DELAY_LEVEL_S = (10, 30, *MINUTES_S, 1_200, 1_800, 3_600, 7_200)
"""Intervals by number of deliveries. **Source:** ``DefaultMQPushConsumerImpl.popDelayLevel``."""


def retry_delay_s(reconsume_times: int, delay_level: int) -> int:
    """Return for how long a failed message stays invisible; ``delay_level`` 0: by deliveries."""
    level = delay_level if delay_level > 0 else reconsume_times
    return POP_DELAY_LEVEL_S[min(level, len(POP_DELAY_LEVEL_S) - 1)]


def spent_delay_s(age_ms: int) -> int | None:
    """Return the delay of a message that reached its maximum of deliveries; None to give it up.

    The delay grows with the age; after twice the longest interval the message is acknowledged,
    which is its end: POP has no dead letters on the client.

    **Source:** RocketMQ ``ConsumeMessagePopConcurrentlyService#checkNeedAckOrDelay``.
    """
    if age_ms > POP_DELAY_LEVEL_S[-1] * 1000 * 2:
        return None
    level = sum(age_ms >= delay_s * 1000 for delay_s in POP_DELAY_LEVEL_S)
    return retry_delay_s(0, level)


class ConsumePopConcurrentlyService:
    """Calls the listener with popped messages and acknowledges or postpones them."""

    def __init__(
        self,
        runner: ConcurrentRunner,
        config: ConsumerConfig,
        *,
        api: PopAPI,
        max_reconsume_times: int,
    ) -> None:
        self.runner = runner
        self._config = config
        self._group = runner.group
        self._clock = runner.clock
        self._api = api
        self._max_reconsume_times = max_reconsume_times

    def dispatch(
        self, messages: Sequence[MessageExt], process: PopProcessQueue, queue: MessageQueue
    ) -> None:
        """Submit popped messages, in calls of at most ``consume_message_batch_max_size``."""
        for call in in_calls(messages, self._config):
            self._submit(call, process, queue)

    def _submit(
        self, messages: Sequence[MessageExt], process: PopProcessQueue, queue: MessageQueue
    ) -> None:
        context = ConsumeConcurrentlyContext(message_queue=queue)
        mark = StartMark()
        expires_ms = min(handle_of(message).expires_ms for message in messages)

        def is_void() -> bool:
            return process.dropped or self._clock.now_ms() >= expires_ms

        def ended(result: ConsumeConcurrentlyStatus | BaseException, took_ms: float) -> None:
            process.finished(len(messages))
            if isinstance(result, asyncio.CancelledError):
                return
            if isinstance(result, ListenerSkippedError):
                log.info("%s: not consumed in time: %s", self._group, messages[0])
                return
            consumed = consumed_count(messages, context, result)
            self.runner.report(
                messages,
                queue,
                mark,
                result,
                consumed=consumed,
                took_ms=took_ms,
                timeout_ms=self._config.pop_invisible_ms,
            )
            if is_void():
                log.warning("%s: consumed too late: %s", self._group, messages[0])
            else:
                self.runner.spawn(self._acknowledge(messages, consumed, context, queue.topic))

        self.runner.submit(messages, context, mark, ended, skip=is_void)

    async def _acknowledge(
        self,
        messages: Sequence[MessageExt],
        consumed: int,
        context: ConsumeConcurrentlyContext,
        topic: str,
    ) -> None:
        for number, message in enumerate(messages):
            try:
                delay_s = None if number < consumed else self._delay_s(message, context)
                if delay_s is None:
                    await self._api.ack(message, topic)
                else:
                    await self._api.change_invisible_time(message, topic, delay_s * 1000)
            except RocketMQError as error:  # the message comes again when its time ends
                log.warning("%s: result of %s: %s", self._group, message, error.message)

    def _delay_s(self, message: MessageExt, context: ConsumeConcurrentlyContext) -> int | None:
        """Return for how long a failed message stays invisible; None to give it up."""
        if message.reconsume_times < self._max_reconsume_times:
            return retry_delay_s(message.reconsume_times, context.delay_level_when_next_consume)
        delay_s = spent_delay_s(self._clock.now_ms() - message.born_timestamp)
        log.warning("%s: the maximum of deliveries is reached: %s", self._group, message)
        return delay_s
