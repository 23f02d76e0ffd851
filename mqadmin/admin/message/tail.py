"""Following a topic: the last messages of its queues, then new ones as they arrive.

A broker that fails is reported once and queried again later, so that it does not delay the
messages of the other brokers.
"""

from collections.abc import Callable, Iterator, Sequence
from time import sleep

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.common.message_queue import MessageQueue
from broker.errors import RocketMQError
from broker.message.message import MessageExt
from mqadmin.admin.failure import describe
from mqadmin.admin.message.queue_reader import NO_NEW_MESSAGE, PULL_ACCEPTS, QueueReader, read_pull
from mqadmin.admin.message.read import QueueRange, Reader, chosen_queues
from mqadmin.admin.message.record import unwrapped
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession

Report = Callable[[TargetError], None]

#: The pause after a round without messages.
PAUSE_MS = 200

#: Deadline of one round of pulls. Pulls that do not suspend are answered immediately.
ROUND_MS = 2_000

#: A failed queue is skipped for this long: a broker that hangs costs one round in fifteen.
RETRY_AFTER_MS = 30_000


class TailQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The topic to follow: its ``last`` messages, then new ones.

    Without ``follow`` it stops at the present end, with ``for_ms`` after that time.
    """

    topic: str
    last: int = 0
    follow: bool = True
    for_ms: int | None = None
    tags: str = "*"
    broker: str | None = None
    queue_id: int | None = None


def tail(
    admin: AdminSession, question: TailQuestion, report: Report, clock: Clock | None = None
) -> Iterator[tuple[str, MessageExt]]:
    """Yield (broker name, message); ``report`` receives each broker that does not respond.

    ClientError for an unknown topic; the last error when every broker fails.
    """
    clock = clock or SystemClock()
    ends_at = None if question.for_ms is None else clock.monotonic_ms() + question.for_ms
    route = admin.routes.get(question.topic)
    queues = chosen_queues(route, question.broker, question.queue_id)
    consumer = QueueReader(admin, routes=admin.routes)
    parts = _last_parts(consumer, queues, question.last, report)
    if question.last:
        yield from _present(consumer, parts, question, report)
    if not question.follow:
        return
    follower = Follower(consumer, {part.queue: part.end for part in parts}, question.tags, clock)
    while ends_at is None or clock.monotonic_ms() < ends_at:
        arrived = follower.round()
        for error in follower.new_errors:
            report(describe(error))
        yield from arrived
        if follower.failed_everywhere:
            raise follower.errors[-1]
        if not arrived:
            _pause(clock, ends_at)


def _pause(clock: Clock, ends_at: float | None) -> None:
    left_ms = PAUSE_MS if ends_at is None else min(PAUSE_MS, ends_at - clock.monotonic_ms())
    sleep(max(0.0, left_ms) / 1000)


def _last_parts(
    consumer: QueueReader, queues: Sequence[MessageQueue], last: int, report: Report
) -> list[QueueRange]:
    """Return the last messages of each queue that responds; raise the first error if none does."""
    parts: list[QueueRange] = []
    errors: list[RocketMQError] = []
    lows, highs = consumer.min_offsets(queues), consumer.max_offsets(queues)
    for queue, low, high in zip(queues, lows, highs, strict=True):
        if isinstance(low, int) and isinstance(high, int):
            begin = max(low, high - last)
            parts.append(
                QueueRange(queue=queue, begin=begin, end=high, min_offset=low, max_offset=high)
            )
        else:
            errors.append(low if isinstance(low, RocketMQError) else _error(high))
    if not parts:
        raise errors[0]
    for error in {error.message: error for error in errors}.values():
        report(describe(error))
    return parts


def _error(value: int | RocketMQError) -> RocketMQError:
    assert isinstance(value, RocketMQError), "one of both offsets failed"
    return value


def _present(
    consumer: QueueReader, parts: Sequence[QueueRange], question: TailQuestion, report: Report
) -> list[tuple[str, MessageExt]]:
    """Return the last messages already stored, over all queues in order of store time."""
    reader = Reader(consumer, limit=2**63, tags=question.tags)
    there = [pair for part in parts for pair in reader.read(part, lambda _: True)]
    there.sort(key=lambda pair: pair[1].store_timestamp)
    for error in reader.errors:
        report(error)
    return there[-question.last :]


class Follower:
    """Reads queues from the given offsets; each call of :meth:`round` returns the new messages.

    Each round pulls from every queue once. A queue that fails is skipped for ``RETRY_AFTER_MS``.
    ``errors`` are those of the last round, ``new_errors`` those of brokers that worked before.
    """

    def __init__(
        self,
        consumer: QueueReader,
        starts: dict[MessageQueue, int],
        tags: str,
        clock: Clock | None = None,
        *,
        sql: str | None = None,
    ) -> None:
        self._consumer = consumer
        self._caller = consumer.caller
        self._clock = clock or SystemClock()
        self._positions = starts
        self._tags = tags
        self._sql = sql
        self._retry_at: dict[MessageQueue, float] = {}
        self._failing: set[str] = set()  # broker names that were reported
        self.errors: list[RocketMQError] = []
        self.new_errors: list[RocketMQError] = []

    @property
    def failed_everywhere(self) -> bool:
        """True when the last round had errors and no queue is left that works."""
        return bool(self.errors) and len(self._retry_at) == len(self._positions)

    def round(self) -> list[tuple[str, MessageExt]]:
        """Return the messages stored since the last round, in order of store time."""
        now = self._clock.monotonic_ms()
        queues = [queue for queue in self._positions if self._retry_at.get(queue, 0) <= now]
        requests = [
            self._consumer.pull_request(
                queue, self._positions[queue], tags=self._tags, sql=self._sql
            )
            for queue in queues
        ]
        arrived: list[tuple[str, MessageExt]] = []
        self.errors, self.new_errors = [], []
        answers = self._caller.call_all(requests, accept=PULL_ACCEPTS)
        for queue, answer in zip(queues, answers, strict=True):
            if isinstance(answer, RocketMQError):
                self._failed(queue, answer)
                continue
            try:
                result = read_pull(answer, self._tags)
                arrived += [(queue.broker_name, message) for message in unwrapped(result.messages)]
            except RocketMQError as error:
                self._failed(queue, error)
                continue
            self._retry_at.pop(queue, None)
            self._failing.discard(queue.broker_name)
            if result.status != NO_NEW_MESSAGE:
                self._positions[queue] = result.next_begin_offset
        arrived.sort(key=lambda pair: pair[1].store_timestamp)
        return arrived

    def _failed(self, queue: MessageQueue, error: RocketMQError) -> None:
        self.errors.append(error)
        self._retry_at[queue] = self._clock.monotonic_ms() + RETRY_AFTER_MS
        if queue.broker_name not in self._failing:
            self._failing.add(queue.broker_name)
            self.new_errors.append(error)
