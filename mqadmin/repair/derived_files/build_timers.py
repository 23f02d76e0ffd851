"""Build timerwheel, timerlog and timercheck again from the timer queue of a repaired copy.

The log contains every timer message; the files only order them by time. A message is pending if its
slot is not delivered according to the old checkpoint and no delivered copy of it is in the log.
Without a readable checkpoint the copies alone decide: a message that is overdue and was not
delivered gets the first slot, so that a broker delivers it at once.

**Source:** RocketMQ TimerMessageStore#doEnqueue, TimerWheel#putSlot, TimerLog#append.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from broker.common.java import string_hash, to_int32
from broker.common.topic import TIMER_TOPIC
from broker.errors import RemoteProtocolError, StoreError
from broker.message import message as props
from broker.message.message import MessageExt
from broker.message.record import decode_record
from broker.store.format.commitlog import file_name
from broker.store.format.config import TIMER_METRICS
from broker.store.format.state import CONFIG_DIR
from broker.store.format.timer import (
    LOG_BLANK_SIZE,
    LOG_UNIT_SIZE,
    SLOT_SIZE,
    SLOTS,
    TimerCheckpoint,
    TimerLogUnit,
    TimerSlot,
    encode_log_blank,
    encode_log_unit,
    encode_slot,
    encode_timer_checkpoint,
    slot_position,
)
from mqadmin.inspector.delayed.timer_files import (
    CHECK,
    LOG_DIR,
    MAGIC_DELETE,
    MAGIC_ROLL,
    WHEEL,
    TimerFiles,
)
from mqadmin.inspector.delayed.timers import timer_messages
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogReader, LogWalk
from mqadmin.inspector.verify.config_checks import Settings
from mqadmin.repair.files import Blocks, Output
from mqadmin.system_topics.timers import Recalls, TimerRow, recalled_key, timer_row

LOG_FILE_SIZE: Final = 100 << 20  # mappedFileSizeTimerLog
ROLL_SLOTS: Final = 2 * 24 * 60 * 60  # timerRollWindowSlot
MAGIC_DEFAULT: Final = 1
TIMER_FILES: Final = frozenset({WHEEL, LOG_DIR})
_OUT_MARK: Final = props.PROPERTY_TIMER_OUT_MS.encode()


class _Slot(msgspec.Struct, gc=False):
    first: int
    last: int
    number: int


class TimerBuilder:
    """Builds the timer files of the copy ``made`` of a store; ``old`` are the files of the store.

    ``newest_ms`` is the storeTimestamp of the newest record.
    """

    def __init__(
        self, made: Output, old: StoreDirectory, settings: Settings, newest_ms: int
    ) -> None:
        self._made = made
        self._newest_ms = newest_ms
        self._slots: dict[int, _Slot] = {}
        self._counts: Counter[str] = Counter()
        self.units = 0
        with TimerFiles(old) as files:
            self._precision_ms = files.precision_ms
            self._read_ms, self._version = _progress(files)
            lengths = [file.length for file in files.log_files]
        usual = max(lengths, key=lengths.count, default=0)
        least = LOG_UNIT_SIZE + LOG_BLANK_SIZE
        if usual < least or usual % 4096:
            usual = settings.number("mappedFileSizeTimerLog") or LOG_FILE_SIZE
        self._file_size = max(usual, least)
        self._window_ms = (
            settings.number("timerRollWindowSlot") or ROLL_SLOTS
        ) * self._precision_ms

    def build(self, *, clean: bool) -> None:
        """Write the three files, and timermetrics; ``clean``: the broker was stopped in order."""
        copy = StoreDirectory(self._made.root)
        exact = clean and self._read_ms > 0
        delivered = set() if exact else _delivered(copy)
        base_ms = self._read_ms or self._newest_ms
        base_ms -= base_ms % self._precision_ms
        with LogReader(copy) as log:
            known = _Known(delivered, exact=exact)
            for message in timer_messages(copy, log):
                known.add(message)
            end = 0
            writer = _LogWriter(self._made, self._file_size)
            for message in timer_messages(copy, log):
                end = message.queue_offset + 1
                self._enqueue(message, base_ms, known, writer)
            writer.close()
        self._write_wheel()
        checkpoint = TimerCheckpoint(
            base_ms, writer.end, end, end, self._version[0], self._newest_ms, self._version[1] + 1
        )
        self._made.write(CHECK, encode_timer_checkpoint(checkpoint))
        self._write_metrics()

    def _enqueue(
        self, message: MessageExt, base_ms: int, known: "_Known", writer: "_LogWriter"
    ) -> None:
        """Append the unit of a message that is pending, or of a recall, and link it to its slot."""
        recalls = recalled_key(message) is not None
        row = _row(message)
        if row is None:
            return
        slot_ms = row.due_timestamp - row.due_timestamp % self._precision_ms
        if slot_ms < base_ms and (recalls or not known.is_overdue(row)):
            return
        if not recalls and known.is_decided(row):
            return
        slot_ms = max(slot_ms, base_ms)
        magic = MAGIC_DEFAULT | (MAGIC_DELETE if recalls else 0)
        if slot_ms - base_ms >= self._window_ms:
            magic |= MAGIC_ROLL
            rest_ms = slot_ms - base_ms - self._window_ms
            # As in Java: the first round is halved, so that the second one is not short.
            ahead = self._window_ms // 2 if rest_ms < self._window_ms // 3 else self._window_ms
            slot_ms = base_ms + ahead - ahead % self._precision_ms
        slot = self._slots.get(slot_ms)
        position = writer.append(
            TimerLogUnit(
                LOG_UNIT_SIZE,
                -1 if slot is None else slot.last,
                magic,
                base_ms,
                slot_ms - base_ms,
                message.physical_offset,
                message.total_size,
                to_int32(string_hash(row.topic)),
            )
        )
        if slot is None:
            slot = self._slots[slot_ms] = _Slot(position, position, 0)
        slot.last = position
        slot.number += -1 if recalls else 1
        self._counts[row.topic] += -1 if recalls else 1
        self.units += 1

    def _write_wheel(self) -> None:
        with self._made.create(WHEEL, SLOTS * SLOT_SIZE) as blocks:
            for slot_ms, slot in sorted(self._slots.items()):
                time = slot_ms // self._precision_ms
                data = encode_slot(TimerSlot(time, slot.first, slot.last, slot.number))
                blocks.put(slot_position(slot_ms, precision_ms=self._precision_ms), data)

    def _write_metrics(self) -> None:
        counts = {
            topic: {"count": count, "timeStamp": self._newest_ms}
            for topic, count in sorted(self._counts.items())
            if count > 0
        }
        version = {"counter": 1, "stateVersion": 0, "timestamp": self._newest_ms}
        data = msgspec.json.encode({"dataVersion": version, "timingCount": counts})
        self._made.write(f"{CONFIG_DIR}/{TIMER_METRICS}", data)


class _Known:
    """Messages that a delivery, a recall or another round of the wheel has decided.

    ``exact``: the checkpoint is valid, so that every slot before it was delivered.
    """

    def __init__(self, delivered: set[tuple[str, str, int]], *, exact: bool) -> None:
        self._delivered = delivered
        self._exact = exact
        self._rolled: set[tuple[str, str, int, int]] = set()
        self._recalls = Recalls()

    def add(self, message: MessageExt) -> None:
        """Record a recall, or the round before that of a rolled message."""
        if recalled_key(message) is not None:
            self._recalls.add(message)
            return
        row = _row(message)
        if row is not None and row.roll_times:
            self._rolled.add(_name(row, row.roll_times - 1))

    def is_overdue(self, row: TimerRow) -> bool:
        """Return whether a message before the first slot is still to be delivered."""
        return not self._exact and not self._recalls.cover(row)

    def is_decided(self, row: TimerRow) -> bool:
        """Return whether a message was delivered, or stored again for another round."""
        copy = (row.topic, row.uniq_key or "", row.due_timestamp)
        return copy in self._delivered or _name(row, row.roll_times) in self._rolled


class _LogWriter:
    """Appends units to timer log files of one length; ``end`` is the next position."""

    def __init__(self, made: Output, file_size: int) -> None:
        self._made = made
        self._size = file_size
        self._start = -1
        self._stack = ExitStack()
        self._blocks: Blocks | None = None
        self.end = 0

    def append(self, unit: TimerLogUnit) -> int:
        """Append a unit; return its position."""
        left = self._size - self.end % self._size
        if self._blocks is not None and left < LOG_UNIT_SIZE + LOG_BLANK_SIZE:
            if left >= LOG_BLANK_SIZE:
                self._blocks.put(self.end - self._start, encode_log_blank(left))
            self.end += left
        position = self.end
        if self._blocks is None or position >= self._start + self._size:
            self.close()
            self._start = position - position % self._size
            name = f"{LOG_DIR}/{file_name(self._start)}"
            self._blocks = self._stack.enter_context(self._made.create(name, self._size))
        self._blocks.put(position - self._start, encode_log_unit(unit))
        self.end += LOG_UNIT_SIZE
        return position

    def close(self) -> None:
        """Write the file that is not written yet."""
        self._stack.close()
        self._blocks = None


def _progress(files: TimerFiles) -> tuple[int, tuple[int, int]]:
    """Return lastReadTimeMs of the old checkpoint, 0 if not known, and its data version."""
    try:
        found = files.checkpoint()
    except (RemoteProtocolError, StoreError):
        found = None
    if found is None or found.last_read_time <= 0:
        return 0, (0, 0)
    return found.last_read_time, (max(0, found.state_version), max(0, found.counter))


def _row(message: MessageExt) -> TimerRow | None:
    try:
        return timer_row(message, None, 0)
    except RemoteProtocolError:
        return None


def _name(row: TimerRow, roll_times: int) -> tuple[str, str, int, int]:
    return row.topic, row.uniq_key or f"@{row.queue_offset}", row.due_timestamp, roll_times


def _delivered(store: StoreDirectory) -> set[tuple[str, str, int]]:
    """Return (topic, uniqKey, TIMER_OUT_MS) of the delivered copies in the log."""
    found = set()
    for message in _timed(store):
        out_ms = message.get_property(props.PROPERTY_TIMER_OUT_MS) or ""
        if message.topic != TIMER_TOPIC and out_ms.isdecimal():
            found.add((message.topic, message.uniq_key or "", int(out_ms)))
    return found


def _timed(store: StoreDirectory) -> Iterator[MessageExt]:
    for item in LogWalk(store, check_crc=False):
        if item.record is None or _OUT_MARK not in item.record.properties:
            continue
        try:
            yield decode_record(item.file.data, item.record.position)
        except RemoteProtocolError:
            continue


def is_rebuilt_part(path: Path, root: Path, rebuilt: set[tuple[str, int]]) -> bool:
    """Return whether a file is the extension file of a queue whose units were rebuilt."""
    parts = path.relative_to(root).parts
    if len(parts) < 4 or parts[0] != "consumequeue_ext" or not parts[2].isdecimal():
        return False
    return (parts[1], int(parts[2])) in rebuilt
