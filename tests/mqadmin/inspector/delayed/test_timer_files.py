"""Reading timerwheel, timerlog and timercheck."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.errors import RemoteProtocolError
from broker.store.format.commitlog import Damage, file_name
from broker.store.format.timer import (
    LOG_BLANK_SIZE,
    LOG_UNIT_SIZE,
    TimerLogUnit,
    TimerSlot,
    encode_log_blank,
    encode_log_unit,
)
from mqadmin.inspector.delayed.timer_files import TimerFiles
from mqadmin.inspector.directory import StoreDirectory


def test_slots_lead_to_their_units(delay_store: StoreDirectory) -> None:
    with TimerFiles(delay_store) as files:
        slots = dict(files.slots())
        assert len(slots) == 10
        assert len(files.pending_slots(files.read_ms())) == 7
        for slot in slots.values():
            chain = [unit for _, unit in files.chain(slot)]
            assert None not in chain
            for unit in chain:
                assert unit is not None
                assert (unit.current_write_time + unit.delayed_ms) // 1000 == slot.time
        assert len(list(files.units())) == 16


def test_a_chain_ends_at_a_unit_that_is_missing(delay_store: StoreDirectory) -> None:
    with TimerFiles(delay_store) as files:
        _, slot = next(files.slots())
        assert [unit for _, unit in files.chain(slot._replace(last_position=7))] == [None]
        assert files.unit(-1) is None
        assert files.unit(1 << 40) is None


def test_a_damaged_unit_is_reported(golden_store: Callable[..., Path]) -> None:
    folder = golden_store("delay-533", copy=True) / "store"
    with open(folder / "timerlog" / "00000000000000000000", "r+b") as file:
        file.seek(104)
        file.write(b"\xff" * 52)
    with TimerFiles(StoreDirectory(folder)) as files:
        found = list(files.units())
        assert [position for _, position, _ in found] == [0, 52, 104]
        assert isinstance(found[2][2], Damage)


def test_a_checkpoint_that_is_too_short_is_an_error(golden_store: Callable[..., Path]) -> None:
    folder = golden_store("delay-533", copy=True) / "store"
    (folder / "config" / "timercheck").write_bytes(b"\0" * 10)
    with TimerFiles(StoreDirectory(folder)) as files:
        with pytest.raises(RemoteProtocolError):
            files.checkpoint()
        assert files.read_ms() == 0


def test_a_store_without_timer_files_is_empty(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    with TimerFiles(StoreDirectory(tmp_path)) as files:
        assert not files.exist
        assert (files.log_files, files.log_end, files.read_ms()) == ([], 0, 0)
        assert files.checkpoint() is None
        assert list(files.units()) == []


def write_units(folder: Path, start: int, units: list[TimerLogUnit], size: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    data = b"".join(map(encode_log_unit, units))
    left = size - len(data)
    if LOG_BLANK_SIZE <= left < LOG_UNIT_SIZE + LOG_BLANK_SIZE:
        data += encode_log_blank(left)
    (folder / file_name(start)).write_bytes(data.ljust(size, b"\0"))


def unit(previous: int, magic: int = 1) -> TimerLogUnit:
    return TimerLogUnit(LOG_UNIT_SIZE, previous, magic, 1_000, 5_000, 77, 100, 5)


def test_positions_count_over_all_files(tmp_path: Path) -> None:
    """Three units fit into a file of 180 bytes: the blank at its end is not a unit."""
    (tmp_path / "commitlog").mkdir()
    log = tmp_path / "timerlog"
    write_units(log, 0, [unit(-1), unit(0), unit(52)], 180)
    write_units(log, 180, [unit(104), unit(180)], 180)
    with TimerFiles(StoreDirectory(tmp_path)) as files:
        assert [position for _, position, _ in files.units()] == [0, 52, 104, 180, 232]
        assert not any(isinstance(found, Damage) for _, _, found in files.units())
        assert files.log_end == 360
        slot = TimerSlot(6, 0, 232, 5)
        assert [position for position, _ in files.chain(slot)] == [232, 180, 104, 52, 0]


def test_a_chain_that_points_forward_ends(tmp_path: Path) -> None:
    """A damaged unit must not make the reader run in a circle."""
    (tmp_path / "commitlog").mkdir()
    write_units(tmp_path / "timerlog", 0, [unit(-1), unit(104), unit(52)], 4096)
    with TimerFiles(StoreDirectory(tmp_path)) as files:
        chain = list(files.chain(TimerSlot(6, 0, 104, 3)))
        assert [(position, found is None) for position, found in chain] == [
            (104, False),
            (52, True),
        ]


@pytest.mark.parametrize("magic", [0, 16, -1, 1 << 20])
def test_a_unit_with_an_impossible_magic_is_damage(tmp_path: Path, magic: int) -> None:
    (tmp_path / "commitlog").mkdir()
    write_units(tmp_path / "timerlog", 0, [unit(-1), unit(0, magic), unit(52)], 4096)
    with TimerFiles(StoreDirectory(tmp_path)) as files:
        found = list(files.units())
        assert [position for _, position, _ in found] == [0, 52]
        damage = found[1][2]
        assert isinstance(damage, Damage)
        assert (damage.physical_offset, damage.length) == (52, 4096 - 52)
        assert files.unit(52) is None


def test_files_with_other_names_are_not_timer_logs(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    write_units(tmp_path / "timerlog", 0, [unit(-1)], 4096)
    (tmp_path / "timerlog" / "notes.txt").write_text("x")
    (tmp_path / "timerlog" / ("²" * 20)).write_text("x")
    with TimerFiles(StoreDirectory(tmp_path)) as files:
        assert [file.start for file in files.log_files] == [0]
