"""Compare timerwheel, timerlog and timercheck with each other and with the timer queue.

Slots that were delivered (before lastReadTimeMs) are not examined: brokers leave them in the file.
A running broker changes one after the other: then only the lengths of those that are not empty are
checked.
"""

from collections.abc import Mapping
from typing import Final

from broker.common.java import string_hash, to_int32
from broker.common.topic import TIMER_TOPIC
from broker.errors import RemoteProtocolError, StoreError
from broker.message.transaction import real_place
from broker.store.format.commitlog import Damage
from broker.store.format.timer import (
    SLOT_SIZE,
    SLOTS,
    TimerCheckpoint,
    TimerLogUnit,
    TimerSlot,
    slot_position,
)
from mqadmin.inspector.damage import ERROR, WARNING
from mqadmin.inspector.delayed.timer_files import MAGIC_DELETE, TimerFiles
from mqadmin.inspector.delayed.timers import record_at, timer_messages
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import file_length
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.verify.report import Findings
from mqadmin.system_topics.timers import recalled_key, roll_times, timer_row

TIMER_KINDS: Final = frozenset(
    {"timerCheck", "timerWheel", "timerLog", "timerRecord", "timerMissing"}
)
MAX_MISSING: Final = 100_000


def check_timers(
    store: StoreDirectory,
    log: LogReader,
    findings: Findings,
    ends: Mapping[tuple[str, int], int],
    *,
    running: bool,
    clean: bool,
) -> None:
    """Report damage of the timer files; nothing if the store has none and no timer messages.

    ``ends`` are the max offsets of the queues. After a crash recovery enqueues the messages after
    the checkpoint again, so that missing units are warnings.
    """
    with TimerFiles(store) as files:
        checks = _TimerChecks(files, log, findings, ERROR if clean else WARNING)
        checks.queue_end = ends.get((TIMER_TOPIC, 0), 0)
        checks.run(store, running=running)


