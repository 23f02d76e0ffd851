"""Corrupt files and units of a ConsumeQueue: findings, and the scan continues after them."""

from pathlib import Path
from typing import Any

import pytest

from broker.store.format.commitlog import file_name
from broker.store.format.consumequeue import NO_UNIT, BatchConsumeQueueUnit
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.queues import unit_rows
from mqadmin.inspector.rows import DamageRow
from tests.support.store_units import encode_batch_unit, encode_unit

FILE = 600  # bytes of a queue file of the made stores: 30 units


@pytest.fixture
def folder(make_store: Any) -> Path:
    """The folder of a queue of 75 units over three files."""
    store = make_store(file_size=65536)
    for _ in range(75):
        store.put()
    store.write()
    return Path(store.root / "consumequeue" / "TopicA" / "0")


def look(folder: Path) -> tuple[list[int], list[DamageRow]]:
    """The queue offsets of the units that are shown, and the damage rows."""
    rows = list(unit_rows(StoreDirectory(folder.parents[2])))
    damage_rows = [row for row in rows if isinstance(row, DamageRow)]
    return [row.queue_offset for row in rows if not isinstance(row, DamageRow)], damage_rows


def places(damage_rows: list[DamageRow]) -> list[tuple[str, str, int | None, int | None]]:
    return [(d.kind, Path(d.path).name, d.physical_offset, d.length) for d in damage_rows]


def test_a_good_queue_has_no_damage(folder: Path) -> None:
    assert look(folder) == (list(range(75)), [])


@pytest.mark.parametrize(("first", "count"), [(0, 1), (3, 5), (28, 1), (0, 29)])
def test_empty_units_between_others_are_a_hole(folder: Path, first: int, count: int) -> None:
    path = folder / file_name(FILE)
    data = bytearray(path.read_bytes())
    data[first * 20 : (first + count) * 20] = bytes(count * 20)
    path.write_bytes(data)
    shown, damage_rows = look(folder)
    assert shown == [n for n in range(75) if not 30 + first <= n < 30 + first + count]
    assert places(damage_rows) == [("hole", path.name, FILE + first * 20, count * 20)]
    assert "rebuilds" in damage_rows[0].suggestion


@pytest.mark.parametrize("marks", [1, 2, 30])
def test_only_the_first_unit_of_a_file_may_be_its_mark(folder: Path, marks: int) -> None:
    path = folder / file_name(FILE)
    data = bytearray(path.read_bytes())
    data[: marks * 20] = NO_UNIT * marks
    path.write_bytes(data)
    shown, damage_rows = look(folder)
    assert shown == [n for n in range(75) if not 30 <= n < 30 + marks]
    hole = ("hole", path.name, FILE, 20)
    units = [("unit", path.name, FILE + at * 20, 20) for at in range(1, marks)]
    assert places(damage_rows) == [hole, *units]


def test_a_hole_does_not_begin_within_a_unit(folder: Path) -> None:
    path = folder / file_name(0)
    data = bytearray(path.read_bytes())
    data[40:69] = bytes(29)  # unit 2, and unit 3 without its last bytes
    path.write_bytes(data)
    shown, damage_rows = look(folder)
    assert shown == [n for n in range(75) if n not in (2, 3)]
    assert places(damage_rows) == [("hole", path.name, 40, 20), ("order", path.name, 60, 20)]


def test_one_unit_that_leads_back_is_passed_several_end_the_queue(folder: Path) -> None:
    path = folder / file_name(FILE)
    data = bytearray(path.read_bytes())
    data[100:120] = encode_unit(5, 200)
    path.write_bytes(data)
    shown, (damage,) = look(folder)
    assert shown == [n for n in range(75) if n != 35]
    assert (damage.kind, damage.severity) == ("order", "error")
    data[120:140] = encode_unit(205, 200)
    path.write_bytes(data)
    shown, (damage,) = look(folder)
    assert shown == list(range(35))
    assert (damage.kind, damage.severity, damage.physical_offset) == ("order", "warning", 700)


@pytest.mark.parametrize("kept", [0, 12, 29])
def test_a_partial_file_before_one_with_units_is_reported(folder: Path, kept: int) -> None:
    path = folder / file_name(0)
    path.write_bytes(path.read_bytes()[: kept * 20].ljust(FILE, b"\0"))
    shown, damage_rows = look(folder)
    assert shown == [*range(kept), *range(30, 75)]
    assert places(damage_rows) == [("unfinished", path.name, kept * 20, FILE - kept * 20)]


def test_a_missing_file_is_a_gap(folder: Path) -> None:
    (folder / file_name(FILE)).unlink()
    shown, damage_rows = look(folder)
    assert shown == [*range(30), *range(60, 75)]
    assert places(damage_rows) == [("gap", file_name(2 * FILE), FILE, FILE)]


