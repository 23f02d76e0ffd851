"""Corruption of the log: findings with kind, file, place and length; the scan continues."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.store.format.commitlog import file_name, file_start
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogReader, LogWalk
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.queries.summary import summarize
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.message_row import MessageRow

Watch = Callable[[Path], None]


def look(store: Any, query: Query | None = None) -> tuple[list[int], list[DamageRow]]:
    rows = list(message_rows(StoreDirectory(store.root), query or Query()))
    return (
        [row.physical_offset for row in rows if isinstance(row, MessageRow)],
        [row for row in rows if isinstance(row, DamageRow)],
    )


def all_offsets(store: Any) -> list[int]:
    return [offset for offset, _ in store.places]


@pytest.mark.parametrize("number", [0, 7, 21])  # first of the log, within a file, in a later one
@pytest.mark.parametrize(
    ("position", "mask", "kind"),
    [
        (4, 0xFF, "magic"),
        (0, 0x40, "truncated"),
        (0, 0x80, "size"),
        (3, 0x04, "lengths"),
        (86, 0x01, "lengths"),
        (89, 0x01, "crc"),
    ],
)
def test_each_kind_of_damage_is_named_placed_and_passed(
    made: Any, untouched: Watch, number: int, position: int, mask: int, kind: str
) -> None:
    offset, size = made.places[number]
    made.flip(offset + position, mask)
    untouched(made.root)
    found, damage_rows = look(made)
    (damage,) = damage_rows
    assert (damage.kind, damage.severity) == (kind, "error")
    assert damage.path == str(made.file_of(offset)[0])
    assert (damage.physical_offset, damage.length) == (offset, size)
    assert damage.detail
    assert damage.suggestion
    expected = [o for o in all_offsets(made) if o != offset or kind == "crc"]
    assert found == expected
    summary, rows = summarize(StoreDirectory(made.root))
    assert rows == damage_rows
    assert summary.damages == 1
    assert summary.messages == len(expected)


def test_a_damaged_body_is_shown_as_such(made: Any) -> None:
    offset, _ = made.places[5]
    made.flip(offset + 90)
    rows = list(
        message_rows(StoreDirectory(made.root), Query(from_offset=offset, to_offset=offset + 1))
    )
    damage, message = rows
    assert isinstance(damage, DamageRow)
    assert damage.kind == "crc"
    assert isinstance(message, MessageRow)
    assert message.crc_ok is False
    unchecked = list(
        message_rows(
            StoreDirectory(made.root),
            Query(from_offset=offset, to_offset=offset + 1, check_crc=False),
        )
    )
    assert [type(row) for row in unchecked] == [MessageRow]


def test_the_last_record_of_a_file_may_be_damaged(made: Any) -> None:
    boundary = next(
        number
        for number, (offset, _) in enumerate(made.places)
        if made.file_of(offset)[0] != made.file_of(made.places[number + 1][0])[0]
    )
    offset, size = made.places[boundary]
    made.flip(offset + 4)
    found, (damage,) = look(made)
    assert (damage.kind, damage.physical_offset, damage.length) == ("magic", offset, size)
    assert found == [o for o in all_offsets(made) if o != offset]


def test_every_corrupt_record_is_found(made: Any) -> None:
    corrupt = made.places[2::6]
    for offset, _ in corrupt:
        made.flip(offset + 5, 0x10)
    found, damage_rows = look(made)
    assert [(d.physical_offset, d.length) for d in damage_rows] == corrupt
    assert found == [o for o in all_offsets(made) if o not in dict(corrupt)]


def test_a_torn_tail_is_a_warning(made: Any) -> None:
    offset, size = made.places[-1]
    made.poke(offset + 100, bytes(size - 100))
    found, (damage,) = look(made)
    assert found == all_offsets(made)[:-1]
    assert (damage.severity, damage.physical_offset) == ("warning", offset)
    assert "torn" in damage.suggestion


def test_zeroed_pages_are_a_hole(made: Any) -> None:
    first, last = made.places[3][0], made.places[6][0]
    made.poke(first, bytes(last - first))
    found, (damage,) = look(made)
    assert (damage.kind, damage.physical_offset, damage.length) == ("hole", first, last - first)
    assert found == all_offsets(made)[:3] + all_offsets(made)[6:]


def test_zeros_to_the_end_of_a_file_that_is_followed_are_a_damage(made: Any) -> None:
    offset = made.places[8][0]
    path, at = made.file_of(offset)
    made.poke(offset, bytes(made.file_size - at))
    found, (damage,) = look(made)
    assert (damage.kind, damage.path, damage.physical_offset) == ("unfinished", str(path), offset)
    assert damage.length == made.file_size - at
    assert found == [o for o in all_offsets(made) if made.file_of(o)[0] != path or o < offset]


def test_a_missing_file_is_a_gap(made: Any) -> None:
    (made.root / "commitlog" / file_name(4096)).unlink()
    found, (damage,) = look(made)
    assert (damage.kind, damage.physical_offset, damage.length) == ("gap", 4096, 4096)
    assert found == [o for o in all_offsets(made) if not 4096 <= o < 8192]


def test_a_short_file_is_reported_with_the_missing_bytes(made: Any) -> None:
    path = made.root / "commitlog" / file_name(4096)
    path.write_bytes(path.read_bytes()[:1000])
    found, damage_rows = look(made)
    assert [d.kind for d in damage_rows] == ["fileSize", "truncated"]
    assert damage_rows[0].physical_offset == 4096 + 1000
    assert damage_rows[1].severity == "error"
    assert [o for o in all_offsets(made) if o >= 8192] == [o for o in found if o >= 8192]


def test_a_store_cut_anywhere_reads_up_to_the_cut(made: Any) -> None:
    path = made.root / "commitlog" / file_name(8192)
    data = path.read_bytes()
    for end in range(0, 1200, 37):
        path.write_bytes(data[:end])
        found, _ = look(made)
        assert found == [o for o, size in made.places if o + size <= 8192 + end or o < 8192]


def test_an_empty_last_file_is_not_corruption(made: Any) -> None:
    whole = made.end
    last = sorted((made.root / "commitlog").iterdir())[-1]
    last.write_bytes(b"")
    summary, damage_rows = summarize(StoreDirectory(made.root))
    assert not damage_rows
    assert summary.max_physical_offset == whole


def test_an_empty_file_after_a_full_one_is_reported(made: Any) -> None:
    path, spare = sorted((made.root / "commitlog").iterdir())[-2:]
    spare.unlink()
    path.write_bytes(b"")
    found, damage_rows = look(made)
    assert found == [o for o in all_offsets(made) if o < file_start(path.name)]
    assert [(d.kind, d.severity, d.path, d.length) for d in damage_rows] == [
        ("fileSize", "warning", str(path), 4096)
    ]


def test_a_stray_file_is_named(made: Any) -> None:
    (made.root / "commitlog" / "notes.txt").write_text("x")
    found, (damage,) = look(made)
    assert damage.kind == "name"
    assert found == all_offsets(made)


def test_old_bytes_past_the_end_are_not_messages(make_store: Any) -> None:
    """A truncation leaves bytes that belong elsewhere; they are neither messages nor corruption."""
    store = make_store()
    store.put()
    store.log += bytes(400) + b"left over from before"
    store.write(spare=False)
    found, damage_rows = look(store)
    assert found == [0]
    assert damage_rows == []


def test_a_log_may_begin_anywhere(make_store: Any) -> None:
    store = make_store(start=4096 * 7)
    for _ in range(20):
        store.put()
    store.write()
    found, damage_rows = look(store)
    assert found == all_offsets(store)
    assert not damage_rows
    summary, _ = summarize(StoreDirectory(store.root))
    assert summary.min_physical_offset == 4096 * 7


def test_no_log_at_all_is_an_empty_summary(make_store: Any) -> None:
    store = make_store()
    store.write(spare=False)
    summary, damage_rows = summarize(StoreDirectory(store.root))
    assert (summary.messages, summary.first_store_timestamp, damage_rows) == (0, None, [])


def test_a_walk_can_begin_in_the_middle(made: Any) -> None:
    for start in (0, 1, *made.places[5], made.places[30][0], made.end, made.end + 10**9):
        walk = LogWalk(StoreDirectory(made.root), start=start)
        found = [item.record.physical_offset for item in walk if item.record is not None]
        assert found == [o for o in all_offsets(made) if o >= start]


def test_data_written_meanwhile_is_not_corruption(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail is looked at twice: a broker may just be writing it."""
    offset, _ = made.places[-1]
    path, at = made.file_of(offset)
    good = path.read_bytes()
    torn = good[: at + 50] + bytes(len(good) - at - 50)
    path.write_bytes(torn)
    original = LogWalk.is_moving

    def meanwhile(self: LogWalk, *arguments: Any) -> bool:
        path.write_bytes(good)
        return original(self, *arguments)

    monkeypatch.setattr(LogWalk, "is_moving", meanwhile)
    found, damage_rows = look(made)
    assert damage_rows == []
    assert found == all_offsets(made)[:-1]


