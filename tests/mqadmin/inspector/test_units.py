"""Corrupt files and units of a ConsumeQueue: findings, and the scan continues after them."""

from pathlib import Path
from typing import Any

import pytest

from broker.store.format.commitlog import file_name
from broker.store.format.consumequeue import BatchConsumeQueueUnit, encode_batch_unit, encode_unit
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.queues import unit_rows
from mqadmin.inspector.rows import DamageRow

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
