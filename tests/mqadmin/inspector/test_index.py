"""IndexFile rows."""

from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from broker.store.format.indexfile import (
    HEADER_SIZE,
    IndexHeader,
    decode_header,
    encode_header,
    index_key_hash,
)
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.index import index_rows, known_topics
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow, IndexRow

T0 = 1_700_000_000_012


@pytest.fixture
def indexed(tmp_path: Path, vectors: dict) -> Path:
    folder = tmp_path / "store" / "index"
    folder.mkdir(parents=True)
    for number, file in enumerate(vectors["index"]["files"]):
        (folder / f"2023111422132000{number}").write_bytes(bytes.fromhex(file["hex"]))
    return folder.parent


def entries(root: Path, **conditions: Any) -> list[IndexRow]:
    rows = index_rows(StoreDirectory(root), Query(**conditions))
    return [row for row in rows if isinstance(row, IndexRow) and row.record == "entry"]


def test_each_file_is_listed_before_its_entries(indexed: Path) -> None:
    rows = list(index_rows(StoreDirectory(indexed)))
    assert [row.record for row in rows] == ["file", *["entry"] * 4, "file", *["entry"] * 2]
    head, first = rows[:2]
    assert (head.begin_timestamp, head.hash_slot_count, head.index_count, head.slots) == (
        T0,
        2,
        5,
        5,
    )
    assert (head.begin_physical_offset, head.end_physical_offset) == (4096, 4700)
    assert (first.entry, first.slot, first.key_hash, first.physical_offset) == (
        1,
        641858179 % 5,
        641858179,
        4096,
    )
    assert rows[4].previous_entry == 2
    assert rows[4].time_diff_seconds == 61


def test_one_file_can_be_given(indexed: Path) -> None:
    path = indexed / "index" / "20231114221320001"
    rows = list(index_rows(StoreDirectory(path)))
    assert {row.path for row in rows} == {str(path)}
    copy = indexed.parent / "single.bin"
    copy.write_bytes(path.read_bytes())
    assert StoreDirectory(copy).kind == "index"


def test_with_conditions_only_files_with_a_matching_entry_are_listed(indexed: Path) -> None:
    rows = list(index_rows(StoreDirectory(indexed), Query(from_offset=4700, to_offset=5000)))
    assert [row.record for row in rows] == ["file", "entry"]
    assert list(index_rows(StoreDirectory(indexed), Query(topic="TopicA", key="none"))) == []


def test_conditions_narrow_entries(indexed: Path) -> None:
    assert [e.physical_offset for e in entries(indexed, topic="TopicA", key="key1")] == [
        4096,
        4300,  # another key of the same hash: the index contains only hashes
        4700,
        5200,
    ]
    with pytest.raises(ConfigError, match="no topic is known"):
        index_rows(StoreDirectory(indexed), Query(key="key1"))
    (indexed / "consumequeue" / "TopicA").mkdir(parents=True)
    assert known_topics(StoreDirectory(indexed)) == ["TopicA"]
    assert len(entries(indexed, key="key1")) == 4
    assert index_key_hash("TopicA", "key1") == 641858179
    found = entries(indexed, from_offset=4300, to_offset=5000)
    assert [e.physical_offset for e in found] == [4300, 4500, 4700]
    timed = entries(indexed, begin_ms=T0 + 2500, end_ms=T0 + 70_000)
    assert [e.physical_offset for e in timed] == [4500, 4700]


def test_an_unused_file_has_no_entries_and_no_damage(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    (folder / "20231114221320000").write_bytes(bytes(3200))
    (row,) = index_rows(StoreDirectory(folder))
    assert (row.record, row.index_count, row.slots) == ("file", 1, None)


def test_damaged_files_are_reported_and_passed(indexed: Path) -> None:
    folder = indexed / "index"
    good = len(list(index_rows(StoreDirectory(indexed))))
    (folder / "20231114221319000").write_bytes(b"short")
    (folder / "20231114221319001").write_bytes(
        encode_header(IndexHeader(1, 2, 3, 4, 5, 20)) + b"\x99" * 4000
    )
    (folder / "notes.txt").write_text("x")
    rows = list(index_rows(StoreDirectory(indexed)))
    bad = [(row.kind, Path(row.path).name) for row in rows if isinstance(row, DamageRow)]
    assert bad == [
        ("index", "20231114221319000"),
        ("index", "20231114221319001"),
        ("name", "notes.txt"),
    ]
    assert len(rows) == good + len(bad) + 1  # the header of the second is shown


def test_a_damaged_entry_is_reported_alone(tmp_path: Path, golden_store: Any) -> None:
    root = golden_store("lmq-533", copy=True) / "store"
    (path,) = (root / "index").iterdir()
    data = bytearray(path.read_bytes())
    before = len(list(index_rows(StoreDirectory(root))))
    place = 40 + 4 * 40 + 20 * 3
    data[place + 4] ^= 0x80
    path.write_bytes(data)
    rows = list(index_rows(StoreDirectory(root)))
    (damage,) = (row for row in rows if isinstance(row, DamageRow))
    assert (damage.kind, damage.physical_offset, damage.length) == ("index", place, 20)
    assert len(rows) == before


def header_findings(root: Path, **changes: int) -> list[str]:
    """Change the first file's header and return its findings."""
    path = root / "index" / "20231114221320000"
    data = path.read_bytes()
    header = decode_header(data)._replace(**changes)
    path.write_bytes(encode_header(header) + data[HEADER_SIZE:])
    rows = index_rows(StoreDirectory(root))
    return [row.detail for row in rows if isinstance(row, DamageRow)]


@pytest.mark.parametrize("count", [0, 1, -(1 << 31)])
def test_a_header_that_counts_no_entries_over_existing_ones_is_reported(
    indexed: Path, count: int
) -> None:
    (detail,) = header_findings(indexed, index_count=count)
    assert "counts no entries" in detail


@pytest.mark.parametrize("slots", [0, -1, 5, 1 << 30])
def test_more_used_slots_than_entries_are_reported(indexed: Path, slots: int) -> None:
    assert (
        f"{slots} slots are in use by 4 entries"
        in header_findings(indexed, hash_slot_count=slots)[0]
    )


def test_negative_times_and_offsets_of_a_header_are_reported(indexed: Path) -> None:
    assert "begin_timestamp is -5" in header_findings(indexed, begin_timestamp=-5)[0]
