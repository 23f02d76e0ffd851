"""IndexFiles against the log: headers, entries, times, uncovered keys, overlaps, leftovers."""

import shutil
from pathlib import Path

import pytest

from broker.store.format.indexfile import (
    HEADER_SIZE,
    IndexEntry,
    IndexHeader,
    decode_entry,
    decode_header,
    encode_entry,
    encode_header,
    entry_position,
    slot_position,
)
from mqadmin.inspector.verify.index_checks import MAX_PER_FILE, plain_columns
from tests.support.made_store import MadeStore, poke

SLOTS = 32
FIRST = "index/20231114221320000"
SECOND = "index/20231114221320001"
THIRD = "index/20231114221320002"


def change_header(store: MadeStore, name: str, **changes: int) -> None:
    path = store.root / name
    data = path.read_bytes()
    path.write_bytes(encode_header(decode_header(data)._replace(**changes)) + data[HEADER_SIZE:])


def change_entry(store: MadeStore, name: str, number: int, **changes: int) -> int:
    """Change an entry; returns its byte position in the file."""
    path = store.root / name
    entry = decode_entry(path.read_bytes(), number, SLOTS)
    at = entry_position(number, SLOTS)
    poke(path, at, encode_entry(IndexEntry._replace(entry, **changes)))
    return at


def test_three_sound_files_cover_every_key(sound: MadeStore, check) -> None:
    summary = check(sound.root).result.summary
    assert (summary.index_files, summary.index_entries, summary.keys_indexed) == (3, 60, 60)


@pytest.mark.parametrize("length", [0, 1, HEADER_SIZE - 1])
def test_a_file_without_a_whole_header_is_reported(sound: MadeStore, check, length: int) -> None:
    path = sound.root / SECOND
    path.write_bytes(path.read_bytes()[:length])
    found, result = check(sound.root)
    assert ("index", "error", SECOND, None, None) in found
    assert result.summary.keys_indexed == 60 - 24


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"begin_physical_offset": 5}, 1),
        ({"end_physical_offset": 5}, 1),
        ({"begin_timestamp": 0}, 21),
        ({"end_timestamp": -4}, 2),
        ({"hash_slot_count": 25}, 1),
        ({"hash_slot_count": 0}, 1),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_every_field_of_a_header_is_compared(
    sound: MadeStore, check, changes: dict[str, int], count: int
) -> None:
    change_header(sound, SECOND, **changes)
    found, _ = check(sound.root)
    header = [one for one in found if one.path == SECOND and one.physical_offset == 0]
    assert header
    assert set(header) == {("index", "error", SECOND, 0, HEADER_SIZE)}
    assert len(found) == count


@pytest.mark.parametrize("name", ["begin_timestamp", "end_timestamp"])
def test_a_time_of_a_header_is_compared_with_its_record(sound: MadeStore, check, name: str) -> None:
    value = getattr(decode_header((sound.root / SECOND).read_bytes()), name)
    change_header(sound, SECOND, **{name: value + 1})
    assert ("index", "error", SECOND, 0, HEADER_SIZE) in check(sound.root).found


@pytest.mark.parametrize("count", [27, 1 << 20, -1])
def test_a_count_that_does_not_fit_into_the_file_is_reported(
    sound: MadeStore, check, count: int
) -> None:
    change_header(sound, SECOND, index_count=count)
    found, _ = check(sound.root)
    assert ("index", "error", SECOND, None, None) in found


def test_entries_after_the_counted_ones_are_reported(sound: MadeStore, check) -> None:
    """One of them is accepted after a crash: the header is written after the entry."""
    place = sound.places[0][0]
    at = entry_position(25 - 12, SLOTS)  # the third file has 12 entries
    poke(sound.root / THIRD, at, encode_entry(IndexEntry(13, 77, place, 0, 0)))
    found, _ = check(sound.root)
    assert found == [("index", "error", THIRD, at, 20)]
    (sound.root / "abort").write_bytes(b"")
    assert check(sound.root).found == []


@pytest.mark.parametrize(
    "changes",
    [{"key_hash": 4711}, {"physical_offset": 3}, {"time_diff_seconds": 900}],
    ids=lambda changes: next(iter(changes)),
)
def test_every_field_of_an_entry_is_compared_with_its_record(
    sound: MadeStore, check, changes: dict[str, int]
) -> None:
    at = change_entry(sound, SECOND, 9, **changes)
    found, _ = check(sound.root)
    assert ("indexEntry", "error", SECOND, at, 20) in found
    missing = [one for one in found if one.kind == "indexMissing"]
    assert bool(missing) is ("time_diff_seconds" not in changes)


