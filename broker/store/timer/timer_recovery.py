"""TimerRecovery: the state of the timers at the start, and the deliveries that it does not contain.

The state is that of the last checkpoint: units past its log position are removed, slots that refer
to them are shortened, and the messages of the timer queue from its queue offset on are enqueued
again. Deliveries made after the checkpoint are found in the CommitLog, so that they are not
repeated (:class:`Delivered`). If wheel, log or checkpoint do not fit together, all of them are
built again from the timer queue in the same way.

A checkpoint of Java may be ahead of its log position: the first unit past it decides.

**Source:** RocketMQ TimerMessageStore#recover, #recoverAndRevise, #reviseQueueOffset.
"""

import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from broker.common.java import string_hash, to_int32
from broker.common.topic import TIMER_TOPIC
from broker.errors import RemoteProtocolError, RocketMQError
from broker.message.record import peek_record
from broker.store.format.timer import (
    LOG_UNIT_SIZE,
    TimerCheckpoint,
    TimerLogUnit,
    TimerSlot,
)
from broker.store.timer.timer_log import MAGIC_DELETE, RELINKED, TimerLog
from broker.store.timer.timer_message import (
    OUT_MS,
    ROLL_TIMES,
    TimerMessage,
    decode_timer_message,
    identity,
    record_topic,
)
from broker.store.timer.timer_metrics import TimerMetrics
from broker.store.timer.timer_progress import TimerProgress
from broker.store.timer.timer_wheel import Chain, TimerWheel

if TYPE_CHECKING:
    from broker.store.message_store import MessageStore

log = logging.getLogger(__name__)

_TIMER_TOPIC: Final = TIMER_TOPIC.encode()


def extend(log: TimerLog, chain: Chain | None, unit: TimerLogUnit) -> Chain:
    """Append a unit to the timer log and to a chain; the longer chain."""
    last = -1 if chain is None else chain.last
    position = log.append(TimerLogUnit(unit[0], last, *unit[2:]))  # _replace costs 1 us more
    first, number = (position, 0) if chain is None else (chain.first, chain.number)
    return Chain(first, position, number + (-1 if unit.magic & MAGIC_DELETE else 1))


def link(log: TimerLog, wheel: TimerWheel, time_ms: int, unit: TimerLogUnit) -> None:
    """Append a unit to the timer log and to the chain of its slot."""
    wheel.put(time_ms, extend(log, wheel.get(time_ms), unit))


class _InconsistentFiles(Exception):
    """Wheel, timer log and checkpoint do not belong together."""


class Delivered:
    """Deliveries and rolls found in the CommitLog that the checkpoint does not record."""

    def __init__(self) -> None:
        self._copies: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self._copies)

    def add(self, message: TimerMessage, topic: bytes) -> None:
        """Record a copy that was found in the CommitLog."""
        self._copies[identity(message, topic, message.roll_times)] += 1

    def take(self, message: TimerMessage) -> bool:
        """Whether a copy of this message was delivered or rolled; each copy counts once."""
        rounds = message.roll_times
        for copy in (
            identity(message, message.real_topic, rounds),
            identity(message, _TIMER_TOPIC, rounds + 1),
        ):
            if self._copies[copy] > 0:
                self._copies[copy] -= 1
                return True
            del self._copies[copy]
        return False

    def clear(self) -> None:
        """Forget all copies."""
        self._copies.clear()


class TimerState(msgspec.Struct, kw_only=True):
    """Result: the next queue offset to enqueue, and the deliveries past the checkpoint.

    ``delivered_until_ms``: slots from this time on were not due before the stop.
    """

    queue_offset: int = 0
    delivered: Delivered = msgspec.field(default_factory=Delivered)
    delivered_until_ms: int = 0
    delivered_queue_offset: int = 0
    version_counter: int = 0
    notes: list[str] = msgspec.field(default_factory=list)


