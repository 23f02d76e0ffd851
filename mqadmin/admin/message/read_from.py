"""Reading a topic from a position on, without a group and without a trace on the brokers."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from broker.common.clock import Clock
from broker.common.message_queue import MessageQueue
from broker.errors import RocketMQError
from broker.message.message import MessageExt
from mqadmin.admin.failure import describe
from mqadmin.admin.message.queue_reader import QueueReader
from mqadmin.admin.message.read import chosen_queues
from mqadmin.admin.message.tail import Follower, Report
from mqadmin.admin.session import AdminSession

Position = Literal["earliest", "latest"]


class ReadFrom(msgspec.Struct, frozen=True, kw_only=True):
    """``start``: a position, or epoch ms. ``sql``: an SQL92 expression that replaces ``tags``."""

    topic: str
    start: Position | int = "latest"
    tags: str = "*"
    sql: str | None = None
    broker: str | None = None
    queue_id: int | None = None


def read_from(
    admin: AdminSession, question: ReadFrom, report: Report, clock: Clock
) -> Iterator[list[tuple[str, MessageExt]]]:
    """Yield the messages (broker name, message) that arrived since the last step, or [].

    It never ends. ``report`` receives each broker that does not respond; ClientError for an
    unknown topic, the last error when every broker fails.
    """
    consumer = QueueReader(admin, routes=admin.routes)
    route = admin.routes.get(question.topic)
    queues = chosen_queues(route, question.broker, question.queue_id)
    starts = _starts(consumer, question, queues, report)
    follower = Follower(consumer, starts, question.tags, clock, sql=question.sql)
    after_ms = question.start if isinstance(question.start, int) else 0
    while True:
        arrived = follower.round()
        for error in follower.new_errors:
            report(describe(error))
        if arrived or not follower.failed_everywhere:
            yield [pair for pair in arrived if pair[1].store_timestamp >= after_ms]
        if follower.failed_everywhere:
            raise follower.errors[-1]


def _starts(
    consumer: QueueReader,
    question: ReadFrom,
    queues: Sequence[MessageQueue],
    report: Report,
) -> dict[MessageQueue, int]:
    """Return the start of each queue that responds; raise the first error if none does."""
    positions = _positions(consumer, queues, question.start)
    starts: dict[MessageQueue, int] = {}
    errors: list[RocketMQError] = []
    for queue, position in zip(queues, positions, strict=True):
        if isinstance(position, RocketMQError):
            errors.append(position)
        else:
            starts[queue] = position
    if not starts:
        raise errors[0]
    for error in {error.message: error for error in errors}.values():
        report(describe(error))
    return starts


def _positions(
    consumer: QueueReader, queues: Sequence[MessageQueue], start: Position | int
) -> list[int | RocketMQError]:
    if start == "earliest":
        return consumer.min_offsets(queues)
    if start == "latest":
        return consumer.max_offsets(queues)
    assert isinstance(start, int), "a position or a time"
    found = consumer.search_offsets(queues, start)
    # brokers before 5.0 return the nearest message: one more is read, and compared exactly
    return [max(0, one - 1) if isinstance(one, int) else one for one in found]
