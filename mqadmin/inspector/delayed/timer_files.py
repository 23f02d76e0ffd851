"""Read timerwheel, timerlog and timercheck of a store.

**Source:** RocketMQ TimerWheel, TimerLog, TimerCheckpoint (5.x).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.errors import RemoteProtocolError, StoreError
from broker.store.format.commitlog import Damage
from broker.store.format.timer import (
    LOG_BLANK_SIZE,
    LOG_UNIT_SIZE,
    PRECISION_MS,
    SLOT_SIZE,
    TimerCheckpoint,
    TimerLogUnit,
    TimerSlot,
    decode_log_unit,
    decode_slot,
    decode_timer_checkpoint,
)
from mqadmin.inspector.directory import LogFile, StoreDirectory
from mqadmin.inspector.files import FileBytes, open_bytes, read_all
from mqadmin.inspector.verify.config_checks import read_settings
from mqadmin.inspector.verify.queue_checks import OpenFiles

WHEEL: Final = "timerwheel"
LOG_DIR: Final = "timerlog"
CHECK: Final = "config/timercheck"
MAGIC_ROLL: Final = 2
MAGIC_DELETE: Final = 4
_MAGIC_MASK: Final = 0xF
_PIECE: Final = SLOT_SIZE * 2048


class TimerFiles:
    """The timer files of a store, read-only; call :meth:`close` after use."""

    def __init__(self, store: StoreDirectory) -> None:
        root = store.root or store.path
        self.wheel_path = root / WHEEL
        self.log_folder = root / LOG_DIR
        self.check_path = root / CHECK
        self.precision_ms = read_settings(store).number("timerPrecisionMs") or PRECISION_MS
        self.log_files = store.numbered(self.log_folder)
        self._files = OpenFiles()

    def __enter__(self) -> "TimerFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    @property
    def exist(self) -> bool:
        """Whether there is a wheel."""
        return self.wheel_path.is_file()

    @property
    def log_end(self) -> int:
        """Position after the last timer log file."""
        return self.log_files[-1].start + self.log_files[-1].length if self.log_files else 0

    def checkpoint(self) -> TimerCheckpoint | None:
        """Return ``timercheck``, None if missing; RemoteProtocolError if it is too short."""
        data = read_all(self.check_path)
        return None if data is None else decode_timer_checkpoint(data)

    def read_ms(self) -> int:
        """Return the time up to which the wheel was delivered, epoch ms; 0 if not known."""
        try:
            found = self.checkpoint()
        except (RemoteProtocolError, StoreError):
            return 0
        return 0 if found is None else max(0, found.last_read_time)

    def slots(self) -> Iterator[tuple[int, TimerSlot]]:
        """Yield (position in bytes, slot) of the slots that are not empty, by position.

        StoreError if the wheel cannot be read.
        """
        with open_bytes(self.wheel_path, sequential=True) as file:
            end = min(file.data_end, len(file) - len(file) % SLOT_SIZE)
            for piece in range(0, end, _PIECE):
                data = bytes(file.data[piece : min(piece + _PIECE, end)])
                if not any(data):
                    continue
                for at in range(0, len(data) - SLOT_SIZE + 1, SLOT_SIZE):
                    if any(data[at : at + SLOT_SIZE]):
                        yield piece + at, decode_slot(data, at)

    def pending_slots(self, read_ms: int) -> list[tuple[int, TimerSlot]]:
        """Return (position, slot) of the slots from ``read_ms`` on, by time."""
        found = [
            (position, slot)
            for position, slot in self.slots()
            if slot.last_position >= 0 and slot.time * self.precision_ms >= read_ms
        ]
        return sorted(found, key=lambda item: item[1].time)

    def unit(self, position: int) -> TimerLogUnit | None:
        """Return the unit at a position of the timer log, None if there is none."""
        for file in self.log_files:
            if file.start <= position < file.start + file.length:
                return _unit(self._files.get(file.path), position - file.start)
        return None

    def chain(self, slot: TimerSlot) -> Iterator[tuple[int, TimerLogUnit | None]]:
        """Yield (position, unit) from the last unit of a slot back to the first one.

        A unit that is missing or does not point back is the last one, as None.
        """
        position = slot.last_position
        while position >= 0:
            unit = self.unit(position)
            if unit is None or unit.previous_position >= position:
                yield position, None
                return
            yield position, unit
            position = unit.previous_position

    def units(self) -> Iterator[tuple[Path, int, TimerLogUnit | Damage]]:
        """Yield (path, position, unit) of the timer log, and damage, up to its written end."""
        for number, file in enumerate(self.log_files):
            last = number + 1 == len(self.log_files)
            opened = self._files.get(file.path)
            position = 0
            while position + LOG_UNIT_SIZE + LOG_BLANK_SIZE <= file.length:
                unit = _unit(opened, position)
                if unit is None:
                    if not last or any(opened.data[position : position + LOG_UNIT_SIZE]):
                        yield file.path, file.start + position, _damage(file, position)
                    break
                yield file.path, file.start + position, unit
                position += LOG_UNIT_SIZE


def _unit(file: FileBytes, position: int) -> TimerLogUnit | None:
    try:
        unit = decode_log_unit(file.data, position)
    except RemoteProtocolError:
        return None
    possible = unit.magic and not unit.magic & ~_MAGIC_MASK
    return unit if possible and unit.physical_offset >= 0 and unit.message_size > 0 else None


def _damage(file: LogFile, position: int) -> Damage:
    return Damage(
        kind="timerLog",
        physical_offset=file.start + position,
        length=file.length - position,
        detail="not a unit of the timer log, and the units after it cannot be found",
        at_end=False,
    )