def test_a_reader_gives_records_only_where_they_begin(made: Any) -> None:
    with LogReader(StoreDirectory(made.root)) as log:
        assert log.min_offset == 0
        for offset, size in made.places:
            file, record = log.record(offset)
            assert (record.total_size, record.position) == (size, made.file_of(offset)[1])
            assert file.path == made.file_of(offset)[0]
            assert log.record(offset + 1) is None
        for offset in (-1, made.end, 10**12):
            assert log.record(offset) is None


def test_a_reader_finds_a_file_that_a_broker_creates_later(made: Any) -> None:
    offset, _ = made.places[-1]
    path, _ = made.file_of(offset)
    good = path.read_bytes()
    for later in path.parent.iterdir():
        if later.name >= path.name:
            later.unlink()
    with LogReader(StoreDirectory(made.root)) as log:
        assert log.record(offset) is None
        path.write_bytes(b"")  # created, then its length is set, then a record is written
        assert log.record(offset) is None
        path.write_bytes(bytes(len(good)))
        assert log.record(offset) is None
        with path.open("r+b") as file:
            file.write(good)
        assert log.record(offset) is not None
        assert log.record(made.places[0][0]) is not None


def test_a_reader_keeps_few_files_open(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogReader, "FILES", 1)
    with LogReader(StoreDirectory(made.root)) as log:
        for _ in range(2):
            assert all(log.record(offset) for offset in all_offsets(made))


