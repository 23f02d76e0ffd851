"""Units of timer files and extension files as rows."""

from pathlib import Path

from broker.store.format.consumequeue import ConsumeQueueExtUnit, encode_ext_unit
from mqadmin.inspector.delayed.unit_rows import ext_rows, log_rows, slot_rows
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow


def test_slots_come_by_time_and_show_whether_they_are_delivered(
    delay_store: StoreDirectory,
) -> None:
    rows = list(slot_rows(delay_store, Query()))
    assert [row.pending for row in rows] == [False] * 3 + [True] * 7
    begin = rows[4].slot_timestamp
    assert list(slot_rows(delay_store, Query(begin_ms=begin))) == rows[4:]


def test_units_of_the_timer_log_come_by_position(delay_store: StoreDirectory) -> None:
    rows = [row for row in log_rows(delay_store, Query()) if not isinstance(row, DamageRow)]
    assert [row.position for row in rows] == list(range(0, 832, 52))
    assert [row.action for row in rows].count("recall") == 1
    assert list(log_rows(delay_store, Query(from_offset=52, to_offset=104))) == [rows[1]]


def test_extension_units_and_their_damage(tmp_path: Path) -> None:
    folder = tmp_path / "consumequeue_ext" / "T" / "0"
    folder.mkdir(parents=True)
    (tmp_path / "commitlog").mkdir()
    units = [ConsumeQueueExtUnit(7, 1000, b"\x01"), ConsumeQueueExtUnit(8, 2000, b"")]
    data = b"".join(map(encode_ext_unit, units))
    (folder / "00000000000000000000").write_bytes(data + b"\0\5garbage" + bytes(50))
    store = StoreDirectory(tmp_path)
    *rows, damage = ext_rows(store, Query())
    assert isinstance(damage, DamageRow)
    assert [(row.tags_code, row.bit_map) for row in rows if not isinstance(row, DamageRow)] == [
        (7, "01"),
        (8, ""),
    ]
    assert StoreDirectory(folder / "00000000000000000000").kind == "ext"
    assert list(ext_rows(store, Query(topic="U"))) == []


def test_a_window_includes_its_begin_and_not_its_end(delay_store: StoreDirectory) -> None:
    rows = list(slot_rows(delay_store, Query()))
    times = [row.slot_timestamp for row in rows]
    assert times == sorted(set(times))
    for low in range(len(times)):
        for high in range(low, len(times)):
            query = Query(begin_ms=times[low], end_ms=times[high])
            assert list(slot_rows(delay_store, query)) == rows[low:high]


def test_every_unit_of_a_chain_is_a_row_of_its_slot(delay_store: StoreDirectory) -> None:
    """Wheel and log show the same messages, by position."""
    units = {
        row.position: row
        for row in log_rows(delay_store, Query())
        if not isinstance(row, DamageRow)
    }
    for slot in slot_rows(delay_store, Query()):
        position, number = slot.last_pos, 0
        while position >= 0:
            unit = units[position]
            assert unit.slot_timestamp // 1000 * 1000 == slot.slot_timestamp
            number += -1 if unit.action == "recall" else 1
            first, position = position, unit.prev_pos
        assert (number, first) == (slot.num, slot.first_pos)


def test_a_store_without_timer_files_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    store = StoreDirectory(tmp_path)
    assert list(slot_rows(store, Query())) == []
    assert list(log_rows(store, Query())) == []
    assert list(ext_rows(store, Query())) == []


def extension(tmp_path: Path, *queues: tuple[str, str]) -> StoreDirectory:
    """One extension unit in each (topic, queue) folder, at 1000 ms, 2000 ms and so on."""
    (tmp_path / "commitlog").mkdir()
    for number, (topic, queue) in enumerate(queues, 1):
        folder = tmp_path / "consumequeue_ext" / topic / queue
        folder.mkdir(parents=True)
        unit = encode_ext_unit(ConsumeQueueExtUnit(number, number * 1000, b""))
        (folder / "00000000000000000000").write_bytes(unit.ljust(4096, b"\0"))
    return StoreDirectory(tmp_path)


def places(store: StoreDirectory, query: Query) -> list[tuple[str, int]]:
    return [
        (row.topic, row.queue_id)
        for row in ext_rows(store, query)
        if not isinstance(row, DamageRow)
    ]


def test_extension_queues_are_chosen_by_topic_queue_and_time(tmp_path: Path) -> None:
    store = extension(tmp_path, ("B", "0"), ("A", "10"), ("A", "2"))
    assert places(store, Query()) == [("A", 2), ("A", 10), ("B", 0)]
    assert places(store, Query(topic="A")) == [("A", 2), ("A", 10)]
    assert places(store, Query(topic="A", queue_id=2)) == [("A", 2)]
    assert places(store, Query(queue_id=0)) == [("B", 0)]
    assert places(store, Query(begin_ms=2000)) == [("A", 2), ("A", 10)]
    assert places(store, Query(end_ms=2000)) == [("B", 0)]
    assert places(store, Query(from_offset=1)) == []


def test_a_folder_that_is_not_a_queue_is_left_out(tmp_path: Path) -> None:
    """A name such as ² is a digit for Python's isdigit, and no queue id."""
    store = extension(tmp_path, ("A", "0"), ("A", "lost+found"), ("A", "²"))
    (tmp_path / "consumequeue_ext" / "note.txt").write_text("x")
    assert places(store, Query()) == [("A", 0)]
