"""PopService: the state of pop consumption on one broker, and its work by time.

::

    processors ──► PopService ──► buffer, order info, offsets     messages in flight
                        ├──────► ReviveTopic ──► timer            check points and acks, written
                        └──────► PopReviveService                 not acknowledged: redelivered

The controller calls ``run`` when ``next_run_ms`` is reached and whenever a record reaches the
revive topic; the processors call the other methods.

**Source:** RocketMQ PopMessageProcessor, AckMessageProcessor, PopBufferMergeService (their state).
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from broker.message.check_point import AckMsg, MergeKey, PopCheckPoint
from broker.message.receipt_handle import ORDER_REVIVE_QUEUE_ID
from broker.remoting.budget import MemoryBudget
from broker.server.pop.assignment.request_mode import MessageRequestModeTable
from broker.server.pop.buffer import BufferedCheckPoint, BufferLimits, PopBufferMerge
from broker.server.pop.in_flight import InFlightCounter
from broker.server.pop.long_polling import ANY_QUEUE, PopLongPolling, SuspendedPop
from broker.server.pop.order_info import OrderInfoTable
from broker.server.pop.parts import PopParts
from broker.server.pop.pop_offsets import PopOffsets
from broker.server.pop.revive.revive_service import PopReviveService
from broker.server.pop.revive.revive_topic import ReviveTopic
from broker.store.results import PutMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection

log = logging.getLogger("broker.server")

WRITES_PER_RUN: Final = 64
RETRY_MS: Final = 200
# Changes of one message within a flush that its acknowledgement follows: invalid handles may form a
# cycle.
MAX_CHANGES: Final = 1_000
MAX_WAIT_MS: Final = 1_000  # waits for wall-clock times: a clock step delays nothing longer

Wake = Callable[[list[SuspendedPop]], None]


def _no_reader(waiting: list[SuspendedPop]) -> None:
    """Do nothing; used until the processors are bound."""


class ReplacedCheckPoint:
    """The acknowledgement of a message in a check point whose successor is not flushed yet."""

    __slots__ = ("ack", "acknowledged", "due_ms", "revive_queue_id")

    def __init__(self, ack: AckMsg, revive_queue_id: int, due_ms: int) -> None:
        self.ack = ack
        self.revive_queue_id = revive_queue_id
        self.due_ms = due_ms
        self.acknowledged = False


class PopService:
    """Everything that pop requests share; one instance per broker."""

    def __init__(self, parts: PopParts, memory: "MemoryBudget[Connection]") -> None:
        config = parts.config()
        self.parts = parts
        self.in_flight = InFlightCounter(parts.clock.now_ms())
        self.orders = OrderInfoTable()
        self.modes = MessageRequestModeTable()
        self.buffer = PopBufferMerge(
            BufferLimits(
                stay_ms=config.pop_ck_stay_buffer_time,
                timeout_ms=config.pop_ck_stay_buffer_time_out,
                max_entries=config.pop_ck_max_buffer_size,
                max_queue_entries=config.pop_ck_offset_max_queue_size,
            )
        )
        self.offsets = PopOffsets(parts, self.buffer, self.orders, self.in_flight)
        self.topic = ReviveTopic(parts)
        self.revive = PopReviveService(parts, self.topic, self.in_flight)
        limits = (config.max_pop_polling_size, config.pop_polling_size)
        self.pops = PopLongPolling(memory, limit=limits[0], key_limit=limits[1])
        self.notifications = PopLongPolling(
            memory, limit=limits[0], key_limit=limits[1], newest_first=True
        )

        # Acknowledgements that wait for the flush of a new check point, by the key of that one.
        self._replaced: dict[MergeKey, ReplacedCheckPoint] = {}

        self.wake: Wake = _no_reader
        self.notify: Wake = _no_reader
        self.on_schedule: Callable[[], None] | None = None

    # ---- waiting requests

    def schedule(self) -> None:
        """Report that a deadline may have become earlier: the controller arms its timer."""
        if self.on_schedule is not None:
            self.on_schedule()

    def arrived(self, topic: str, queue_id: int, tags_code: int, properties: bytes) -> None:
        """Wake the requests that a message can serve, one of a topic or of a pop retry topic."""
        for hold, execute in ((self.pops, self.wake), (self.notifications, self.notify)):
            retried = hold.retry_topics.get(topic)
            if retried is not None:
                execute(hold.wake_group(*retried))
            execute(hold.arrived(topic, queue_id, tags_code, properties))

    def freed(self, topic: str, group: str, queue_id: int) -> None:
        """Wake the requests of a group for a queue that an ordered batch no longer blocks."""
        for number in (queue_id, ANY_QUEUE):
            self.wake(self.pops.wake(topic, group, number))
            self.notify(self.notifications.wake(topic, group, number))

    def drop_connection(self, connection: "Connection") -> None:
        """Remove the waiting requests of a closed connection."""
        self.pops.drop_connection(connection)
        self.notifications.drop_connection(connection)

    def expire(self) -> None:
        """Execute the requests whose deadline has passed, and free queues blocked until now."""
        monotonic_ms = self.parts.clock.monotonic_ms()
        self.wake(self.pops.expire(monotonic_ms))
        self.notify(self.notifications.expire(monotonic_ms))
        for topic, group, queue_id in self.orders.free_keys(self.parts.clock.now_ms()):
            self.freed(topic, group, queue_id)

    def next_deadline_ms(self) -> float | None:
        """Return the monotonic time at which :meth:`expire` must be called next."""
        deadlines = [self.pops.next_deadline_ms(), self.notifications.next_deadline_ms()]
        free_ms = self.orders.next_free_ms()
        if free_ms is not None:
            clock = self.parts.clock
            wait_ms = min(max(0, free_ms - clock.now_ms()), MAX_WAIT_MS)
            deadlines.append(clock.monotonic_ms() + wait_ms)
        return min((at for at in deadlines if at is not None), default=None)

    # ---- check points and acknowledgements

    def open_check_point(self, ck: PopCheckPoint, revive_queue_id: int, next_offset: int) -> str:
        """Record delivered messages; return the reason if it failed: then deliver none of them.

        The offset of the queue advances to ``next_offset``: at once if the check point is in the
        log, else when the buffer has written it or all of its messages are acknowledged.
        """
        now_ms = self.parts.clock.now_ms()
        if self.parts.config().enable_pop_buffer_merge and self.buffer.accepts(ck, now_ms):
            self.buffer.add(ck, revive_queue_id, next_offset)
            self.schedule()
        else:
            result = self.topic.put_check_point(ck, revive_queue_id)
            if result.status is not PutMessageStatus.PUT_OK:
                return result.remark or result.status.name
            self.buffer.add_stored(ck, next_offset)
            self.commit_offsets()
        self.in_flight.add(ck.topic, ck.group, ck.queue_id, ck.count)
        return ""

    def renew_check_point(self, ck: PopCheckPoint, revive_queue_id: int) -> str:
        """Record a changed invisible time; return the reason if it failed.

        **Source:** RocketMQ ChangeInvisibleTimeProcessor#appendCheckPoint (never buffered).
        """
        result = self.topic.put_check_point(ck, revive_queue_id)
        if result.status is not PutMessageStatus.PUT_OK:
            return result.remark or result.status.name
        self.in_flight.add(ck.topic, ck.group, ck.queue_id, ck.count)
        return ""

    def replace_check_point(
        self, ck: PopCheckPoint, ack: AckMsg, revive_queue_id: int, due_ms: int
    ) -> str:
        """Record a changed invisible time, then the acknowledgement in the old check point.

        The acknowledgement is written after the new check point is flushed: a power cut that kept
        only the acknowledgement would lose the message. If the flush fails it is not written, and
        the message is delivered twice. It is written earlier if the message is acknowledged in the
        new check point: after that no crash may revive the old one. Java writes both at once.
        Returns the reason if the check point is not written.

        **Source:** RocketMQ ChangeInvisibleTimeProcessor#appendCheckPointThenAckOrigin.
        """
        failure = self.renew_check_point(ck, revive_queue_id)
        if failure:
            return failure
        store, end = self.parts.store, self.topic.written_end
        if end <= store.flushed_where:
            return self.acknowledge(ack, revive_queue_id, due_ms)
        key = ck.merge_key(self.parts.config().broker_name)
        replaced = self._replaced[key] = ReplacedCheckPoint(ack, revive_queue_id, due_ms)

        def flushed(status: PutMessageStatus) -> None:
            if self._replaced.get(key) is replaced:
                del self._replaced[key]
            if status is PutMessageStatus.PUT_OK and not replaced.acknowledged:
                self._acknowledge_replaced([replaced])

        store.await_flush(end, flushed)
        return ""

    def _acknowledge_replaced(self, waiting: Sequence[ReplacedCheckPoint]) -> str:
        """Write acknowledgements in replaced check points; return the reason if one failed."""
        for replaced in waiting:
            failure = self._acknowledge(replaced.ack, replaced.revive_queue_id, replaced.due_ms)
            if failure:
                log.warning("pop: an acknowledgement is not written: %s", failure)
                return failure
            replaced.acknowledged = True
        return ""

    def _replaced_by(self, key: MergeKey) -> list[ReplacedCheckPoint]:
        """Return the check points that wait for the one of ``key``, the oldest one first."""
        found: list[ReplacedCheckPoint] = []
        broker_name = self.parts.config().broker_name
        while (replaced := self._replaced.get(key)) is not None and len(found) < MAX_CHANGES:
            if not replaced.acknowledged:
                found.append(replaced)
            key = replaced.ack.merge_key(broker_name)
        return found[::-1]

    def skip_to(self, ck: PopCheckPoint, next_offset: int) -> None:
        """Advance the offset of a queue past messages that do not match the filter."""
        self.buffer.add_stored(ck, next_offset)
        self.commit_offsets()

    def acknowledge(self, ack: AckMsg, revive_queue_id: int, due_ms: int) -> str:
        """Record acknowledged messages; return the reason if it failed."""
        if self._replaced:
            # Before it: a crash in between must not leave an older check point to be revived.
            key = ack.merge_key(self.parts.config().broker_name)
            failure = self._acknowledge_replaced(self._replaced_by(key))
            if failure:
                return failure
        return self._acknowledge(ack, revive_queue_id, due_ms)

    def _acknowledge(self, ack: AckMsg, revive_queue_id: int, due_ms: int) -> str:
        parts = self.parts
        now_ms = parts.clock.now_ms()
        new: int | None = None
        if len(self.buffer):
            new = self.buffer.acknowledge(
                ack.merge_key(parts.config().broker_name), ack.offsets, now_ms
            )
        if new is None:
            result = self.topic.put_ack(ack, revive_queue_id, due_ms)
            if result.status is not PutMessageStatus.PUT_OK:
                return result.remark or result.status.name
            new = len(ack.offsets)
        self.commit_offsets()
        self.in_flight.remove(ack.topic, ack.group, ack.queue_id, ack.pop_time, new)
        return ""

    def commit_offsets(self) -> None:
        """Commit the offsets whose check points are done or in the log."""
        offsets = self.parts.offsets
        for (topic, group, queue_id), offset in self.buffer.take_offsets():
            if not offsets.reset_pending(group, topic, queue_id):
                offsets.commit(group, topic, queue_id, offset)

    def valid_revive_queue(self, revive_queue_id: int) -> bool:
        """Return whether a handle's revive queue exists, or marks an ordered pop."""
        return revive_queue_id == ORDER_REVIVE_QUEUE_ID or 0 <= revive_queue_id < self.topic.queues

    # ---- work by time

    def run(self) -> float | None:
        """Write due check points, revive, and clean; return ms until the next call, None: idle."""
        waits = [self._write_due(), self.revive.run()]
        return min((wait for wait in waits if wait is not None), default=None)

    def _write_due(self) -> float | None:
        now_ms = self.parts.clock.now_ms()
        due = self.buffer.take_due(now_ms, WRITES_PER_RUN)
        failed = self._write(due)
        for entry in failed:
            self.buffer.retry(entry, now_ms + RETRY_MS)
        self.commit_offsets()
        if len(due) == WRITES_PER_RUN and not failed:
            return 0.0
        due_ms = self.buffer.next_due_ms()
        return None if due_ms is None else max(0.0, due_ms - now_ms)

    def _write(self, entries: Sequence[BufferedCheckPoint]) -> list[BufferedCheckPoint]:
        """Write buffered check points with their acks; return those that were not written."""
        failed = []
        for entry in entries:
            if not entry.closed and not self._write_entry(entry):
                failed.append(entry)
        return failed

    def _write_entry(self, entry: BufferedCheckPoint) -> bool:
        ck, queue_id = entry.ck, entry.revive_queue_id
        if not entry.stored:
            acknowledged, ck.bits = ck.bits, 0  # as in Java: the bits are separate records
            result = self.topic.put_check_point(ck, queue_id)
            ck.bits = acknowledged
            if result.status is not PutMessageStatus.PUT_OK:
                return False
            entry.stored = True
        offsets = entry.unwritten
        batched = self.parts.config().enable_pop_batch_ack
        for group in [offsets] if batched and offsets else [[offset] for offset in offsets]:
            ack = AckMsg(
                topic=ck.topic,
                group=ck.group,
                queue_id=ck.queue_id,
                start_offset=ck.start_offset,
                pop_time=ck.pop_time,
                broker_name=None if batched else ck.broker_name,
                offsets=group,
                batched=batched,
            )
            result = self.topic.put_ack(ack, queue_id, ck.revive_time)
            if result.status is not PutMessageStatus.PUT_OK:
                return False
            for offset in group:
                entry.written |= 1 << ck.index_of(offset)
        self.buffer.written(entry)
        return True

    def flush_buffer(self) -> None:
        """Write everything that is buffered, before the broker stops.

        Acks that cannot be written are not committed: messages are delivered again after the start.
        """
        if self._replaced and self.parts.store.flush():
            waiting = [each for each in self._replaced.values() if not each.acknowledged]
            self._acknowledge_replaced(waiting)
        self.revive.stop()
        for entry in self._write(self.buffer.take_all()):
            log.warning(
                "pop: a check point of %s, group %s is not written: its messages come again",
                entry.ck.topic,
                entry.ck.group,
            )
        self.commit_offsets()

    def clean(self) -> None:
        """Forget deleted topics, groups and queues, and batches older than a day."""
        parts = self.parts

        def queues_of(topic: str, group: str) -> int:
            config = parts.topics.get(topic)
            return 0 if config is None or group not in parts.groups else config.read_queue_nums

        self.orders.clean(parts.clock.now_ms(), queues_of)
        self.in_flight.clean(lambda topic, group: queues_of(topic, group) > 0)
