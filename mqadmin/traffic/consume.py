"""Consuming to an output: exactly the messages that were passed on are committed.

:class:`GroupConsumer` is a member of a group. :class:`TopicConsumer` reads without a group. Both
yield one message at a time; asking for the next one means that the previous one was written and
flushed.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from time import sleep
from typing import Final, Literal

from broker.client import (
    ClientConfig,
    ConsumeFromWhere,
    ConsumerConfig,
    LitePullConsumer,
    MessageExt,
    MessageQueue,
)
from broker.common.clock import Clock, SystemClock
from broker.common.topic import retry_topic
from broker.errors import RocketMQError
from broker.message.message import PROPERTY_RETRY_TOPIC
from mqadmin.admin.message.read_from import ReadFrom, read_from
from mqadmin.admin.message.tail import Report
from mqadmin.admin.session import AdminSession
from mqadmin.traffic.options import Limits, Start
from mqadmin.traffic.stop import StopSignal

POLL_MS: Final = 200
COMMIT_INTERVAL_MS: Final = 1_000
CACHE_BYTES: Final = 64 * 1024 * 1024
"""Messages pulled ahead, of all queues together."""

PAUSE_S: Final = 0.1

CommitRule = Literal["as printed", "at end", "never"]

Messages = Generator[tuple[str | None, MessageExt], None, None]


def _ignore() -> None:
    pass


class _End:
    """Watches the limits and the stop signal."""

    def __init__(self, limits: Limits, stop: StopSignal, clock: Clock) -> None:
        self._limits = limits
        self._stop = stop
        self._clock = clock
        self._began_ms = self._idle_since_ms = clock.monotonic_ms()
        self.count = 0

    def counted(self) -> None:
        """Count a message."""
        self.count += 1
        self._idle_since_ms = self._clock.monotonic_ms()

    def poll_ms(self) -> int:
        """Return how long to wait for messages, 0 if it is time to end."""
        now_ms = self._clock.monotonic_ms()
        left = float(POLL_MS)
        if self._limits.for_ms is not None:
            left = min(left, self._began_ms + self._limits.for_ms - now_ms)
        if self._limits.idle_ms is not None:
            left = min(left, self._idle_since_ms + self._limits.idle_ms - now_ms)
        return 0 if self.reached or left <= 0 else max(1, int(left))

    @property
    def reached(self) -> bool:
        """Whether nothing more is to be printed."""
        if self._stop.requested or (
            self._limits.count is not None and self.count >= self._limits.count
        ):
            return True
        for_ms = self._limits.for_ms
        return for_ms is not None and self._clock.monotonic_ms() - self._began_ms >= for_ms


class GroupConsumer:
    """A member of a group; :meth:`messages` commits the messages taken from it.

    ``broker_of`` maps the storeHost of messages to broker names. ``commit`` decides when: ``never``
    leaves the group's offsets as they are, so that its next member gets the messages again;
    ``at end`` commits with :meth:`commit` only, for an output that is complete only at its end.
    """

    def __init__(
        self,
        client: ClientConfig,
        group: str,
        topic: str,
        *,
        start: Start = "latest",
        tags: str = "*",
        sql: str | None = None,
        broker_of: Mapping[str, str],
        commit: CommitRule = "as printed",
        clock: Clock | None = None,
    ) -> None:
        self._group = group
        self._clock = clock or SystemClock()
        self._broker_of = broker_of
        self._rule = commit
        self._consumer = LitePullConsumer(
            *(group, client, _config(start)),
            auto_commit=commit == "never",  # frees the cache with the next poll
            read_only=commit == "never",
        )
        self._consumer.subscribe(topic, tags, sql=sql)
        # the other members allocate retry queues to this one, too: it must read them
        self._consumer.subscribe(retry_topic(group))
        self._committed_ms = self._clock.monotonic_ms()
        self._uncommitted = 0
        self._partial: list[MessageExt] = []  # the rest of a batch of which a part was printed
        self.committed = 0

    def __enter__(self) -> "GroupConsumer":
        self._consumer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.shutdown()

    def messages(
        self, limits: Limits, stop: StopSignal, on_round: Callable[[], None] = _ignore
    ) -> Messages:
        """Yield (broker name, message) until a limit or a signal; call ``on_round`` meanwhile.

        A generator that is closed at a message has not printed it.
        """
        end = _End(limits, stop, self._clock)
        while poll_ms := end.poll_ms():
            on_round()
            batch = self._consumer.poll(poll_ms)
            printed = 0
            try:
                for message in batch:
                    if end.reached:
                        break
                    yield self._broker_of.get(message.store_host), message
                    printed += 1
                    end.counted()
            finally:
                self._uncommitted += printed
                self._partial = batch[printed:]
            if self._partial:
                return
            if batch and self._rule == "as printed":
                self._consumer.finish_polled()  # stored also if the queue moves before the commit
            self._commit_if_due(idle=not batch)

    def _commit_if_due(self, *, idle: bool) -> None:
        now_ms = self._clock.monotonic_ms()
        due = idle or now_ms - self._committed_ms >= COMMIT_INTERVAL_MS
        if self._uncommitted and due and self._rule == "as printed":
            self._commit_whole()

    def _commit_whole(self) -> None:
        self._consumer.commit()
        self._committed_ms = self._clock.monotonic_ms()
        self.committed += self._uncommitted
        self._uncommitted = 0

    def commit(self) -> None:
        """Commit the printed messages, at the end; does nothing with the rule ``never``."""
        if self._rule == "never":
            self.abandon()
            return
        rest, self._partial = self._partial, []
        queue = self._queue_of(rest[0]) if rest else None
        if queue is not None:
            # positions the queue at the first message that was not printed, and stores that
            self._consumer.seek(queue, rest[0].queue_offset)
        self._commit_whole()
        if rest and queue is None:
            raise RocketMQError(
                f"group {self._group}: the position of queue {rest[0].queue_id} of topic"
                f" {rest[0].topic} was not committed: another member has taken it over",
                "its last messages are delivered again",
            )

    def abandon(self) -> None:
        """Forget the messages printed since the last commit."""
        self._partial = []
        self._uncommitted = 0

    def _queue_of(self, message: MessageExt) -> MessageQueue | None:
        """Return the owned queue of a message; None if another member owns it now."""
        retried = message.reconsume_times > 0 and PROPERTY_RETRY_TOPIC in message.properties
        topic = retry_topic(self._group) if retried else message.topic
        name = self._broker_of.get(message.store_host)
        found = [
            queue
            for queue in self._consumer.assignment()
            if queue.topic == topic
            and queue.queue_id == message.queue_id
            and name in (None, queue.broker_name)
        ]
        if len(found) > 1:
            raise RocketMQError(
                f"the broker with the address {message.store_host} is not in the cluster list",
                f"the last messages of group {self._group} are delivered again",
            )
        return found[0] if found else None


def _config(start: Start) -> ConsumerConfig:
    where = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP
    if start == "earliest":
        where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    elif start == "latest":
        where = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    return ConsumerConfig(
        consume_from_where=where,
        consume_timestamp_ms=start if isinstance(start, int) else None,
        pull_threshold_for_queue=10_000,
        pull_threshold_size_for_queue=CACHE_BYTES,
        pull_threshold_size_for_topic=CACHE_BYTES,
    )


class TopicConsumer:
    """Reads a topic without joining a group; closes ``admin``, which has no total deadline."""

    def __init__(
        self,
        admin: AdminSession,
        question: ReadFrom,
        report: Report,
        *,
        clock: Clock | None = None,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        self._admin = admin
        self._question = question
        self._report = report
        self._clock = clock or SystemClock()
        self._pause = pause

    def _arrivals(self) -> Iterator[list[tuple[str, MessageExt]]]:
        return read_from(self._admin, self._question, self._report, self._clock)

    def __enter__(self) -> "TopicConsumer":
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def messages(
        self, limits: Limits, stop: StopSignal, on_round: Callable[[], None] = _ignore
    ) -> Messages:
        """Yield (broker name, message) until a limit or a signal; call ``on_round`` meanwhile."""
        end = _End(limits, stop, self._clock)
        for arrived in self._arrivals():
            on_round()
            for pair in arrived:
                if end.reached:
                    return
                yield pair
                end.counted()
            poll_ms = end.poll_ms()
            if not poll_ms:
                return
            if not arrived:
                self._pause(min(PAUSE_S, poll_ms / 1000))
