"""Timer files built again from the timer queue contain the same pending messages."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.store.format.commitlog import Damage
from broker.store.format.timer import LOG_BLANK_SIZE, LOG_UNIT_SIZE
from mqadmin.inspector.delayed.timer_files import TimerFiles
from mqadmin.inspector.delayed.timers import pending_timers
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.repair.derived_files.build_timers import is_rebuilt_part
from mqadmin.repair.new_store import recover_store
from mqadmin.repair.plan import make_plan
from mqadmin.repair.store_repair import repair


def pending(folder: Path) -> list[tuple[int, str | None]]:
    rows = pending_timers(StoreDirectory(folder), now_ms=0)
    return sorted((row.due_timestamp, row.uniq_key) for row in rows)


def break_wheel(folder: Path) -> None:
    with open(folder / "timerwheel", "r+b") as file:
        file.truncate(100)


def break_log(folder: Path) -> None:
    shutil.rmtree(folder / "timerlog")


def remove_wheel(folder: Path) -> None:
    (folder / "timerwheel").unlink()


def remove_checkpoint(folder: Path) -> None:
    (folder / "config" / "timercheck").unlink()


@pytest.mark.parametrize("name", ["delay-533", "pop-533"])
@pytest.mark.parametrize("damage", [break_wheel, break_log, remove_wheel, remove_checkpoint])
def test_a_repaired_store_has_the_same_pending_messages(
    golden_store: Callable[..., Path], tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = golden_store(name, copy=True) / "store"
    before = pending(folder)
    assert before
    damage(folder)
    done = repair(make_plan(StoreDirectory(folder)), tmp_path / "copy")
    assert done.ok, done.findings
    assert [step.action for step in done.steps] == ["rebuildTimers"]
    assert pending(tmp_path / "copy") == before


def test_the_chain_of_a_repaired_slot_is_in_the_order_of_arrival(
    golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    folder = golden_store("delay-533", copy=True) / "store"
    break_wheel(folder)
    repair(make_plan(StoreDirectory(folder)), tmp_path / "copy")
    with TimerFiles(StoreDirectory(tmp_path / "copy")) as files:
        checkpoint = files.checkpoint()
        assert checkpoint is not None
        assert checkpoint.last_timer_queue_offset == 16
        slots = files.pending_slots(0)
        for _, slot in slots:
            places = [unit.physical_offset for _, unit in files.chain(slot) if unit]
            assert places == sorted(places, reverse=True)
        assert any(slot.number == 2 for _, slot in slots)


@pytest.mark.parametrize("size", [164, 4096, 60])
def test_units_do_not_cross_the_end_of_a_timer_log_file(
    golden_store: Callable[..., Path], tmp_path: Path, size: int
) -> None:
    """The length is that of the old files, without them mappedFileSizeTimerLog."""
    folder = golden_store("delay-533", copy=True) / "store"
    before = pending(folder)
    break_log(folder)
    (folder / "broker.conf").write_text(
        f"storePathRootDir={folder}\nmappedFileSizeTimerLog={size}\n"
    )
    done = repair(make_plan(StoreDirectory(folder)), tmp_path / "copy")
    assert done.ok, done.findings
    assert pending(tmp_path / "copy") == before
    with TimerFiles(StoreDirectory(tmp_path / "copy")) as files:
        length = max(size, LOG_UNIT_SIZE + LOG_BLANK_SIZE)
        assert {file.length for file in files.log_files} == {length}
        assert [file.start for file in files.log_files] == [
            number * length for number in range(len(files.log_files))
        ]
        for _, position, unit in files.units():
            assert not isinstance(unit, Damage)
            assert position % length + LOG_UNIT_SIZE + LOG_BLANK_SIZE <= length


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("consumequeue_ext/T/0/00000000000000000000", True),
        ("consumequeue_ext/T/1/00000000000000000000", False),
        ("consumequeue_ext/U/0/00000000000000000000", False),
        ("consumequeue_ext/T/²/00000000000000000000", False),
        ("consumequeue_ext/T/0", False),
        ("consumequeue/T/0/00000000000000000000", False),
    ],
)
def test_extension_files_of_rebuilt_queues_are_recognised(name: str, part: bool) -> None:
    """Only they are left out of a copy: their units contain tags codes then."""
    root = Path("/store")
    assert is_rebuilt_part(root / name, root, {("T", 0)}) is part


@pytest.mark.parametrize("name", ["delay-533", "pop-533"])
def test_a_recovered_store_has_the_same_pending_messages(
    golden_store: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    folder = golden_store(name) / "store"
    done = recover_store([folder], tmp_path / "new")
    assert done.ok, done.findings
    assert pending(tmp_path / "new") == pending(folder) != []


def test_a_log_alone_is_recovered_with_its_undelivered_timers(
    golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    folder = golden_store("delay-533") / "store"
    done = recover_store([*(folder / "commitlog").iterdir()], tmp_path / "new")
    assert done.ok, done.findings
    names = [name for _, name in pending(tmp_path / "new")]
    assert names == [name for _, name in pending(folder)]