def test_a_wrong_link_and_a_wrong_slot_are_chain_errors(sound: MadeStore, check) -> None:
    at = change_entry(sound, SECOND, 9, previous_entry=9)
    assert check(sound.root).found == [("indexChain", "error", SECOND, at, 20)]
    change_entry(sound, SECOND, 9, previous_entry=0)
    shutil.rmtree(sound.root / "index")
    sound.write_index()
    data = (sound.root / SECOND).read_bytes()
    slot = next(s for s in range(SLOTS) if any(data[slot_position(s) : slot_position(s) + 4]))
    poke(sound.root / SECOND, slot_position(slot), bytes(4))
    assert check(sound.root).found == [("indexChain", "error", SECOND, slot_position(slot), 4)]


def test_keys_without_entries_inside_a_file_are_an_error_and_outside_a_warning(
    sound: MadeStore, check
) -> None:
    (sound.root / SECOND).unlink()
    found, result = check(sound.root)
    first = sound.keys[24][0]
    assert found == [("indexMissing", "warning", "index", first, None)]
    assert result.summary.keys - result.summary.keys_indexed == 24


def test_missing_keys_at_the_end_are_expected_after_a_crash(sound: MadeStore, check) -> None:
    (sound.root / THIRD).unlink()
    assert [one.kind for one in check(sound.root).found] == ["indexMissing"]
    (sound.root / "abort").write_bytes(b"")
    assert check(sound.root).found == []


def test_missing_keys_are_not_reported_if_indexing_is_disabled(sound: MadeStore, check) -> None:
    shutil.rmtree(sound.root / "index")
    assert [one.kind for one in check(sound.root).found] == ["indexMissing"]
    (sound.root / "broker.conf").write_text(
        f"storePathRootDir={sound.root}\nmessageIndexEnable=false\n"
    )
    found, result = check(sound.root)
    assert found == []
    assert any("messageIndexEnable" in note for note in result.summary.notes)


def test_files_that_cover_the_same_part_of_the_log_overlap(sound: MadeStore, check) -> None:
    copy = sound.root / "index" / "20991231235959999"
    shutil.copy(sound.root / SECOND, copy)
    found, _ = check(sound.root)
    assert ("indexOverlap", "warning", "index/20991231235959999", None, None) in found


def test_entries_past_the_end_of_the_log_are_stale_and_their_messages_lost(
    tmp_path: Path, check
) -> None:
    store = MadeStore(tmp_path / "store", file_size=16384)
    for _ in range(20):
        store.put()
    end, keys = store.end, list(store.keys)
    store.keys += [(end + 100, 5, keys[-1][2] + 1000), (end + 200, 6, keys[-1][2] + 2000)]
    store.write_index(capacity=40)
    store.write()
    store.write_topics()
    found, result = check(store.root)
    at = entry_position(21, SLOTS)
    assert ("stale", "notice", "index/20231114221320000", at, None) in found
    assert ("lost", "error", "index", None, None) in found
    assert len(found) == 2
    assert result.summary.lost_messages == 2
    assert result.summary.index_entries == 22


@pytest.mark.parametrize("name", ["notes.txt", "2023111422132000x"])
def test_a_file_with_another_name_is_reported(sound: MadeStore, check, name: str) -> None:
    (sound.root / "index" / name).write_bytes(b"x")
    assert ("name", "warning", f"index/{name}", None, None) in check(sound.root).found


def test_entries_that_go_back_in_the_log_are_reported_once(sound: MadeStore, check) -> None:
    path = sound.root / SECOND
    data = bytearray(path.read_bytes())
    one, two = entry_position(9, SLOTS), entry_position(10, SLOTS)
    data[one : one + 16], data[two : two + 16] = data[two : two + 16], data[one : one + 16]
    path.write_bytes(data)
    found, _ = check(sound.root)
    back = [item for item in found if item.kind == "indexEntry"]
    assert back == [("indexEntry", "error", SECOND, two, 20)]


def test_findings_of_one_file_are_bounded(sound: MadeStore, check) -> None:
    for number in range(1, 25):
        change_entry(sound, SECOND, number, key_hash=number)
    found, _ = check(sound.root)
    of_file = [one for one in found if one.path == SECOND and one.kind != "indexMissing"]
    assert len(of_file) == MAX_PER_FILE + 1


def test_an_unused_file_is_sound(sound: MadeStore, check) -> None:
    size = (sound.root / THIRD).stat().st_size
    unused = encode_header(IndexHeader()).ljust(size, b"\0")
    (sound.root / "index" / "20231114221320003").write_bytes(unused)
    found, result = check(sound.root)
    assert found == []
    assert result.summary.index_files == 4


def test_keys_become_columns_in_their_order() -> None:
    assert plain_columns([(1, 2, 3), (4, 5, 6)]) == ([1, 4], [2, 5], [3, 6])
    assert plain_columns([]) == ([], [], [])
