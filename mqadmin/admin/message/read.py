"""Message queries that read queues: by offset, by time, by scanning for a key.

Queues are read with pull requests, but no offset is committed and no group is joined.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import merge

import msgspec

from broker.common.message_queue import MessageQueue
from broker.errors import ClientError, RocketMQError
from broker.message.message import MessageExt
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from broker.remoting.rpc.route_cache import Route
from mqadmin.admin.failure import describe
from mqadmin.admin.message import result as kinds
from mqadmin.admin.message.queue_reader import FOUND, PullResult, QueueReader
from mqadmin.admin.message.record import BodyView, record_of, unwrapped
from mqadmin.admin.message.result import QueryResult, failed_result
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession

Test = Callable[[MessageExt], bool]


class QueueRange(msgspec.Struct, frozen=True, kw_only=True):
    """One queue and the offsets to read: ``begin <= queue offset < end``.

    ``min_offset`` and ``max_offset`` are the range the broker keeps.
    """

    queue: MessageQueue
    begin: int
    end: int
    min_offset: int
    max_offset: int


def chosen_queues(
    route: Route, broker: str | None = None, queue_id: int | None = None
) -> list[MessageQueue]:
    """Return the readable queues of a route, a broker, or one queue; ClientError if none."""
    names = route.broker_names()
    if broker is not None and broker not in names:
        raise ClientError(
            f"broker {broker} has no topic {route.topic} (it is on {', '.join(names)})",
            "mqadmin topic route TOPIC shows where it is",
        )
    queues = [
        queue
        for queue in route.subscribe_queues()
        if broker in (None, queue.broker_name) and queue_id in (None, queue.queue_id)
    ]
    if not queues:
        if not route.subscribe_queues():
            raise ClientError(
                f"topic {route.topic} has no readable queue on any broker",
                f"mqadmin topic perm {route.topic} rw makes it readable",
            )
        where = f"queue {queue_id}" if queue_id is not None else "readable queue"
        raise ClientError(
            f"topic {route.topic} has no {where} on {broker or 'any broker'}",
            "mqadmin topic status TOPIC shows its queues",
        )
    return queues


def time_ranges(
    consumer: QueueReader,
    queues: Sequence[MessageQueue],
    begin_ms: int | None,
    end_ms: int | None,
) -> tuple[list[QueueRange], list[TargetError]]:
    """Return the offset range of messages stored in [begin_ms, end_ms) in each queue.

    None leaves an end open. Brokers before 5.0 return the message nearest to a time, so the range
    is extended by one message on each side: callers check the exact store time themselves.
    """
    minima = consumer.min_offsets(queues)
    maxima = consumer.max_offsets(queues)
    begins = minima if begin_ms is None else consumer.search_offsets(queues, begin_ms)
    ends = maxima if end_ms is None else consumer.search_offsets(queues, end_ms)
    ranges: list[QueueRange] = []
    errors: list[TargetError] = []
    for queue, low, high, begin, end in zip(queues, minima, maxima, begins, ends, strict=True):
        values = (low, high, begin, end)
        failed = next((value for value in values if isinstance(value, RocketMQError)), None)
        if failed is not None:
            errors.append(describe(failed, target=_name(queue)))
            continue
        numbers = [value for value in values if isinstance(value, int)]
        low_offset, high_offset, first, last = numbers
        ranges.append(
            QueueRange(
                queue=queue,
                begin=max(low_offset, first - (begin_ms is not None)),
                end=min(high_offset, last + (end_ms is not None)),
                min_offset=low_offset,
                max_offset=high_offset,
            )
        )
    return ranges, errors


class Reader:
    """Reads several queues; collects errors and counts messages."""

    def __init__(self, consumer: QueueReader, *, limit: int, tags: str = "*") -> None:
        self.consumer = consumer
        self.limit = limit
        self.tags = tags
        self.scanned = 0
        self.cut = False
        self.errors: list[TargetError] = []

    def read(self, part: QueueRange, wanted: Test) -> Iterator[tuple[str, MessageExt]]:
        """Yield (broker name, message) of one queue; stops early at the limit or on an error."""
        queue = part.queue
        messages = self.consumer.scan(queue, part.begin, part.end, tags=self.tags)
        try:
            for message in unwrapped(messages):
                if self.scanned >= self.limit:
                    self.cut = True
                    return
                self.scanned += 1
                if wanted(message):
                    yield queue.broker_name, message
        except RocketMQError as error:
            self.errors.append(describe(error, target=_name(queue)))

    def read_all(
        self, parts: Sequence[QueueRange], wanted: Test
    ) -> Iterator[tuple[str, MessageExt]]:
        """Yield the messages of all queues in order of store time."""
        return merge(
            *(self.read(part, wanted) for part in parts),
            key=lambda pair: pair[1].store_timestamp,
        )


def query_offset(
    admin: AdminSession,
    route: Route,
    queue: MessageQueue,
    queue_offset: int,
    *,
    count: int = 1,
    view: BodyView | None = None,
) -> QueryResult:
    """Return the message at ``queue_offset`` and the ``count - 1`` after it."""
    consumer = QueueReader(admin, routes=admin.routes)
    items: list[MessageExt] = []
    errors: list[TargetError] = []
    position = queue_offset
    result: PullResult | None = None
    while len(items) < count:
        try:
            result = consumer.pull(queue, position, max_messages=min(32, count - len(items)))
        except RocketMQError as error:
            errors = [describe(error, target=_name(queue))]
            if not items:
                return failed_result(errors)
            break
        if result.status != FOUND or result.next_begin_offset <= position:
            break
        items += [
            message for message in unwrapped(result.messages) if position <= message.queue_offset
        ]
        position = result.next_begin_offset
        if count == 1:
            break
    if count == 1:
        items = [message for message in items if message.queue_offset == queue_offset]
    if items:
        return QueryResult(
            kind=kinds.FOUND,
            items=[record_of(message, queue.broker_name, view) for message in items[:count]],
            errors=errors,
        )
    assert result is not None, "at least one pull was made"
    return _no_results(queue, queue_offset, result)


def _no_results(queue: MessageQueue, queue_offset: int, result: PullResult) -> QueryResult:
    """Explain why a queue offset has no message: below or past the range, or record deleted."""
    place = f"{_name(queue)} keeps queue offsets {result.min_offset} to {result.max_offset - 1}"
    if result.max_offset <= result.min_offset and queue_offset >= result.max_offset:
        place = f"{_name(queue)} is empty"
    if queue_offset >= result.max_offset:
        return QueryResult(
            kind=kinds.NOT_WRITTEN,
            detail=f"queue offset {queue_offset} is not written yet: {place}",
            hint="mqadmin topic status TOPIC shows the range of each queue",
        )
    if queue_offset < result.min_offset:
        return QueryResult(
            kind=kinds.DATA_DELETED,
            detail=f"queue offset {queue_offset} has expired: {place}",
            hint="mqadmin topic status TOPIC shows the range of each queue",
        )
    return QueryResult(
        kind=kinds.DATA_DELETED,
        detail=f"queue offset {queue_offset} is in range, but its message is no longer in the "
        f"CommitLog ({result.remark or result.status}): {place}",
        hint="mqadmin store inspect on the broker's host shows the content of the files",
    )


def query_time(
    admin: AdminSession,
    queues: Sequence[MessageQueue],
    window: tuple[int | None, int | None],
    *,
    max_items: int,
    tags: str = "*",
    view: BodyView | None = None,
) -> QueryResult:
    """Return messages stored in [begin, end) of several queues, in order of store time."""
    begin_ms, end_ms = window
    consumer = QueueReader(admin, routes=admin.routes)
    parts, errors = time_ranges(consumer, queues, begin_ms, end_ms)
    reader = Reader(consumer, limit=2**63, tags=tags)
    low, high = begin_ms or 0, 2**63 if end_ms is None else end_ms
    found = reader.read_all(parts, lambda message: low <= message.store_timestamp < high)
    items: list[tuple[str, MessageExt]] = []
    truncated = False
    for pair in found:
        if len(items) >= max_items:
            truncated = True
            break
        items.append(pair)
    errors += reader.errors
    if items:
        return QueryResult(
            kind=kinds.FOUND,
            items=[record_of(message, name, view) for name, message in items],
            errors=errors,
            truncated=truncated,
            scanned=reader.scanned,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
        )
    if errors:
        return failed_result(errors)
    return _no_results_in_window(admin, consumer, parts, window)


def _no_results_in_window(
    admin: AdminSession,
    consumer: QueueReader,
    parts: Sequence[QueueRange],
    window: tuple[int | None, int | None],
) -> QueryResult:
    """Explain an empty time window: before the oldest message kept, or no message was stored."""
    begin_ms, end_ms = window
    if all(part.max_offset <= part.min_offset for part in parts):
        return QueryResult(kind=kinds.NOT_FOUND, detail="the queues are empty")
    expired = any(part.min_offset > 0 for part in parts)
    oldest = oldest_store_time(admin, consumer, [part.queue for part in parts])
    if expired and oldest is not None and end_ms is not None and end_ms <= oldest:
        return QueryResult(
            kind=kinds.DATA_DELETED,
            detail="the window ends before the oldest message",
            hint="widen the window, or read a copy of the store with mqadmin store inspect",
            begin_timestamp=oldest,
        )
    return QueryResult(
        kind=kinds.NOT_FOUND,
        detail="no message was stored in the window",
        hint="widen it with --since and --until",
        begin_timestamp=begin_ms,
        end_timestamp=end_ms,
    )


def oldest_store_time(
    admin: AdminSession, consumer: QueueReader, queues: Sequence[MessageQueue]
) -> int | None:
    """Return the store time of the oldest message in the queues, None when all are empty."""
    answers = admin.call_all(
        [
            (
                consumer.address(queue),
                build_request(
                    RequestCode.GET_EARLIEST_MSG_STORETIME,
                    {"topic": queue.topic, "queue_id": queue.queue_id},
                ),
            )
            for queue in queues
        ]
    )
    times = [answer.header.timestamp for answer in answers if not isinstance(answer, RocketMQError)]
    known = [time for time in times if time > 0]
    return min(known) if known else None


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