class _TimerChecks:
    def __init__(
        self, files: TimerFiles, log: LogReader, findings: Findings, severity: str
    ) -> None:
        self.files, self.log, self.findings = files, log, findings
        self.severity = severity
        self.queue_end = 0
        self.linked: set[int] = set()  # physical offsets of the messages in pending chains

    def run(self, store: StoreDirectory, *, running: bool) -> None:
        files = self.files
        if running:
            self._checkpoint(used=False)
            self._wheel_length(used=False)
            return
        used = files.exist or bool(files.log_files)
        if not used and not self.queue_end:
            return
        checkpoint = self._checkpoint(used=used)
        if checkpoint is not None:
            self._positions(checkpoint)
        if not self._wheel_length(used=True) or checkpoint is None:
            return
        self._timer_log(checkpoint.last_timer_log_flush_position)
        for position, slot in self.files.pending_slots(max(0, checkpoint.last_read_time)):
            self._slot(position, slot)
        self._missing(store, checkpoint)

    def _checkpoint(self, *, used: bool) -> TimerCheckpoint | None:
        """Return ``timercheck``; unless the files are ``used`` it may be missing or empty."""
        path = self.files.check_path
        try:
            found = self.files.checkpoint() if used or file_length(path) else None
        except (RemoteProtocolError, StoreError) as error:
            self.findings.add("timerCheck", path, error.message)
            return None
        if found is None:
            if used:
                self.findings.add("timerCheck", path, "the file is missing", severity=self.severity)
            return None
        if min(found[:3]) < 0:
            self.findings.add("timerCheck", path, "it has positions below 0")
            return None
        return found

    def _positions(self, found: TimerCheckpoint) -> None:
        path = self.files.check_path
        end = self.files.log_end
        if found.last_timer_log_flush_position > end:
            self.findings.add(
                "timerCheck",
                path,
                f"lastTimerLogFlushPos is {found.last_timer_log_flush_position}, the timer log"
                f" ends at {end}",
            )
        if found.last_timer_queue_offset > self.queue_end:
            self.findings.add(
                "timerCheck",
                path,
                f"lastTimerQueueOffset is {found.last_timer_queue_offset}, the queue of"
                f" {TIMER_TOPIC} ends at {self.queue_end}",
            )

    def _wheel_length(self, *, used: bool) -> bool:
        """Whether ``timerwheel`` has its length; unless ``used`` it may be missing or empty."""
        path = self.files.wheel_path
        length = file_length(path)
        if not used and not length:
            return False
        if length is None:
            self.findings.add("timerWheel", path, "the file is missing", severity=self.severity)
            return False
        if length != SLOTS * SLOT_SIZE:
            self.findings.add(
                "timerWheel",
                path,
                f"the file has {length} bytes instead of {SLOTS * SLOT_SIZE}",
                file_position=length,
            )
            return False
        return True

    def _timer_log(self, flushed: int) -> None:
        """Report damaged units, and missing files."""
        end = None
        for file in self.files.log_files:
            if end is not None and file.start != end:
                gap = file.start - end
                self.findings.add(
                    "timerLog",
                    file.path,
                    f"no file has the {gap} bytes before this one"
                    if gap > 0
                    else f"it starts at {file.start}, the file before it ends at {end}",
                    file_position=end,
                    length=max(0, gap),
                )
            end = file.start + file.length
        for path, position, unit in self.files.units():
            if isinstance(unit, Damage):
                self.findings.add(
                    "timerLog",
                    path,
                    unit.detail,
                    file_position=position,
                    length=unit.length,
                    severity=ERROR if position < flushed else WARNING,
                )

    def _slot(self, position: int, slot: TimerSlot) -> None:
        """Follow the chain of a slot: slot, units and records agree."""
        time_ms = slot.time * self.files.precision_ms
        if slot_position(time_ms, precision_ms=self.files.precision_ms) != position:
            self._bad_slot(position, f"slot {slot.time} is not at the position of its time")
            return
        count, first = 0, -1
        for at, unit in self.files.chain(slot):
            if unit is None:
                self._bad_slot(position, f"slot {slot.time}: the timer log has no unit at {at}")
                return
            if (unit.current_write_time + unit.delayed_ms) // self.files.precision_ms != slot.time:
                self._bad_slot(position, f"slot {slot.time}: the unit at {at} is of another slot")
                return
            count += -1 if unit.magic & MAGIC_DELETE else 1
            first = at
            self._unit(at, unit)
        if first != slot.first_position:
            detail = f"slot {slot.time} starts at {slot.first_position}, its chain at {first}"
            self._bad_slot(position, detail, WARNING)
        elif count != slot.number:
            detail = f"slot {slot.time} counts {slot.number} messages, its chain has {count}"
            self._bad_slot(position, detail, WARNING)

    def _bad_slot(self, position: int, detail: str, severity: str | None = None) -> None:
        self.findings.add(
            "timerWheel",
            self.files.wheel_path,
            detail,
            file_position=position,
            length=SLOT_SIZE,
            severity=severity or self.severity,
        )

    def _unit(self, position: int, unit: TimerLogUnit) -> None:
        """Compare a unit with its record; a record that has left the log is not an error."""
        least = self.log.min_offset
        if least is None or unit.physical_offset < least:
            return
        self.linked.add(unit.physical_offset)
        message = record_at(self.log, unit.physical_offset)
        if message is None:
            problem = "there is no record"
        elif message.topic != TIMER_TOPIC:
            problem = f"the record is of topic {message.topic}"
        elif message.total_size != unit.message_size:
            problem = f"the record has {message.total_size} bytes, not {unit.message_size}"
        else:
            place = real_place(message)
            if place is None or to_int32(string_hash(place[0])) == unit.real_topic_hash:
                return
            problem = f"the real topic is {place[0]}, whose hash is another one"
        self.findings.add(
            "timerRecord",
            self.files.log_folder,
            f"the unit at position {position} points to physical offset {unit.physical_offset}:"
            f" {problem}",
            file_position=position,
            severity=self.severity,
        )

    def _missing(self, store: StoreDirectory, checkpoint: TimerCheckpoint) -> None:
        """Report messages that the checkpoint counts as enqueued and no pending slot contains."""
        absent: dict[tuple[str, str, int], int] = {}
        for message in timer_messages(store, self.log):
            if message.queue_offset >= checkpoint.last_timer_queue_offset:
                break
            if recalled_key(message) is not None:
                continue
            try:
                row = timer_row(message, None, 0)
            except RemoteProtocolError:
                continue
            name = row.uniq_key or ""
            absent.pop((row.topic, name, roll_times(message) - 1), None)
            waits = row.due_timestamp >= checkpoint.last_read_time
            if waits and row.physical_offset not in self.linked and len(absent) < MAX_MISSING:
                absent[row.topic, name, row.roll_times] = row.physical_offset
        if absent:
            first = min(absent.values())
            self.findings.add(
                "timerMissing",
                self.files.wheel_path,
                f"{len(absent)} pending messages of {TIMER_TOPIC} are in no slot, the first at"
                f" physical offset {first}",
                severity=self.severity,
            )
