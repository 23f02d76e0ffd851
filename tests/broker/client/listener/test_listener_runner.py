"""Calls of a listener: order, skipped calls, reports."""

import asyncio
from collections.abc import Sequence

from broker.client.consumer.process_queue import StartMark
from broker.client.hooks.events import ConsumeEvent
from broker.client.listener.listener_runner import ListenerRunner, ListenerSkippedError
from broker.client.listener.listeners import ConsumeConcurrentlyContext
from broker.client.listener.stats import ConsumerStats
from broker.client.results import ConsumeConcurrentlyStatus
from broker.common.clock import ManualClock
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)
SUCCESS = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
Runner = ListenerRunner[ConsumeConcurrentlyStatus, ConsumeConcurrentlyContext]


def test_a_call_is_timed_reported_and_skipped_on_request() -> None:
    clock = ManualClock()
    events: list[ConsumeEvent] = []
    ended: list[tuple[object, float]] = []

    async def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        await asyncio.sleep(2)
        return SUCCESS

    async def main() -> None:
        runner: Runner = ListenerRunner(
            listener,
            group="g",
            clock=clock,
            stats=ConsumerStats(clock),
            hooks=[events.append],
            threads=1,
            success=SUCCESS,
        )
        messages = [MessageExt("T", b"x")]
        context = ConsumeConcurrentlyContext(message_queue=QUEUE)
        marks = [StartMark(), StartMark()]

        def end(result: ConsumeConcurrentlyStatus | BaseException, took_ms: float) -> None:
            ended.append((result, took_ms))

        runner.submit(messages, context, marks[0], end)
        runner.submit(messages, context, marks[1], end, skip=lambda: True)
        while len(ended) < 2:
            await asyncio.sleep(0.01)
        (first, took_ms), (second, no_ms) = ended
        assert first is SUCCESS
        assert 2_000 <= took_ms < 2_100
        assert isinstance(second, ListenerSkippedError)
        assert no_ms == 0
        await runner.close(0)
        runner.report(
            messages, QUEUE, marks[0], SUCCESS, consumed=1, took_ms=took_ms, timeout_ms=1_000
        )
        await asyncio.sleep(0)
        assert [(one.before, one.context_code) for one in events] == [(True, 0), (False, 1)]

    run_virtual(main(), clock)


def test_a_stop_cancels_work_that_does_not_end_in_time() -> None:
    clock = ManualClock()

    async def main() -> None:
        runner: Runner = ListenerRunner(
            lambda messages, context: SUCCESS,
            group="g",
            clock=clock,
            stats=ConsumerStats(clock),
            hooks=None,
            threads=1,
            success=SUCCESS,
        )
        runner.spawn(asyncio.sleep(1_000))
        assert not await runner.close(1_000)
        assert not runner.tasks()

    run_virtual(main(), clock)