@pytest.mark.parametrize("length", [0, 240, 250])
def test_a_file_of_another_length_is_named_itself(folder: Path, length: int) -> None:
    path = folder / file_name(0)
    path.write_bytes(path.read_bytes()[:length])
    shown, damage_rows = look(folder)
    assert shown == [*range(length // 20), *range(30, 75)]
    assert places(damage_rows)[0] == ("fileSize", path.name, length, FILE - length)
    assert damage_rows[0].severity == "warning"


def test_a_single_empty_file_is_reported(folder: Path) -> None:
    for path in sorted(folder.iterdir())[1:]:
        path.unlink()
    (folder / file_name(0)).write_bytes(b"")
    shown, damage_rows = look(folder)
    assert (shown, places(damage_rows)) == ([], [("fileSize", file_name(0), 0, 0)])


def test_holes_of_a_batch_queue(make_store: Any) -> None:
    store = make_store()
    store.put()
    store.write(queues=False)
    folder = store.root / "batchconsumequeue" / "B" / "0"
    folder.mkdir(parents=True)
    made = [
        encode_batch_unit(BatchConsumeQueueUnit(n * 100, 100, 0, 1, n * 3, 3)) for n in range(5)
    ]
    made[1] = made[2] = bytes(46)
    (folder / file_name(0)).write_bytes(b"".join(made).ljust(460, b"\0"))
    shown, damage_rows = look(folder)
    assert shown == [0, 9, 12]
    assert places(damage_rows) == [("hole", file_name(0), 46, 92)]


def test_a_file_that_cannot_be_opened_is_named_and_the_others_are_read(
    folder: Path, forbid: Any
) -> None:
    path = folder / file_name(FILE)
    forbid(path)
    shown, damage_rows = look(folder)
    assert shown == [*range(30), *range(60, 75)]
    assert [(row.kind, Path(row.path).name) for row in damage_rows] == [("unreadable", path.name)]


def test_a_unit_that_leads_back_at_the_end_of_a_file_ends_the_queue(folder: Path) -> None:
    """No unit follows in the file that could show that only this one is damaged."""
    path = folder / file_name(0)
    data = bytearray(path.read_bytes())
    data[580:600] = encode_unit(5, 200)
    path.write_bytes(data)
    shown, (damage,) = look(folder)
    assert shown == list(range(29))
    assert (damage.kind, damage.severity, damage.physical_offset) == ("order", "warning", 580)
    assert "left over from before a truncation" in damage.detail


def test_two_units_of_the_same_record_are_out_of_order(folder: Path) -> None:
    path = folder / file_name(0)
    data = bytearray(path.read_bytes())
    data[60:80] = data[40:60]
    path.write_bytes(data)
    shown, (damage,) = look(folder)
    assert shown == [n for n in range(75) if n != 3]
    assert (damage.kind, damage.severity) == ("order", "error")


def test_a_unit_without_a_size_is_damage(folder: Path) -> None:
    path = folder / file_name(0)
    data = bytearray(path.read_bytes())
    data[108:112] = (-5).to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    shown, damage_rows = look(folder)
    assert 5 not in shown
    assert len(damage_rows) == 1
    assert damage_rows[0].path == str(path)


def test_a_damaged_unit_of_a_batch_queue_is_reported_and_the_next_is_read(
    make_store: Any,
) -> None:
    store = make_store()
    store.put()
    store.write(queues=False)
    folder = store.root / "batchconsumequeue" / "B" / "0"
    folder.mkdir(parents=True)
    units = [BatchConsumeQueueUnit(n * 100, 100, 0, 1, n * 3, 3) for n in range(4)]
    units[2] = BatchConsumeQueueUnit(200, -7, 0, 1, 6, 3)
    (folder / file_name(0)).write_bytes(b"".join(map(encode_batch_unit, units)).ljust(460, b"\0"))
    shown, damage_rows = look(folder)
    assert shown == [0, 3, 9]
    assert len(damage_rows) == 1


def test_every_cut_of_the_last_file_shows_its_whole_units(folder: Path) -> None:
    path = folder / file_name(2 * FILE)
    whole = path.read_bytes()
    for length in range(0, 301, 7):
        path.write_bytes(whole[:length])
        shown, damage_rows = look(folder)
        assert shown == list(range(60 + min(15, length // 20)))
        assert "fileSize" in {row.kind for row in damage_rows}


def test_any_damaged_byte_loses_at_most_its_unit_or_ends_the_queue(folder: Path, rng: Any) -> None:
    path = folder / file_name(FILE)
    whole = path.read_bytes()
    for _ in range(40):
        at = rng.randrange(FILE)
        data = bytearray(whole)
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        shown, damage_rows = look(folder)
        assert shown == sorted(set(shown))
        assert set(range(30)) <= set(shown)
        missing = set(range(75)) - set(shown)
        assert missing <= {30 + at // 20} or damage_rows
