"""The timer log: units, chains, file ends, truncation, expiry."""

from pathlib import Path

import pytest

from broker.errors import DiskFullError, StoreError
from broker.store.format.timer import LOG_UNIT_SIZE, TimerLogUnit, encode_log_blank
from broker.store.logfile.disk import Disk
from broker.store.timer.timer_log import MAGIC_DEFAULT, TimerLog, is_unit

FILE_SIZE = LOG_UNIT_SIZE * 4 + 23  # room for 4 units, the fourth leaves no room for a blank: 3


def unit(number: int = 0, previous: int = -1, **changes: int) -> TimerLogUnit:
    whole = TimerLogUnit(LOG_UNIT_SIZE, previous, MAGIC_DEFAULT, 1_000, 5_000, number, 100, 7)
    return whole._replace(**changes)


@pytest.fixture
def log(tmp_path: Path) -> TimerLog:
    return TimerLog(Disk(), str(tmp_path / "timerlog"), FILE_SIZE)


def test_units_are_read_back_and_files_end_as_in_java(log: TimerLog) -> None:
    positions = [log.append(unit(number)) for number in range(10)]
    assert positions[:5] == [0, 52, 104, 156, FILE_SIZE]
    assert [log.read(position) for position in positions] == [unit(n) for n in range(10)]
    first = Path(log.files.files[0].path).read_bytes()
    assert first[208:224] == encode_log_blank(23)
    assert [position for position, _ in log.units(0)] == positions
    assert log.end == positions[-1] + LOG_UNIT_SIZE


def test_positions_without_a_unit_give_none(log: TimerLog) -> None:
    assert log.read(0) is None
    log.append(unit())
    for position in (-1, 1, 52, 10**9):
        assert log.read(position) is None


def test_chain_leads_back_to_the_stop(log: TimerLog) -> None:
    previous = -1
    positions = []
    for number in range(6):
        previous = log.append(unit(number, previous))
        positions.append(previous)
        log.append(unit(100 + number))
    assert [position for position, _ in log.chain(previous)] == positions[::-1]
    assert [position for position, _ in log.chain(previous, positions[2])] == positions[:2:-1]


def test_chain_that_does_not_go_back_ends(log: TimerLog) -> None:
    log.append(unit(0, previous=52))
    last = log.append(unit(1, previous=0))
    assert [position for position, _ in log.chain(last)] == [52, 0]


def test_truncated_units_do_not_come_back(log: TimerLog, tmp_path: Path) -> None:
    for number in range(10):
        log.append(unit(number))
    log.truncate(104)
    assert log.end == log.flushed == 104
    assert log.append(unit(50)) == 104
    log.close()
    again = TimerLog(Disk(), str(tmp_path / "timerlog"), FILE_SIZE)
    again.load(crashed=False, notes=[])
    assert [found.physical_offset for _, found in again.units(0)] == [0, 1, 50]


def test_all_files_are_removed(log: TimerLog) -> None:
    for number in range(10):
        log.append(unit(number))
    log.remove_all()
    assert (log.start, log.end) == (0, 0)
    assert log.append(unit(5)) == 0


def test_files_decide_their_length(log: TimerLog, tmp_path: Path) -> None:
    log.append(unit())
    log.close()
    again = TimerLog(Disk(), str(tmp_path / "timerlog"), 10 * FILE_SIZE)
    again.load(crashed=False, notes=[])
    assert again.files.file_size == FILE_SIZE
    (tmp_path / "timerlog" / "readme").write_text("x")
    with pytest.raises(StoreError, match="readme"):
        TimerLog(Disk(), str(tmp_path / "timerlog"), FILE_SIZE).load(crashed=False, notes=[])


def test_sync_covers_the_files_up_to_the_position(
    log: TimerLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        log.append(unit(number))
    synced = []
    disk_sync = Disk.sync_data

    def sync(disk: Disk, fd: int) -> None:
        synced.append(fd)
        disk_sync(disk, fd)

    monkeypatch.setattr(Disk, "sync_data", sync)
    log.sync(FILE_SIZE + 52)
    assert len(synced) == 2
    log.sync(FILE_SIZE + 52)
    assert len(synced) == 2
    log.sync(log.end)
    assert log.flushed == log.end
    assert len(synced) == 4


def test_files_expire_with_their_records(log: TimerLog) -> None:
    for number in range(10):
        log.append(unit(number * 100))
    assert log.delete_expired(300) == []
    (removed,) = log.delete_expired(301)
    assert removed.endswith("0" * 20)
    assert log.start == FILE_SIZE
    assert log.read(0) is None
    log.delete_expired(10**9)
    assert len(log.files.files) == 1  # the last file stays


def test_full_disk_leaves_the_log_unchanged(log: TimerLog, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        log.append(unit(number))
    end = log.end

    def full(*_: object, **__: object) -> None:
        raise DiskFullError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "reserve", full)
        with pytest.raises(DiskFullError):
            log.append(unit(4))
    assert log.end == end
    assert log.append(unit(4)) == FILE_SIZE
    assert [found.physical_offset for _, found in log.units(0)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "changes",
    [{"size": 51}, {"magic": 0}, {"magic": 16}, {"physical_offset": -1}, {"message_size": 0}],
)
def test_impossible_fields_are_not_a_unit(changes: dict[str, int]) -> None:
    assert is_unit(unit())
    assert not is_unit(unit(**changes))
