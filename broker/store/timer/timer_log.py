"""TimerLog: one unit per message of the timer topic, chained backwards per slot.

Units of 52 bytes are appended to files of one length; a file ends with a blank where a unit and
16 bytes do not fit. The files are deleted from the front once their records have left the
CommitLog.

**Source:** RocketMQ TimerLog, MappedFileQueue#deleteExpiredFileByOffsetForTimerLog.
"""

from collections.abc import Iterator
from typing import Final

from broker.errors import RemoteProtocolError
from broker.store.format.timer import (
    LOG_BLANK_SIZE,
    LOG_UNIT_SIZE,
    TimerLogUnit,
    decode_log_unit,
    encode_log_blank,
    encode_log_unit,
)
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import MappedFile, MappedFileQueue

MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 2
MAGIC_DELETE: Final = 4
_MAGIC_MASK: Final = 0xF
# Values of ``reserved``; Java writes 0 and never reads it. RELINKED: repeats an earlier unit, in a
# new chain. QUEUE_MARK: in no chain, its message is the last one that was enqueued.
RELINKED: Final = 1
QUEUE_MARK: Final = 2


class TimerLog:
    """The units by their position, which counts from the start of the first file ever."""

    def __init__(self, disk: Disk, folder: str, file_size: int) -> None:
        self.files = MappedFileQueue(disk, folder, file_size, reserve_ahead=True)
        self.end = 0
        self.flushed = 0

    def load(self, *, crashed: bool, notes: list[str]) -> None:
        """Open the files; StoreError for an unexpected name or length.

        Existing files determine the length of a file, whatever the setting.
        """
        self.files.file_size = self.files.detect_size() or self.files.file_size
        self.files.load(crashed=crashed, notes=notes)
        for file in self.files.files:
            file.written = file.flushed = file.size
        self.end = self.stored_end

    @property
    def start(self) -> int:
        """Position of the first byte kept."""
        return self.files.files[0].start if self.files.files else self.end

    @property
    def stored_end(self) -> int:
        """Position after the last file."""
        return self.files.files[-1].start + self.files.file_size if self.files.files else 0

    def truncate(self, end: int) -> None:
        """Append at ``end`` from now on; files and units past it are removed, and stay removed.

        Units left over from an earlier run would otherwise be taken for units of the next one.
        """
        self.files.truncate(end)
        for file in self.files.files:
            file.flushed = file.written
        self.files.finalise_removed()
        self.end = self.flushed = end
        last = self.files.find(end)
        if last is not None:
            last.clear_after(end - last.start)
            last.sync()

    def remove_all(self) -> None:
        """Remove all files; the next unit gets position 0."""
        while self.files.files:
            self.files.remove_last()
        self.files.finalise_removed()
        self.end = self.flushed = 0

    def append(self, unit: TimerLogUnit) -> int:
        """Append a unit; its position. DiskFullError or StoreError leaves the log unchanged."""
        file = self._room()
        position = file.written
        end = position + LOG_UNIT_SIZE
        file.reserve_ahead(end)
        file.mapping[position:end] = encode_log_unit(unit)
        file.written = end
        self.end = file.start + end
        return file.start + position

    def append_queue_mark(self, physical_offset: int, size: int, past_ms: int) -> None:
        """Append a unit of a message of the timer queue; it is in no chain, its time is over.

        DiskFullError or StoreError leaves the log unchanged.
        """
        place = (physical_offset, size, 0)
        self.append(TimerLogUnit(LOG_UNIT_SIZE, -1, MAGIC_DEFAULT, past_ms, 0, *place, QUEUE_MARK))

    def _room(self) -> MappedFile:
        """The file that has room for a unit and a blank."""
        files = self.files
        file = files.find(self.end) if files.files else None
        if file is not None:
            left = file.size - file.written
            if left >= LOG_UNIT_SIZE + LOG_BLANK_SIZE:
                return file
            if left >= LOG_BLANK_SIZE:
                file.reserve_ahead(file.written + LOG_BLANK_SIZE)
        start = self.end - self.end % files.file_size
        if file is not None:
            start = file.start + files.file_size
        new = files.create(start)
        if file is not None:
            if left >= LOG_BLANK_SIZE:
                blank = encode_log_blank(left)
                file.mapping[file.written : file.written + LOG_BLANK_SIZE] = blank
            file.written = file.size
        self.end = start
        return new

    def read(self, position: int) -> TimerLogUnit | None:
        """The unit at ``position``, None if there is none."""
        if position < 0 or position + LOG_UNIT_SIZE > self.end:
            return None
        file = self.files.find(position)
        if file is None:
            return None
        try:
            unit = decode_log_unit(file.mapping, position - file.start)
        except RemoteProtocolError:
            return None
        return unit if is_unit(unit) else None

    def chain(self, last: int, stop: int = -1) -> Iterator[tuple[int, TimerLogUnit]]:
        """(position, unit) from ``last`` back to the unit after ``stop``.

        Ends early if a unit is missing. A chain that does not go backwards ends too.
        """
        position = last
        while position > stop:
            unit = self.read(position)
            if unit is None:
                return
            yield position, unit
            if unit.previous_position >= position:
                return
            position = unit.previous_position

    def units(self, position: int) -> Iterator[tuple[int, TimerLogUnit]]:
        """(position, unit) of consecutive units from ``position`` up to the first invalid one."""
        while True:
            unit = self.read(position)
            if unit is not None:
                yield position, unit
                position += LOG_UNIT_SIZE
                continue
            file = self.files.find(position)
            # Less than a unit and a blank are left: the next unit starts the next file.
            if file is None or file.start + file.size - position >= LOG_UNIT_SIZE + LOG_BLANK_SIZE:
                return
            position = file.start + file.size

    def sync(self, end: int) -> None:
        """Wait until everything below ``end`` is on the disk; in any thread, one call at a time."""
        if self.flushed >= end:
            return
        for file in list(self.files.files):
            if file.start < end and file.end > self.flushed:
                file.sync()
        self.flushed = end

    def delete_expired(self, log_min: int) -> list[str]:
        """Remove files whose records have all left the CommitLog; return their paths.

        The last file stays. Records are stored in the order of their units, so the last unit of a
        file decides.
        """
        removed = []
        while len(self.files.files) > 1:
            first = self.files.files[0]
            unit = self.read(self._last_unit(first))
            if unit is None or unit.physical_offset >= log_min:
                break
            self.files.remove_first()
            removed.append(first.path)
        return removed

    def _last_unit(self, file: MappedFile) -> int:
        count = (file.size - LOG_BLANK_SIZE) // LOG_UNIT_SIZE
        return file.start + (count - 1) * LOG_UNIT_SIZE

    def close(self) -> None:
        """Close all files."""
        self.files.close()


def is_unit(unit: TimerLogUnit) -> bool:
    """Whether the fields of a unit are possible.

    **Source:** RocketMQ TimerMessageStore#isMagicOK.
    """
    return (
        unit.size == LOG_UNIT_SIZE
        and unit.magic & ~_MAGIC_MASK == 0
        and unit.magic != 0
        and unit.physical_offset >= 0
        and unit.message_size > 0
    )
