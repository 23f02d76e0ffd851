"""TimerMessageStore: messages with a delivery time, from the timer queue to their topic.

:meth:`TimerMessageStore.run` does a bounded part of the work and returns when it must be called
again. It enqueues the new messages of the timer topic, then delivers the slots that are over, in
the order of their time, each once all messages stored before its end are enqueued. So a recall that
was accepted before its message was due is always seen.

All methods are called in the thread that appends, except the jobs of
:meth:`TimerMessageStore.snapshot`.

A record that cannot be delivered (corrupt, or permanently refused by the store) is quarantined: it
is skipped, counted, logged with its position, and stays in the CommitLog. Java retries a record
without TIMER_OUT_MS forever, and delivers no later timer.

**Source:** RocketMQ TimerMessageStore.
"""

import logging
import os
import random
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from broker.common.java import string_hash, to_int32
from broker.common.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK
from broker.common.topic import TIMER_TOPIC
from broker.errors import RemoteProtocolError, RocketMQError
from broker.message import message as props
from broker.message.properties import peek_property
from broker.store.format.consumequeue import PRE_BLANK_SIZE
from broker.store.format.timer import LOG_UNIT_SIZE, SLOTS, TimerCheckpoint, TimerLogUnit
from broker.store.results import (
    ConsumeQueueUnitView,
    MessageExtBrokerInner,
    PutMessageResult,
    PutMessageStatus,
)
from broker.store.timer.enqueue_barrier import EnqueueBarrier
from broker.store.timer.slot_reader import SlotReader
from broker.store.timer.timer_log import (
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    RELINKED,
    TimerLog,
)
from broker.store.timer.timer_message import (
    DELETE_KEY,
    UNIQ_KEY,
    TimerMessage,
    decode_timer_message,
    delete_key,
    deliver_time,
    is_timer_request,
    restored,
    rolled,
    slot_time,
)
from broker.store.timer.timer_metrics import TimerMetrics
from broker.store.timer.timer_progress import TIMER_LOG_DIR, TIMER_WHEEL, TimerProgress
from broker.store.timer.timer_recovery import TimerRecovery, TimerState, extend, link
from broker.store.timer.timer_wheel import Chain, TimerWheel

if TYPE_CHECKING:
    from broker.store.message_store import MessageStore

log = logging.getLogger(__name__)

Job = Callable[[], None]

MAX_PER_TURN: Final = 192  # deliveries, or enqueued messages, per call: about 5 ms
READ_STEPS: Final = 8_192  # units of a chain read per call
MAX_WAIT_MS: Final = 1_000  # longest time between two calls while a message is pending
RETRY_PUT_MS: Final = 100  # also until messages are visible that a due slot needs
STEP_MS: Final = 2_000  # a clock that is set back by less is not noticed
MAX_LOGGED: Final = 100  # quarantined records that are logged; all are counted
# Half the wheel is for the future; slots next to the reading position stay free, as in Java.
_MAX_WINDOW_SLOTS: Final = SLOTS // 2 - 60
_REFUSED_FOR_GOOD: Final = {
    PutMessageStatus.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
}
_ILLEGAL: Final = PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL


@lru_cache(maxsize=1_024)
def _topic_hash(topic: str) -> int:
    return to_int32(string_hash(topic))


