"""Finding by key and id: the index where it covers the log, the log where it does not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.errors import StoreError
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries import find
from mqadmin.inspector.queries.find import find_id, find_key, message_rows
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.message_row import MessageRow


@pytest.fixture
def root(golden_store: Callable[..., Path]) -> Path:
    return golden_store("normal-stop-498", copy=True) / "store"


def keys(root: Path, key: str, scan: str = "auto", **conditions: Any) -> list[int]:
    rows = find_key(StoreDirectory(root), key, Query(**conditions), scan=scan)
    return [row.physical_offset for row in rows if isinstance(row, MessageRow)]


@pytest.fixture
def all_keys(root: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in message_rows(StoreDirectory(root)):
        assert isinstance(row, MessageRow)
        for key in [*row.keys, *([row.uniq_key] if row.uniq_key else [])]:
            found.setdefault(key, []).append(row.physical_offset)
    return found


def test_every_key_is_found_with_and_without_the_index(
    root: Path, all_keys: dict[str, list[int]]
) -> None:
    for key, wanted in list(all_keys.items())[::11]:
        for scan in ("auto", "always"):
            assert keys(root, key, scan) == sorted(set(wanted)), key


def test_a_key_of_a_deleted_topic_is_found_by_reading_the_log(
    root: Path, all_keys: dict[str, list[int]]
) -> None:
    for path in (root / "consumequeue").glob("GoneA"):
        path.rmdir()  # 4.9 leaves an empty folder
    assert keys(root, "gone-0", "never") == []
    assert keys(root, "gone-0", "never", topic="GoneA") == all_keys["gone-0"]
    assert keys(root, "gone-0") == all_keys["gone-0"]
    assert keys(root, "o-5", "never") == all_keys["o-5"]


def test_a_lost_index_file_is_made_up_for_by_the_log(
    root: Path, all_keys: dict[str, list[int]]
) -> None:
    files = sorted((root / "index").iterdir())
    assert len(files) > 2
    for lost in (files[0], files[1], files[-1]):
        data = lost.read_bytes()
        lost.unlink()
        for key, wanted in list(all_keys.items())[::13]:
            assert keys(root, key) == sorted(set(wanted)), (lost.name, key)
        lost.write_bytes(data)


def test_without_any_index_the_log_is_read(root: Path, all_keys: dict[str, list[int]]) -> None:
    key, wanted = next(iter(all_keys.items()))
    for path in (root / "index").iterdir():
        path.unlink()
    assert keys(root, key) == sorted(set(wanted))
    assert keys(root, key, "never") == []


def test_a_damaged_index_file_does_not_hide_messages(
    root: Path, all_keys: dict[str, list[int]]
) -> None:
    path = sorted((root / "index").iterdir())[1]
    path.write_bytes(b"\xff" * len(path.read_bytes()))
    for key, wanted in list(all_keys.items())[::13]:
        assert keys(root, key) == sorted(set(wanted)), key


def test_conditions_hold_for_hits(root: Path, all_keys: dict[str, list[int]]) -> None:
    key, offsets = next((k, v) for k, v in all_keys.items() if len(set(v)) > 2)
    middle = sorted(offsets)[1]
    assert keys(root, key, from_offset=middle, to_offset=middle + 1) == [middle]
    assert keys(root, key, topic="nothing") == []
    assert keys(root, key, begin_ms=1 << 60) == []


def test_a_hit_with_a_damaged_body_is_marked(root: Path, all_keys: dict[str, list[int]]) -> None:
    key = "o-7"
    (offset,) = all_keys[key]
    path = root / "commitlog" / f"{offset // 65536 * 65536:020d}"
    data = bytearray(path.read_bytes())
    data[offset % 65536 + 88] ^= 1
    path.write_bytes(data)
    rows = list(find_key(StoreDirectory(root), key, scan="never"))
    damage, row = rows
    assert isinstance(damage, DamageRow)
    assert (damage.kind, damage.physical_offset) == ("crc", offset)
    assert isinstance(row, MessageRow)
    assert not row.crc_ok


def test_ids_of_both_kinds_are_found(root: Path) -> None:
    store = StoreDirectory(root)
    for row in list(message_rows(store))[::29]:
        assert isinstance(row, MessageRow)
        assert list(find_id(store, row.offset_msg_id)) == [row]
        if row.uniq_key:
            found = [r for r in find_id(store, row.uniq_key) if isinstance(r, MessageRow)]
            assert row in found
            assert {r.uniq_key for r in found} == {row.uniq_key}


def test_an_id_that_leads_nowhere_gives_nothing(root: Path) -> None:
    store = StoreDirectory(root)
    for message_id in ("7F00000100002A9F0000000000000001", "F" * 32, "x", ""):
        assert [r for r in find_id(store, message_id) if isinstance(r, MessageRow)] == []
    assert list(find_id(store, "F" * 32, scan="never")) == []


def test_corruption_found_during_the_scan_is_reported(root: Path) -> None:
    path = root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[4] ^= 1
    path.write_bytes(data)
    rows = list(find_key(StoreDirectory(root), "nothing", scan="always"))
    assert [type(row) for row in rows] == [DamageRow]


def test_parts_that_no_index_covers_are_worked_out() -> None:
    assert find.uncovered_ranges([]) == [(0, None)]
    assert find.uncovered_ranges([(0, 10), (20, 30)]) == [(10, 20), (30, None)]
    assert find.uncovered_ranges([(5, 50), (20, 30), (60, 70)]) == [(0, 5), (50, 60), (70, None)]


def test_a_wrong_scan_is_refused(root: Path) -> None:
    with pytest.raises(StoreError):
        list(find_key(StoreDirectory(root), "k", scan="sometimes"))


def test_an_unreadable_hit_is_reported(
    root: Path, all_keys: dict[str, list[int]], forbid: Callable[[Path], None]
) -> None:
    (offset,) = all_keys["o-5"]
    path = root / "commitlog" / f"{offset // 65536 * 65536:020d}"
    data = bytearray(path.read_bytes())
    data[offset % 65536 + 4] ^= 1  # the magic code
    path.write_bytes(data)
    (damage,) = find_key(StoreDirectory(root), "o-5", Query(), scan="never")
    assert isinstance(damage, DamageRow)
    assert (damage.kind, damage.path, damage.physical_offset) == ("content", str(path), offset)
    forbid(path)
    (damage,) = find_key(StoreDirectory(root), "o-5", Query(), scan="never")
    assert isinstance(damage, DamageRow)
    assert (damage.kind, damage.path, damage.physical_offset) == ("unreadable", str(path), offset)


def test_deleted_and_unwritten_data_is_not_corruption(
    root: Path, all_keys: dict[str, list[int]]
) -> None:
    (offset,) = all_keys["o-5"]
    path = root / "commitlog" / f"{offset // 65536 * 65536:020d}"
    data = bytearray(path.read_bytes())
    data[offset % 65536 :] = bytes(len(data) - offset % 65536)
    path.write_bytes(data)  # the log was cut, the index is ahead of it
    assert list(find_key(StoreDirectory(root), "o-5", Query(), scan="never")) == []
    path.unlink()  # expired
    assert list(find_key(StoreDirectory(root), "o-5", Query(), scan="never")) == []