class TimerRecovery:
    """One recovery; the objects passed in are filled."""

    def __init__(
        self,
        store: "MessageStore",
        files: tuple[TimerLog, TimerWheel, TimerProgress],
        metrics: TimerMetrics,
    ) -> None:
        self._store = store
        self._log, self._wheel, self._progress = files
        self._metrics = metrics
        self._notes: list[str] = []
        self._read_time = 0

    def run(self, *, clean: bool) -> TimerState:
        """Recover; StoreError or OSError if a file cannot be read or written."""
        self._log.load(crashed=not clean, notes=self._notes)
        checkpoint = self._progress.read(self._notes)
        try:
            queue_offset = self._from_checkpoint(checkpoint, clean=clean)
        except _InconsistentFiles as error:
            queue_offset = self._rebuild(str(error))
        self._load_metrics(recount=not clean)
        queue_offset = max(queue_offset, self._store.get_min_offset(TIMER_TOPIC, 0), 0)
        end = self._store.get_max_offset(TIMER_TOPIC, 0)
        state = TimerState(
            queue_offset=min(queue_offset, end),
            delivered_until_ms=self._store.log.last_store_timestamp,
            delivered_queue_offset=end,
            version_counter=checkpoint.counter if checkpoint is not None else 0,
            notes=self._notes,
        )
        self._find_delivered(state)
        return state

    # ---- checkpoint, log, wheel

    def _from_checkpoint(self, checkpoint: TimerCheckpoint | None, *, clean: bool) -> int:
        """Restore the state of a checkpoint; the queue offset to continue from."""
        if checkpoint is None:
            if self._log.files.files or self._wheel.exists():
                raise _InconsistentFiles(f"{self._progress.path} is missing")
            if self._store.get_max_offset(TIMER_TOPIC, 0):
                raise _InconsistentFiles("there are no timer files")
            return 0
        end = checkpoint.last_timer_log_flush_position
        # Slots before the read time count as delivered: a corrupt time must not skip pending ones.
        latest = max(self._store.clock.now_ms(), self._store.log.last_store_timestamp)
        if checkpoint.last_read_time > latest + self._wheel.precision_ms:
            raise _InconsistentFiles(f"lastReadTimeMs {checkpoint.last_read_time} is in the future")
        self._read_time = checkpoint.last_read_time
        if end > self._log.end or (end and self._log.start > end):
            raise _InconsistentFiles(f"the timer log ends before position {end}")
        queue_offset = min(
            checkpoint.last_timer_queue_offset, self._first_unflushed(end, checkpoint)
        )
        chains, stale = self._read_wheel(end)
        self._check_slots(chains, end, clean=clean)
        # A message from the queue offset on is enqueued again in any case.
        relinked = [
            unit
            for _, unit in self._log.units(end)
            if unit.reserved == RELINKED and self._queue_offset_of(unit, -1) < queue_offset
        ]
        self._wheel.restore(chains)
        self._wheel.erase(stale)
        if relinked:
            end = self._restore_relinked(end, relinked)
        if relinked or queue_offset < checkpoint.last_timer_queue_offset:
            # Before the units that prove it are removed.
            corrected = checkpoint._replace(
                last_timer_log_flush_position=end,
                last_timer_queue_offset=queue_offset,
                master_timer_queue_offset=queue_offset,
            )
            self._progress.write(corrected, self._wheel.take_changes(), "")
        self._log.truncate(end)
        return queue_offset

    def _restore_relinked(self, end: int, relinked: list[TimerLogUnit]) -> int:
        """Put units back that had moved to another chain; the new end of the timer log.

        The wheel may have been written without its checkpoint: then the old chain is gone, and the
        new one is after the checkpoint's log position.
        """
        wanted = {unit.physical_offset for unit in relinked}
        present = {
            unit.physical_offset
            for time_ms in self._wheel.times()
            if (chain := self._wheel.get(time_ms)) is not None
            for _, unit in self._log.chain(chain.last)
            if unit.physical_offset in wanted
        }
        for position, _ in self._log.units(end):
            end = position + LOG_UNIT_SIZE
        self._log.truncate(end)
        for unit in relinked:
            if unit.physical_offset not in present:
                present.add(unit.physical_offset)
                link(self._log, self._wheel, unit.current_write_time + unit.delayed_ms, unit)
        return self._log.end

    def _first_unflushed(self, end: int, checkpoint: TimerCheckpoint) -> int:
        """Queue offset of the message of the first unit past the checkpoint's log position.

        Units that repeat an earlier one, or are in no chain, do not count.
        """
        for _, unit in self._log.units(end):
            if unit.reserved:
                continue
            queue_offset = self._queue_offset_of(unit, -1)
            if queue_offset >= 0:
                return queue_offset
        return checkpoint.last_timer_queue_offset

    def _queue_offset_of(self, unit: TimerLogUnit, default: int) -> int:
        """Queue offset of a unit's message; ``default`` if its record cannot be read."""
        record = self._store.get_record_at(unit.physical_offset, unit.message_size)
        head = peek_record(record) if record is not None else None
        return default if head is None else head.queue_offset

    def _read_wheel(self, end: int) -> tuple[dict[int, Chain], list[int]]:
        """Chains of the pending slots without units from ``end`` on; positions of stale slots."""
        wheel = self._wheel
        chains: dict[int, Chain] = {}
        stale: list[int] = []
        if not wheel.exists():
            if end:
                raise _InconsistentFiles(f"{wheel.path} is missing")
            return chains, stale
        if not wheel.has_length():
            raise _InconsistentFiles(f"{wheel.path} has another length")
        fits = False
        for position, slot in wheel.stored_slots():
            time_ms = slot.time * wheel.precision_ms
            # Stale slots too: with another precision every slot would look stale.
            fits = fits or self._fits(slot)
            chain = self._shortened(slot, end) if time_ms >= self._read_time else None
            if chain is None:
                stale.append(position)
            else:
                chains[time_ms] = chain
        return chains, stale

    def _check_slots(self, chains: dict[int, Chain], end: int, *, clean: bool) -> None:
        """Refuse a wheel that lacks slots of pending units, as after zeros in a part of it.

        The units are read only if the wheel has another number of messages than ``timermetrics``.
        After a crash the slots of the last deliveries may be empty, but not yet the checkpoint.
        """
        metrics = TimerMetrics()
        with contextlib.suppress(RocketMQError):
            metrics.decode(self._progress.metrics_file.load() or "{}")
            counted = sum(topic.count for topic in metrics.topics.values())
            if counted == sum(chain.number for chain in chains.values()):
                return
        precision_ms = self._wheel.precision_ms
        first = self._read_time if clean else self._store.log.last_store_timestamp
        for position, unit in self._log.units(self._log.start):
            if position >= end:
                return
            time_ms = unit.current_write_time + unit.delayed_ms
            time_ms -= time_ms % precision_ms
            if time_ms >= first and time_ms not in chains:
                raise _InconsistentFiles(f"the wheel lacks the slot of the unit at {position}")

    def _shortened(self, slot: TimerSlot, end: int) -> Chain | None:
        """The chain of a slot up to position ``end``; None if nothing is left of it."""
        last, number = slot.last_position, slot.number
        if last < 0:
            return None
        # The wheel is written after the log: units past the checkpoint can be followed back.
        while last >= end:
            unit = self._log.read(last)
            if unit is None or unit.previous_position >= last:
                raise _InconsistentFiles(f"the timer log has no unit at {last}")
            number += 1 if unit.magic & MAGIC_DELETE else -1
            last = unit.previous_position
        if last < 0:
            return None
        if last < self._log.start:
            return None  # its record has left the CommitLog, and its unit the timer log
        if not self._fits(slot._replace(last_position=last)):
            raise _InconsistentFiles(f"the timer log has no unit at {last}")
        return Chain(min(max(slot.first_position, 0), last), last, number)

    def _fits(self, slot: TimerSlot) -> bool:
        """Whether the last unit of a slot is in the timer log.

        A unit of another slot, as after a change of the precision, is an error.
        """
        unit = self._log.read(slot.last_position)
        if unit is None:
            return False
        if (unit.current_write_time + unit.delayed_ms) // self._wheel.precision_ms != slot.time:
            raise _InconsistentFiles(f"slot {slot.time} has a unit of another slot")
        return True

    def _rebuild(self, reason: str) -> int:
        """Discard the timer files: all messages of the timer queue are enqueued again."""
        pending = self._store.get_max_offset(TIMER_TOPIC, 0)
        if pending:
            self._notes.append(f"timers are rebuilt from {TIMER_TOPIC}: {reason}")
        self._read_time = 0
        # First: a new log must never be read with the positions of the old one.
        self._progress.remove()
        self._log.remove_all()
        self._wheel.remove_file()
        self._wheel.restore({})
        return max(0, self._store.get_min_offset(TIMER_TOPIC, 0))

    # ---- metrics

    def _load_metrics(self, *, recount: bool) -> None:
        """Read ``timermetrics``; after a crash count the pending units instead."""
        file = self._progress.metrics_file
        try:
            self._metrics.decode(file.load() or "{}")
        except RocketMQError as error:
            self._notes.append(f"{file.path}: {error.message}; counted again")
            recount = True
        if not recount:
            return
        names = {
            to_int32(string_hash(name)): name
            for name in (*self._store.queues(), *self._metrics.topics)
        }
        counts: Counter[str] = Counter()
        for time_ms in self._wheel.times():
            chain = self._wheel.get(time_ms)
            assert chain is not None
            for _, unit in self._log.chain(chain.last):
                if unit.real_topic_hash not in names:
                    names[unit.real_topic_hash] = self._topic_of(unit)
                name = names[unit.real_topic_hash]
                counts[name] += -1 if unit.magic & MAGIC_DELETE else 1
        counts.pop("", None)
        if any(counts.values()) or self._metrics.topics:
            self._metrics.replace(dict(counts), self._store.clock.now_ms())

    def _topic_of(self, unit: TimerLogUnit) -> str:
        """Real topic of a unit's message; empty if its record cannot be read."""
        record = self._store.get_record_at(unit.physical_offset, unit.message_size)
        try:
            return decode_timer_message(record).real_topic.decode() if record is not None else ""
        except (RemoteProtocolError, UnicodeDecodeError):
            return ""

    # ---- deliveries past the checkpoint

    def _find_delivered(self, state: TimerState) -> None:
        """Find the copies in the CommitLog of messages that are pending as of the checkpoint."""
        precision_ms = self._wheel.precision_ms
        first = self._wheel.first_time()
        may_be_delivered = first is not None and first + precision_ms <= state.delivered_until_ms
        if not may_be_delivered and state.queue_offset >= state.delivered_queue_offset:
            return
        position = self._scan_start(state.queue_offset)
        if position < 0:
            return
        records = self._store.log
        while position < records.max_offset:
            after = self._after_damage(position)
            if after > position:
                position = after  # a damaged copy is hidden from consumers: not delivered
                continue
            record = records.record_at(position)
            if record is None:
                size = records.file_size
                position += size - position % size
                continue
            position += len(record)
            self._add_copy(state.delivered, record)

    def _after_damage(self, position: int) -> int:
        """``position``, or the end of the damaged region that contains it."""
        for start, end in self._store.manifest.damaged:
            if start <= position < end:
                return end
        return position

    def _scan_start(self, queue_offset: int) -> int:
        """Physical offset of a record before the first copy that can matter; -1 without any."""
        store = self._store
        low, high = store.get_min_offset(TIMER_TOPIC, 0), store.get_max_offset(TIMER_TOPIC, 0)
        if high <= max(low, 0):
            return -1
        # A copy of a slot is stored after the end of the slot.
        before = store.offset_by_time(TIMER_TOPIC, 0, self._read_time - 1, "UPPER")
        for start in range(min(before, queue_offset, high - 1), max(low, 0) - 1, -1):
            for unit in store.consume_queue_units(TIMER_TOPIC, 0, start, 1):
                record = store.get_record_at(unit.physical_offset, unit.size)
                head = peek_record(record) if record is not None else None
                # A filler unit of recovery leads to a later record.
                if head is not None and head.queue_offset == start:
                    return unit.physical_offset
        return store.min_physical_offset

    def _add_copy(self, delivered: Delivered, record: memoryview) -> None:
        raw = bytes(record)
        if OUT_MS not in raw:
            return
        try:
            message = decode_timer_message(record)
        except RemoteProtocolError:
            return
        if not message.dequeued:
            return
        topic = record_topic(record, message.head)
        if topic == message.real_topic or (topic == _TIMER_TOPIC and ROLL_TIMES in raw):
            delivered.add(message, topic)