class TimerMessageStore:
    """The timers of one store.

    ``on_delivered(topic, stored bytes)`` is called for each message stored in its real topic.
    Counters count since the start: ``enqueued``, ``dequeued`` (delivered, rolled or recalled),
    ``recalled``, ``quarantined``.
    """

    def __init__(self, store: "MessageStore", *, slots: int = SLOTS) -> None:
        config, disk = store.config, store.disk
        self._store = store
        self._clock = store.clock
        self._precision_ms = config.timer_precision_ms
        window = config.timer_roll_window_slot
        self._window_slots = window if 2 <= window <= _MAX_WINDOW_SLOTS else _MAX_WINDOW_SLOTS
        self.timer_log = TimerLog(
            disk, os.path.join(config.root, TIMER_LOG_DIR), config.mapped_file_size_timer_log
        )
        self.wheel = TimerWheel(
            disk, os.path.join(config.root, TIMER_WHEEL), self._precision_ms, slots
        )
        self.progress = TimerProgress(disk, config.root, self.timer_log, self.wheel)
        self.metrics = TimerMetrics()
        self.queue_offset = 0
        self._recovered = TimerState()
        self._reader: SlotReader | None = None
        self._barrier = EnqueueBarrier()
        # Slots whose messages are placed again, the earliest last; chain of those that stay.
        self._times_to_move: list[int] = []
        self._moving = False
        self._kept: Chain | None = None
        self._clock_seen = (0.0, 0.0)
        self._version_counter = 0
        self._changed = False
        self._failed = ""
        self.on_delivered: Callable[[str, int], None] | None = None
        self.enqueued = self.dequeued = self.recalled = self.quarantined = 0

    # ---- life cycle

    def load(self, *, clean: bool) -> list[str]:
        """Recover, after the store has been loaded; return notes for the log."""
        recovery = TimerRecovery(
            self._store, (self.timer_log, self.wheel, self.progress), self.metrics
        )
        state = self._recovered = recovery.run(clean=clean)
        self.queue_offset = state.queue_offset
        self._version_counter = state.version_counter
        # Records of the future: the clock was set back while the broker was down.
        newest_ms = max(self._store.log.last_store_timestamp, self._clock.now_ms())
        self._clock_seen = newest_ms, self._clock.monotonic_ms()
        return state.notes

    def shutdown(self) -> None:
        """Write the state and close the files; before the store is shut down.

        StoreError or OSError if the state cannot be written: the next start recovers.
        """
        try:
            if self._reader is not None:
                self._relink(self._reader)
            self._mark_queue_offset()
            job = self.snapshot()
            if job is not None:
                job()
        finally:
            self.timer_log.close()

    def _mark_queue_offset(self) -> None:
        """End the timer log with a unit of the last message of the timer queue that was enqueued.

        Java continues the queue after the message of the last unit; messages that were enqueued
        without a unit, or before a relinked one, would be enqueued again. The unit is in no chain,
        and its time is over.
        """
        if self.queue_offset == 0 or not self.timer_log.end:
            return
        last = self.timer_log.read(self.timer_log.end - LOG_UNIT_SIZE)
        units = self._store.consume_queue_units(TIMER_TOPIC, 0, self.queue_offset - 1, 1)
        for unit in units:
            if last is None or last.physical_offset != unit.physical_offset or last.reserved:
                past_ms = self.read_time_ms - 2 * self._precision_ms
                self.timer_log.append_queue_mark(unit.physical_offset, unit.size, past_ms)
                self._changed = True

    def _relink(self, reader: SlotReader) -> None:
        """Give the unfinished part of a slot a separate chain, so that it can be continued.

        Java, which does not look for delivered copies, then repeats none of them either.
        """
        reader.read(1 << 62)
        if reader.extend(self.wheel.get(reader.time_ms)):
            reader.read(1 << 62)
        self._close_slot(reader)

    def _close_slot(self, reader: SlotReader) -> None:
        """Empty a slot except for the units that stay: those not done, and recalls for them."""
        rest = reader.rest()
        chain = self._kept if self._moving else None
        for position in rest if self._moving or len(rest) > reader.recall_count else ():
            unit = self.timer_log.read(position)
            if unit is not None:
                chain = extend(self.timer_log, chain, unit._replace(reserved=RELINKED))
                if unit.magic & MAGIC_DELETE and not unit.magic & MAGIC_ROLL:
                    self._count_recall(unit, -1)
        if chain is None:
            self.wheel.clear(reader.time_ms)
        else:
            self.wheel.put(reader.time_ms, chain)
        self._reader = self._kept = None
        self._moving = False
        self._changed = True

    # ---- progress

    @property
    def read_time_ms(self) -> int:
        """Start of the first slot that is not finished, epoch ms."""
        write_time = self._write_time(self._clock.now_ms())
        first = self.wheel.first_time()
        return write_time if first is None else min(first, write_time)

    @property
    def offset_behind(self) -> int:
        """Messages of the timer queue that are not in the wheel yet."""
        return max(0, self._store.get_max_offset(TIMER_TOPIC, 0) - self.queue_offset)

    def checkpoint(self) -> TimerCheckpoint:
        """The present state as it would be written now."""
        return TimerCheckpoint(
            self.read_time_ms,
            self.timer_log.end,
            self.queue_offset,
            self.queue_offset,
            0,
            self._clock.now_ms(),
            self._version_counter,
        )

    @property
    def changed(self) -> bool:
        """Whether the present state differs from the files and can be written."""
        return self._changed and not self._failed

    @property
    def precision_ms(self) -> int:
        """Length of a slot, ms."""
        return self._precision_ms

    def snapshot(self) -> Job | None:
        """A job that writes the present state, for any thread; None if nothing has changed.

        The caller must not run two jobs at once. The job first flushes the CommitLog up to its
        present end; if it fails, the changes are written with the next one.
        """
        # Units of a slot that is being moved are in two chains.
        if not self.changed or self._moving:
            return None
        self._changed = False
        self._version_counter += 1
        checkpoint = self.checkpoint()
        changes = self.wheel.take_changes()
        metrics = self.metrics.take_changed()

        def write() -> None:
            text = metrics.encode() if metrics is not None else ""
            self.progress.write(checkpoint, changes, text)

        flushed_first = self._store.flush_barrier.before(write)

        def run() -> None:
            try:
                flushed_first()
            except BaseException as error:
                self.wheel.give_back(changes)
                self._changed = self.metrics.changed = True
                if isinstance(error, OSError):
                    # After a failed sync a later success would prove nothing: the last checkpoint
                    # stays in force, and the next start repeats the work from there.
                    self._failed = str(error)
                raise

        return run

    def delete_expired(self) -> list[str]:
        """Remove timer log files whose records have left the CommitLog; return their paths."""
        return self.timer_log.delete_expired(self._store.min_physical_offset)

    # ---- put

    def intercept(
        self, inner: MessageExtBrokerInner, properties: dict[str, str]
    ) -> PutMessageResult | None:
        """Redirect a message with a delivery time to the timer topic; return a refusal or None.

        Called for each message without a delay level, before its properties are encoded. A time in
        the past changes nothing: the message is delivered at once.

        **Source:** RocketMQ HookUtils#transformTimerMessage.
        """
        if not is_timer_request(inner.topic, properties):
            return None
        if inner.sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
            return None
        config, now_ms = self._store.config, self._clock.now_ms()
        deliver_ms = deliver_time(properties, now_ms)
        if deliver_ms is None:
            return PutMessageResult(_ILLEGAL, remark="the delivery time is not a number")
        if deliver_ms <= now_ms:
            if props.PROPERTY_TIMER_DEL_UNIQKEY in properties:
                return PutMessageResult(_ILLEGAL, remark="the message to recall is already due")
            return None
        longest_ms = config.timer_max_delay_sec * 1_000
        if deliver_ms - now_ms > longest_ms:
            remark = (
                f"delivery in {deliver_ms - now_ms} ms, at most {longest_ms} (timerMaxDelaySec)"
            )
            return PutMessageResult(_ILLEGAL, remark=remark)
        reason = self._store.why_illegal_place(inner.topic, inner.queue_id)
        if reason is not None:
            return PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL, remark=reason)
        out_ms = slot_time(deliver_ms, self._precision_ms)
        if self.rejects(out_ms):
            remark = f"slot {out_ms} has {config.timer_congest_num_each_slot} messages or more"
            return PutMessageResult(PutMessageStatus.WHEEL_TIMER_FLOW_CONTROL, remark=remark)
        properties[props.PROPERTY_TIMER_OUT_MS] = str(out_ms)
        properties[props.PROPERTY_REAL_TOPIC] = inner.topic
        properties[props.PROPERTY_REAL_QUEUE_ID] = str(inner.queue_id)
        inner.topic, inner.queue_id, inner.tags_code = TIMER_TOPIC, 0, None
        return None

    def rejects(self, time_ms: int) -> bool:
        """Whether a slot is too full: from timerCongestNumEachSlot at random, from twice always.

        **Source:** RocketMQ TimerMessageStore#isReject.
        """
        chain = self.wheel.get(time_ms // self._precision_ms * self._precision_ms)
        limit = self._store.config.timer_congest_num_each_slot
        if chain is None or chain.number <= limit:
            return False
        if chain.number >= 2 * limit:
            return True
        return random.randrange(1000) > 1000 * (chain.number - limit) / (limit + 0.1)

    # ---- work

    def run(self, most: int = MAX_PER_TURN) -> float | None:
        """Enqueue and deliver; return ms until the next call, None if no message is pending.

        0 means that the limit of this call is used up. StoreError if a unit cannot be written.
        """
        config = self._store.config
        self._watch_clock()
        if not config.timer_stop_enqueue and not self._enqueue(most):
            return 0.0
        if config.timer_stop_dequeue:
            return None if self.wheel.first_time() is None else MAX_WAIT_MS
        return self._dequeue(most)

    def _write_time(self, now_ms: int) -> int:
        return now_ms // self._precision_ms * self._precision_ms

    def _enqueue(self, most: int) -> bool:
        """Put up to ``most`` messages of the timer queue into the wheel; True if none is left."""
        end = self._store.get_max_offset(TIMER_TOPIC, 0)
        if self.queue_offset >= end:
            return True
        write_time = self._write_time(self._clock.now_ms())
        units = self._store.consume_queue_units(TIMER_TOPIC, 0, self.queue_offset, most)
        for unit in units:
            self._enqueue_unit(unit, write_time)
            self.queue_offset = unit.queue_offset + 1
            self._changed = True
        return not units or self.queue_offset >= end

    def _enqueue_unit(self, unit: ConsumeQueueUnitView, write_time: int) -> None:
        store = self._store
        if unit.size == PRE_BLANK_SIZE or unit.physical_offset < store.min_physical_offset:
            return  # a blank unit, or the record was deleted with its log file
        message = self._message_at(unit.physical_offset, unit.size)
        if message is None or message.head.queue_offset > unit.queue_offset:
            return  # quarantined; or a filler unit of recovery, the record's own unit follows
        state = self._recovered
        repeated = state.delivered and unit.queue_offset < state.delivered_queue_offset
        if repeated and state.delivered.take(message):
            return
        time_ms, magic = self._place(message, write_time)
        topic = message.real_topic.decode("utf-8", "replace")
        link(
            self.timer_log,
            self.wheel,
            time_ms,
            TimerLogUnit(
                LOG_UNIT_SIZE,
                -1,
                magic,
                write_time,
                time_ms - write_time,
                unit.physical_offset,
                unit.size,
                _topic_hash(topic),
            ),
        )
        self.metrics.add(message.real_topic, -1 if message.deletes else 1, write_time)
        self.enqueued += 1

    def _out_ms(self, message: TimerMessage, counted_ms: int) -> int:
        """Start of a message's slot if its delay counts from ``counted_ms`` at the latest."""
        delay_ms = message.delay_ms
        if delay_ms is None:
            return message.out_ms
        return min(message.out_ms, slot_time(counted_ms + delay_ms, self._precision_ms))

    def _place(self, message: TimerMessage, write_time: int) -> tuple[int, int]:
        """Slot and magic of a message's unit: the slot of its time, or of its next round.

        A requested delay counts from now at the latest: after the clock was set back, the stored
        time can be any time away.

        **Source:** RocketMQ TimerMessageStore#doEnqueue.
        """
        precision_ms = self._precision_ms
        time_ms = self._out_ms(message, self._clock.now_ms()) // precision_ms * precision_ms
        magic = MAGIC_DELETE | MAGIC_DEFAULT if message.deletes else MAGIC_DEFAULT
        window_ms = self._window_slots * precision_ms
        rest_ms = time_ms - write_time - window_ms
        if rest_ms < 0:
            return time_ms, magic
        # A short rest is divided: the next round must have time enough.
        short = rest_ms < self._window_slots // 3 * precision_ms
        slots = self._window_slots // 2 if short else self._window_slots
        return write_time + slots * precision_ms, magic | MAGIC_ROLL

    def _dequeue(self, most: int) -> float | None:
        """Deliver up to ``most`` messages of the first slot that is over."""
        reader = self._reader or self._open_due_slot() or self._open_slot_to_move()
        if reader is None:
            first = self.wheel.first_time()
            if first is None:
                return None
            wait_ms = first + self._precision_ms - self._clock.now_ms()
            return min(wait_ms, MAX_WAIT_MS) if wait_ms > 0 else RETRY_PUT_MS
        self._reader = reader
        if not reader.read(READ_STEPS):
            return 0.0
        handle = self._move if self._moving else self._dispatch
        while most > 0:
            unit = reader.next()
            if unit is None:
                self._finish(reader)
                return 0.0
            if not handle(unit, reader):
                return RETRY_PUT_MS
            reader.done()
            most -= 1
        return 0.0

    def _open_due_slot(self) -> SlotReader | None:
        time_ms, now_ms = self.wheel.first_time(), self._clock.now_ms()
        if time_ms is None or time_ms + self._precision_ms > now_ms:
            return None
        queue = self._store.queue_table.find(TIMER_TOPIC, 0)
        if queue is not None and not self._store.config.timer_stop_enqueue:
            times = time_ms + self._precision_ms, now_ms, self._clock.monotonic_ms()
            if not self._barrier.is_passed(*times, self.queue_offset, queue.next_offset):
                return None
        return self._open(time_ms)

    def _open_slot_to_move(self) -> SlotReader | None:
        while self._times_to_move:
            time_ms = self._times_to_move.pop()
            if self.wheel.get(time_ms) is not None:
                self._moving, self._kept = True, None
                return self._open(time_ms)
        return None

    def _open(self, time_ms: int) -> SlotReader:
        chain = self.wheel.get(time_ms)
        assert chain is not None
        return SlotReader(self.timer_log, time_ms, chain, self._delete_key_of)

    def _finish(self, reader: SlotReader) -> None:
        """Empty the slot, or continue with the units that joined it meanwhile."""
        self._changed = True
        if reader.extend(self.wheel.get(reader.time_ms)):
            return
        self._close_slot(reader)
        state = self._recovered
        if state.delivered and self.queue_offset >= state.delivered_queue_offset:
            first = self.wheel.first_time()
            if first is None or first >= state.delivered_until_ms:
                state.delivered.clear()

    def _watch_clock(self) -> None:
        """After the clock was set back, place the messages again whose delay it has lengthened."""
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        before_ms, then_ms = self._clock_seen
        self._clock_seen = now_ms, monotonic_ms
        if before_ms + monotonic_ms - then_ms - now_ms >= STEP_MS:
            self._barrier.note_clock_set_back()
            later = [time_ms for time_ms in self.wheel.times() if time_ms > now_ms]
            self._times_to_move = later[::-1]

    def _move(self, unit: TimerLogUnit, reader: SlotReader) -> bool:
        """Link the unit of a pending message to the slot where it belongs by the present clock."""
        message = self._message_at(unit.physical_offset, unit.message_size)
        if message is None:
            return True
        self._changed = True
        if self._is_done(message, unit, reader):
            self.metrics.add(message.real_topic, -1, reader.time_ms)
            self.dequeued += 1
            return True
        write_time = self._write_time(self._clock.now_ms())
        time_ms, magic = self._place(message, write_time)
        unit = unit._replace(
            magic=magic,
            current_write_time=write_time,
            delayed_ms=time_ms - write_time,
            reserved=RELINKED,
        )
        if time_ms == reader.time_ms:
            self._kept = extend(self.timer_log, self._kept, unit)
        else:
            link(self.timer_log, self.wheel, time_ms, unit)
        return True

    def _dispatch(self, unit: TimerLogUnit, reader: SlotReader) -> bool:
        """Deliver or roll the message of a unit; return False if it must be retried."""
        store = self._store
        if unit.physical_offset < store.min_physical_offset:
            return True  # the record was deleted with its log file
        message = self._message_at(unit.physical_offset, unit.message_size)
        if message is None:
            return True
        if not self._is_done(message, unit, reader):
            now_ms, enqueue_ms = self._clock.now_ms(), unit.current_write_time
            try:
                if unit.magic & MAGIC_ROLL:
                    # the unit has the start of the slot in which the message was enqueued
                    out_ms = self._out_ms(message, enqueue_ms + self._precision_ms)
                    inner = rolled(message, enqueue_ms, now_ms, out_ms)
                else:
                    inner = restored(message, enqueue_ms, now_ms)
            except RemoteProtocolError as error:
                return self._quarantine(unit.physical_offset, error.message)
            result = store.put_message(inner)
            if result.status in _REFUSED_FOR_GOOD:
                reason = f"{inner.topic}: {result.remark or result.status.name}"
                return self._quarantine(unit.physical_offset, reason)
            if result.status is not PutMessageStatus.PUT_OK:
                return False
            if inner.topic == TIMER_TOPIC:
                self._barrier.note_rolled(result.queue_offset)
            if self.on_delivered is not None:
                self.on_delivered(inner.topic, result.store_size)
        self.metrics.add(message.real_topic, 1 if message.deletes else -1, reader.time_ms)
        self.dequeued += 1
        self._changed = True
        return True

    def _is_done(self, message: TimerMessage, unit: TimerLogUnit, reader: SlotReader) -> bool:
        """Whether the message is recalled, or was delivered before a crash."""
        if not unit.magic & MAGIC_ROLL:
            if message.deletes:
                return True
            uniq_key = peek_property(message.properties, UNIQ_KEY) or b""
            if reader.recalls(delete_key(message.real_topic, uniq_key)):
                self.recalled += 1
                return True
        delivered = self._recovered.delivered
        return bool(delivered) and delivered.take(message)

    def _delete_key_of(self, unit: TimerLogUnit) -> bytes | None:
        message = self._count_recall(unit, 1)
        return None if message is None else peek_property(message.properties, DELETE_KEY)

    def _count_recall(self, unit: TimerLogUnit, number: int) -> TimerMessage | None:
        message = self._message_at(unit.physical_offset, unit.message_size)
        if message is not None:
            self.metrics.add(message.real_topic, number, self._clock.now_ms())
        return message

    def _message_at(self, physical_offset: int, size: int) -> TimerMessage | None:
        """The message at ``physical_offset``; None if its record cannot be used (quarantined)."""
        record = self._store.get_record_at(physical_offset, size)
        if record is None:
            self._quarantine(physical_offset, f"no record of {size} bytes there")
            return None
        try:
            return decode_timer_message(record)
        except RocketMQError as error:
            self._quarantine(physical_offset, error.message)
            return None

    def _quarantine(self, physical_offset: int, reason: str) -> bool:
        self.quarantined += 1
        if self.quarantined <= MAX_LOGGED:
            log.error(
                "timer message (physical offset %d): not delivered: %s; it stays in the"
                " CommitLog: mqadmin store inspect %s --from %d --limit 1%s",
                physical_offset,
                reason,
                self._store.config.root,
                physical_offset,
                "; further ones are only counted" if self.quarantined == MAX_LOGGED else "",
            )
        return True