def test_an_unreadable_file_is_a_damage(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    real = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith(file_name(4096)):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    found, (damage,) = look(made)
    assert (damage.kind, damage.physical_offset) == ("unreadable", 4096)
    assert found == [o for o in all_offsets(made) if not 4096 <= o < 8192]


def test_a_file_that_was_filled_meanwhile_is_read_on(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may fill the file that is being read and begin the next one."""
    path, at = made.file_of(made.places[5][0])
    good = path.read_bytes()
    path.write_bytes(good[:at] + bytes(len(good) - at))
    original = LogWalk.is_followed

    def meanwhile(self: LogWalk, number: int) -> bool:
        path.write_bytes(good)
        return original(self, number)

    monkeypatch.setattr(LogWalk, "is_followed", meanwhile)
    found, damage_rows = look(made)
    assert damage_rows == []
    assert found == all_offsets(made)


def test_a_file_that_is_filled_after_its_end_was_found_ends_the_walk(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next file may begin at any moment: both decisions use one answer."""
    later = [made.root / "commitlog" / file_name(start) for start in (4096, 8192, 12288)]
    goods = {path: path.read_bytes() for path in later if path.exists()}
    for path in goods:
        path.write_bytes(bytes(len(goods[path])))
    path, at = made.file_of(made.places[5][0])
    goods[path] = path.read_bytes()
    path.write_bytes(goods[path][:at] + bytes(len(goods[path]) - at))
    original = LogWalk.is_followed

    def meanwhile(self: LogWalk, number: int) -> bool:
        answer = original(self, number)
        for one, data in goods.items():
            one.write_bytes(data)
        return answer

    monkeypatch.setattr(LogWalk, "is_followed", meanwhile)
    found, damage_rows = look(made)
    assert damage_rows == []
    assert found == all_offsets(made)[:5]


def test_a_wrong_blank_record_is_passed(made: Any) -> None:
    path, _ = made.file_of(0)
    data = bytearray(path.read_bytes())
    at = data.index(b"\xcb\xd4\x31\x94") - 4
    data[at : at + 4] = (77).to_bytes(4, "big")
    path.write_bytes(data)
    found, damage_rows = look(made)
    assert (damage_rows[0].kind, damage_rows[0].physical_offset) == ("blank", at)
    assert found == all_offsets(made)


def test_a_stopped_walk_ends_at_its_record(made: Any) -> None:
    stop = made.places[20][0]
    for counting in (False, True):
        walk = LogWalk(StoreDirectory(made.root), stop=stop, check_crc=False, counting=counting)
        items = [item.record.physical_offset for item in walk if item.record is not None]
        assert walk.reached == stop
        # counting reads plain records without yielding them
        assert items == ([] if counting else all_offsets(made)[:20])


@pytest.mark.parametrize("more", [b"\x55" * 777, bytes(4096)])
def test_bytes_after_the_length_of_a_file_are_not_of_the_next_one(
    made: Any, untouched: Watch, more: bytes
) -> None:
    path = made.file_of(0)[0]
    path.write_bytes(path.read_bytes() + more)
    untouched(made.root)
    found, damage_rows = look(made)
    assert found == all_offsets(made)
    (damage,) = damage_rows
    assert (damage.kind, damage.physical_offset, damage.length) == ("fileSize", 4096, len(more))


def test_a_scan_ends_that_begins_after_the_bytes_of_a_file(made: Any, untouched: Watch) -> None:
    path = made.file_of(0)[0]
    path.write_bytes(path.read_bytes() + bytes(5000))
    untouched(made.root)
    offsets = [
        item.record.physical_offset
        for item in LogWalk(StoreDirectory(made.root), start=8192)
        if item.record is not None
    ]
    assert offsets == [offset for offset in all_offsets(made) if offset >= 8192]
