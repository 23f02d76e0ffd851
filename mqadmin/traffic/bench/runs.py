"""The three measurements: produce, consume, roundtrip."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from broker.client import (
    AsyncProducer,
    AsyncPushConsumer,
    ClientConfig,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumerConfig,
    Message,
    MessageExt,
    ProducerConfig,
)
from broker.common.clock import Clock, SystemClock
from broker.errors import ClientError, RequestTimeoutError, RocketMQError
from broker.remoting.process.loop import run as run_loop
from mqadmin.traffic.bench.result import BenchResult, Meter
from mqadmin.traffic.options import BenchOptions
from mqadmin.traffic.pace import Pace
from mqadmin.traffic.stop import StopSignal

TICK_S: Final = 0.1
RUN_PROPERTY: Final = "bench"
SENT_PROPERTY: Final = "sent"
ERROR_PAUSE_S: Final = 0.1

SUSPEND_MS: Final = 1_000
"""Suspension of the pulls of a temporary group, which ends only after the last of them."""

HOLD_INTERVAL_MS: Final = 5_000
"""A Java broker looks for expired pulls so often. **Source:** ``PullRequestHoldService#run``."""

MARGIN_MS: Final = 2_000

Progress = Callable[[Meter], None]


class Bench:
    """One measurement; ``progress`` is called ten times a second."""

    def __init__(
        self,
        client: ClientConfig,
        options: BenchOptions,
        stop: StopSignal,
        progress: Progress,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._stop = stop
        self._progress = progress
        self._clock = clock or SystemClock()
        self._meter = Meter(self._clock, options.warm_up_ms)
        self._sent = self._taken = 0

    def produce(self) -> BenchResult:
        """Send until the duration or the count is reached."""
        run_loop(self._produce())
        options = self._options
        return self._meter.result(
            "produce", options.topic, body_size=options.body_size, in_flight=options.in_flight
        )

    def consume(self, group: str, *, temporary: bool = False) -> BenchResult:
        """Consume as a member of ``group`` until the duration, the count or silence.

        A ``temporary`` group can be deleted afterwards: no broker has a request of it left.
        """
        run_loop(self._consume(group, temporary=temporary))
        return self._meter.result("consume", self._options.topic, from_first=True)

    def roundtrip(self, group: str, *, temporary: bool = False) -> BenchResult:
        """Send, and measure until the own listener has the message; see :meth:`consume`."""
        lost = run_loop(self._roundtrip(group, temporary=temporary))
        options = self._options
        return self._meter.result(
            "roundtrip",
            options.topic,
            body_size=options.body_size,
            in_flight=options.in_flight,
            lost=lost,
        )

    # ---- sending

    def _producer(self) -> AsyncProducer:
        config = ProducerConfig(
            send_msg_timeout_ms=self._options.timeout_ms,
            compress_over=1 << 30,  # random bodies do not shrink; the size on the wire is the given
        )
        return AsyncProducer("mqadmin_bench", self._client, config)

    async def _check_topic(self, producer: AsyncProducer) -> None:
        topic = self._options.topic
        if await producer.instance.routes.get(producer.wire_topic(topic)) is None:
            raise ClientError(
                f"topic {topic} does not exist", "give --create, or mqadmin topic create TOPIC"
            )

    async def _produce(self) -> None:
        async with self._producer() as producer:
            await self._check_topic(producer)
            self._meter.restart(self._options.warm_up_ms)
            await self._drive(
                [self._send_forever(producer, {}) for _ in range(self._options.in_flight)]
            )

    async def _drive(self, work: Sequence[object]) -> None:
        """Run sender coroutines until the measurement is over."""
        tasks = [asyncio.ensure_future(one) for one in work]  # type: ignore[call-overload]
        try:
            while not self._over() and any(not task.done() for task in tasks):
                self._progress(self._meter)
                await asyncio.wait(tasks, timeout=TICK_S, return_when=asyncio.ALL_COMPLETED)
            # sends in flight get their responses, so that their latencies count
            await asyncio.wait(tasks, timeout=self._options.timeout_ms / 1000)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _over(self) -> bool:
        options = self._options
        if self._stop.requested:
            return True
        if options.count is not None and self._meter.messages >= options.count:
            return True
        return options.duration_ms is not None and self._meter.elapsed_ms >= options.duration_ms

    def _enough_taken(self) -> bool:
        count = self._options.count
        return count is not None and self._meter.elapsed_ms >= 0 and self._taken >= count

    async def _send_forever(self, producer: AsyncProducer, properties: dict[str, str]) -> None:
        options = self._options
        pace = self._shared_pace()
        body = os.urandom(options.body_size)
        while not self._over() and not self._enough_taken():
            delay_s = pace.delay_s(options.batch)
            if delay_s:
                await asyncio.sleep(delay_s)
            if self._meter.elapsed_ms >= 0:
                self._taken += options.batch
            began_ms = self._clock.monotonic_ms()
            messages = [
                Message(
                    options.topic,
                    body,
                    tags="bench",
                    properties={**properties, SENT_PROPERTY: f"{began_ms:.3f}"}
                    if properties
                    else None,
                )
                for _ in range(options.batch)
            ]
            try:
                if options.batch == 1:
                    await producer.send(messages[0])
                else:
                    await producer.send_batch(messages)
            except RocketMQError as error:
                self._meter.fail(error, options.batch)
                await asyncio.sleep(ERROR_PAUSE_S)
                continue
            self._sent += options.batch
            if not properties and self._meter.is_measured(began_ms):
                took_ms = self._clock.monotonic_ms() - began_ms
                self._meter.done(took_ms, len(body) * options.batch, options.batch)

    _pace: Pace | None = None

    def _shared_pace(self) -> Pace:
        if self._pace is None:
            self._pace = Pace(self._options.rate, self._clock)
        return self._pace

    # ---- consuming

    def _consumer(
        self, group: str, where: ConsumeFromWhere, *, temporary: bool
    ) -> AsyncPushConsumer:
        config = ConsumerConfig(consume_from_where=where, consume_message_batch_max_size=32)
        if temporary:
            config = msgspec.structs.replace(
                config,
                broker_suspend_max_ms=SUSPEND_MS,
                await_suspended_pulls_ms=SUSPEND_MS + HOLD_INTERVAL_MS + MARGIN_MS,
            )
        consumer = AsyncPushConsumer(group, self._client, config)
        consumer.subscribe(self._options.topic)
        return consumer

    async def _consume(self, group: str, *, temporary: bool) -> None:
        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer = self._consumer(group, first, temporary=temporary)
        clock, meter = self._clock, self._meter
        last_ms = clock.monotonic_ms()

        async def listener(
            messages: Sequence[MessageExt], _: ConsumeConcurrentlyContext
        ) -> ConsumeConcurrentlyStatus:
            nonlocal last_ms
            last_ms = clock.monotonic_ms()
            now_ms = clock.now_ms()
            for message in messages:
                meter.done(now_ms - message.store_timestamp, len(message.body))
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

        consumer.listen(listener)
        async with consumer:
            meter.restart(self._options.warm_up_ms)
            while not self._over():
                self._progress(meter)
                await asyncio.sleep(TICK_S)
                idle_ms = self._options.idle_ms
                if idle_ms is not None and clock.monotonic_ms() - last_ms >= idle_ms:
                    break

    async def _roundtrip(self, group: str, *, temporary: bool) -> int:
        trip = _Trip(f"{os.getpid()}-{os.urandom(4).hex()}", self._clock, self._meter)
        last = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        consumer = self._consumer(group, last, temporary=temporary)
        consumer.listen(trip.listener)
        async with self._producer() as producer, consumer:
            await self._check_topic(producer)
            queues = await producer.fetch_publish_queues(self._options.topic)
            await self._wait(lambda: len(consumer.assignment()) >= len(queues), "its queues")
            self._meter.restart(self._options.warm_up_ms)
            properties = {RUN_PROPERTY: trip.name}
            await self._drive(
                [self._send_forever(producer, properties) for _ in range(self._options.in_flight)]
            )
            try:
                await self._wait(lambda: trip.received >= self._sent, "its messages")
            except RequestTimeoutError:
                pass
        return max(0, self._sent - trip.received)

    async def _wait(self, reached: Callable[[], bool], name: str) -> None:
        deadline_ms = self._clock.monotonic_ms() + self._options.timeout_ms
        while not reached():
            if self._clock.monotonic_ms() > deadline_ms or self._stop.number:
                raise RequestTimeoutError(
                    f"the consumer did not get {name} within {self._options.timeout_ms} ms",
                    "give more time with --timeout; mqadmin consumer list shows the group",
                )
            await asyncio.sleep(TICK_S / 10)


class _Trip(msgspec.Struct):
    """Receives the messages of one roundtrip run."""

    name: str
    clock: Clock
    meter: Meter
    received: int = 0

    async def listener(
        self, messages: Sequence[MessageExt], _: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """Count messages of this run; those of other runs are passed over."""
        now_ms = self.clock.monotonic_ms()
        for message in messages:
            if message.get_property(RUN_PROPERTY) == self.name:
                self.received += 1
                sent_ms = float(message.get_property(SENT_PROPERTY) or now_ms)
                if self.meter.is_measured(sent_ms):
                    self.meter.done(now_ms - sent_ms, len(message.body))
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
