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
