"""Sending from a blocking caller: an event loop in a thread, bounds in flight, outcomes in order.

The caller submits messages in groups; the loop sends them concurrently, in batches, or with one
lane per queue when the order of a field matters. :meth:`Sender.wait_capacity` waits while too many
messages or bytes have no outcome.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar
from zlib import crc32

import msgspec

from broker.client import (
    AsyncProducer,
    ClientConfig,
    Message,
    MessageQueue,
    ProducerConfig,
    SendResult,
)
from broker.errors import BrokerError, ClientError, RemotingError, RocketMQError
from broker.remoting.process.loop import loop_factory
from mqadmin.traffic.options import SenderConfig
from mqadmin.traffic.outgoing import Outgoing

Result = TypeVar("Result")

LANE_ATTEMPTS: Final = 3
"""Attempts of an ordered message: it has only one queue, so its broker is tried again."""

LANE_PAUSE_S: Final = 0.2
BATCH_BYTES: Final = 1024 * 1024
"""Bodies of one batch; brokers accept 4 MiB with properties."""


class Outcome(msgspec.Struct, frozen=True):
    """A message that was sent (``result``), or failed (``error``), or was not tried (neither)."""

    sent: Outgoing
    result: SendResult | None = None
    error: RocketMQError | None = None


class Sender:
    """A producer on a loop thread; use it as a context manager."""

    def __init__(self, client: ClientConfig, config: SenderConfig) -> None:
        self.config = config
        self._producer = AsyncProducer(
            config.group, client, ProducerConfig(send_msg_timeout_ms=config.timeout_ms)
        )
        self._changed = threading.Condition()
        self._outcomes: deque[Outcome] = deque()
        self._open_count = self._open_bytes = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes: dict[MessageQueue, _Lane] = {}
        self._queues: dict[str, Sequence[MessageQueue]] = {}
        self._stopped = False  # ordered: a message failed, so nothing after it is sent

    # ---- life cycle (caller's thread)

    def __enter__(self) -> "Sender":
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="mqadmin-sender", daemon=True
        )
        self._thread.start()
        ready.wait()
        try:
            self._call(self._producer.start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call(self._shutdown())
        finally:
            self._end()

    def _run(self, ready: threading.Event) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            self._loop = loop = runner.get_loop()
            loop.call_soon(ready.set)
            loop.run_forever()

    def _end(self) -> None:
        assert self._loop is not None, "started"
        assert self._thread is not None, "started"
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        assert self._loop is not None, "not started"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _shutdown(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._producer.shutdown()

    # ---- for the caller

    def check_topic(self, topic: str) -> Sequence[MessageQueue]:
        """Return the writable queues of a topic.

        ClientError if it does not exist (and may not be created) or cannot be written.
        """
        if topic not in self._queues:
            self._queues[topic] = self._call(self._writable(topic))
        return self._queues[topic]

    async def _writable(self, topic: str) -> Sequence[MessageQueue]:
        wire_topic = self._producer.wire_topic(topic)
        route = await self._producer.instance.routes.get(wire_topic)
        if route is None and not self.config.create:
            raise ClientError(
                f"topic {topic} does not exist",
                "mqadmin topic create TOPIC creates it, and msg produce --create lets the broker",
            )
        queues = sorted(await self._producer.fetch_publish_queues(topic))
        if not queues:
            raise ClientError(
                f"topic {topic} has no writable queue", "mqadmin topic perm TOPIC rw allows writing"
            )
        return queues

    def wait_capacity(self, group: Sequence[Outgoing]) -> None:
        """Wait until the group fits the bounds; a group larger than them is admitted alone."""
        size = sum(one.size for one in group)
        with self._changed:
            self._changed.wait_for(lambda: self._fits(size))

    def submit(self, group: Sequence[Outgoing]) -> None:
        """Start sending a group that :meth:`wait_capacity` has admitted."""
        assert self._loop is not None, "not started"
        self.admit(group)
        self._loop.call_soon_threadsafe(self._accept, list(group))

    def admit(self, group: Sequence[Outgoing]) -> None:
        """Count the messages and bytes of a group until :meth:`finish` gets their outcomes."""
        with self._changed:
            self._open_count += len(group)
            self._open_bytes += sum(one.size for one in group)

    def _fits(self, size: int) -> bool:
        if not self._open_count:
            return True
        config = self.config
        return self._open_count < config.max_count and self._open_bytes + size <= config.max_bytes

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes since the last call."""
        with self._changed:
            found = list(self._outcomes)
            self._outcomes.clear()
        return found

    def wait(self, timeout_s: float) -> bool:
        """Wait until every message has an outcome; False if some has none after the time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open_count, timeout_s)

    @property
    def open_count(self) -> int:
        """Messages without an outcome."""
        return self._open_count

    # ---- on the loop

    def _accept(self, group: list[Outgoing]) -> None:
        if self.config.ordered:
            for one in group:
                self._lane(one).add(one)
            return
        if self.config.batch == 1:
            for one in group:
                self._start(self._send_one(one))
            return
        for batch in batches(group, self.config.batch):
            self._start(self._send_batch(batch))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None, "on the loop"
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_one(self, one: Outgoing) -> None:
        try:
            result = await self._producer.send(one.message)
        except RocketMQError as error:
            self.finish([Outcome(one, error=error)])
        else:
            self.finish([Outcome(one, result=result)])

    async def _send_batch(self, batch: Sequence[Outgoing]) -> None:
        if len(batch) == 1:
            await self._send_one(batch[0])
            return
        self.finish(await self._batch_outcomes(batch, None))

    async def _batch_outcomes(
        self, batch: Sequence[Outgoing], queue: MessageQueue | None
    ) -> list[Outcome]:
        """Send one batch; if the client refuses it, each of its messages separately."""
        try:
            result = await self._producer.send_batch([one.message for one in batch], queue=queue)
        except ClientError:  # one message is invalid: the others are sent
            found = []
            for one in batch:
                try:
                    found.append(
                        Outcome(one, result=await self._producer.send(one.message, queue=queue))
                    )
                except RocketMQError as error:
                    found.append(Outcome(one, error=error))
            return found
        except RocketMQError as error:
            return [Outcome(one, error=error) for one in batch]
        return [Outcome(one, result=part) for one, part in zip(batch, parts(result), strict=True)]

    def _lane(self, one: Outgoing) -> "_Lane":
        queues = self._queues[one.message.topic]
        number = one.queue_id
        if number is None:
            number = crc32((one.order or "").encode("utf-8", "surrogatepass"))
        queue = queues[number % len(queues)]
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = _Lane()
            self._start(self._serve(queue, lane))
        return lane

    async def _serve(self, queue: MessageQueue, lane: "_Lane") -> None:
        while True:
            batch = await lane.take(self.config.batch)
            if self._stopped:
                self.finish([Outcome(one) for one in batch])
                continue
            found = await self._in_order(batch, queue)
            if any(outcome.error is not None for outcome in found):
                self._stopped = True
            self.finish(found)

    async def _in_order(self, batch: Sequence[Outgoing], queue: MessageQueue) -> list[Outcome]:
        for attempt in range(1, LANE_ATTEMPTS + 1):
            try:
                if len(batch) == 1:
                    result = await self._producer.send(batch[0].message, queue=queue)
                    return [Outcome(batch[0], result=result)]
                result = await self._producer.send_batch(
                    [one.message for one in batch], queue=queue
                )
                return [
                    Outcome(one, result=part)
                    for one, part in zip(batch, parts(result), strict=True)
                ]
            except (RemotingError, BrokerError) as error:
                if attempt == LANE_ATTEMPTS:
                    return _failed_from(batch, error)
            except RocketMQError as error:
                return _failed_from(batch, error)
            await asyncio.sleep(LANE_PAUSE_S)
        raise AssertionError("the last attempt returns")

    def finish(self, found: Sequence[Outcome]) -> None:
        """Keep outcomes for :meth:`outcomes` and free the capacity of their messages."""
        with self._changed:
            self._outcomes.extend(found)
            self._open_count -= len(found)
            self._open_bytes -= sum(outcome.sent.size for outcome in found)
            self._changed.notify_all()


def _failed_from(batch: Sequence[Outgoing], error: RocketMQError) -> list[Outcome]:
    """The first message of an ordered batch failed, the others were not tried."""
    first, *rest = batch
    return [Outcome(first, error=error), *(Outcome(one) for one in rest)]


def batches(group: Sequence[Outgoing], limit: int) -> list[list[Outgoing]]:
    """Split into batches of one topic, at most ``limit`` messages and BATCH_BYTES each.

    Delayed messages are sent alone: brokers refuse them in a batch.
    """
    found: list[list[Outgoing]] = []
    open_batches: dict[str, tuple[list[Outgoing], int]] = {}
    for one in group:
        message, size = one.message, len(one.message.body)
        if _is_delayed(message):
            found.append([one])
            continue
        batch, total = open_batches.get(message.topic, ([], 0))
        if not batch or len(batch) == limit or total + size > BATCH_BYTES:
            batch, total = [], 0
            found.append(batch)
        batch.append(one)
        open_batches[message.topic] = (batch, total + size)
    return found


def _is_delayed(message: Message) -> bool:
    own = message.properties
    return "DELAY" in own or "TIMER_DELAY_MS" in own or "TIMER_DELIVER_MS" in own


def parts(result: SendResult) -> list[SendResult]:
    """Return the result of each message of a batch: ids and queue offsets follow each other."""
    keys = result.msg_id.split(",")
    ids = result.offset_msg_id.split(",")
    if len(ids) != len(keys):
        ids = ids[:1] * len(keys)
    return [
        msgspec.structs.replace(
            result,
            msg_id=key,
            offset_msg_id=offset_msg_id,
            queue_offset=result.queue_offset + number,
        )
        for number, (key, offset_msg_id) in enumerate(zip(keys, ids, strict=True))
    ]


class _Lane:
    """The messages of one queue that wait for those before them."""

    def __init__(self) -> None:
        self._waiting: deque[Outgoing] = deque()
        self._arrived = asyncio.Event()

    def add(self, one: Outgoing) -> None:
        """Append a message."""
        self._waiting.append(one)
        self._arrived.set()

    async def take(self, limit: int) -> list[Outgoing]:
        """Wait for messages; return up to ``limit`` of them that fit one request."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        batch, size = [self._waiting.popleft()], 0
        while self._waiting and len(batch) < limit and not _is_delayed(batch[0].message):
            following = self._waiting[0].message
            size += len(following.body)
            if size + len(batch[0].message.body) > BATCH_BYTES or _is_delayed(following):
                break
            batch.append(self._waiting.popleft())
        return batch
