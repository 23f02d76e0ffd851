"""ConsumeQueue rows and bounds."""

from typing import Any

import msgspec

from broker.message.batch import encode_batch
from broker.message.message import Message
from broker.store.format.commitlog import file_name
from broker.store.format.consumequeue import (
    BatchConsumeQueueUnit,
    encode_batch_unit,
    encode_fillers,
    encode_unit,
)
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.queues import queue_rows, unit_rows
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow, QueueUnitRow

NOW = 1_700_000_000_000


def units(store: Any, **conditions: Any) -> list[Any]:
    return list(unit_rows(StoreDirectory(store.root), Query(**conditions)))


def test_a_row_contains_the_place_of_a_message(made: Any) -> None:
    row = units(made, topic="TopicB", queue_id=1)[2]
    assert msgspec.to_builtins(row) == {
        "topic": "TopicB",
        "queueId": 1,
        "queueOffset": 2,
        "physicalOffset": made.places[15][0],
        "storeSize": made.places[15][1],
        "tagsCode": 2598919,
        "batchSize": None,
        "path": str(made.root / "consumequeue/TopicB/1" / file_name(0)),
    }


def test_conditions_narrow_units(made: Any) -> None:
    own = {"topic": "TopicA", "queue_id": 1}
    count = len(units(made, **own))
    assert [row.queue_offset for row in units(made, from_offset=3, to_offset=5, **own)] == [3, 4]
    timed = units(made, begin_ms=NOW + 5000, end_ms=NOW + 8000)
    assert sorted(row.physical_offset for row in timed) == [o for o, _ in made.places[5:8]]
    assert [row.physical_offset for row in units(made, key="key7")] == [made.places[7][0]]
    message_id = f"7F00000100002A9F{made.places[9][0]:016X}"
    assert [row.physical_offset for row in units(made, id=message_id)] == [made.places[9][0]]
    assert units(made, topic="nothing") == []
    assert count == len(made.queues["TopicA", 1])


def test_a_queue_may_span_files(make_store: Any) -> None:
    store = make_store()
    for _ in range(75):
        store.put()
    store.write()
    found = units(store)
    assert [row.queue_offset for row in found] == list(range(75))
    assert len({row.path for row in found}) == 3


def test_bounds_come_from_live_units(made: Any) -> None:
    bounds = {(row.topic, row.queue_id): row for row in queue_rows(StoreDirectory(made.root))}
    assert len(bounds) == 4
    for key, row in bounds.items():
        assert (row.min_offset, row.max_offset) == (0, len(made.queues[key]))
        assert row.units == row.max_offset
        assert row.kind == "classic"
    assert len(list(queue_rows(StoreDirectory(made.root), "TopicA"))) == 2


def test_deleted_log_files_raise_the_min_offset(made: Any) -> None:
    (made.root / "commitlog" / file_name(0)).unlink()
    kept = [n for n, (offset, _) in enumerate(made.places) if offset >= 4096]
    (row,) = (r for r in queue_rows(StoreDirectory(made.root), "TopicB") if r.queue_id == 1)
    own = [n for n in range(40) if n % 6 == 3]
    assert row.min_offset == sum(n not in kept for n in own)
    assert row.first_physical_offset == made.places[min(set(own) & set(kept))][0]


def test_filler_units_are_not_messages(make_store: Any) -> None:
    store = make_store(start=4096)
    store.queues["TopicA", 0] = [encode_fillers(1)] * 5
    for _ in range(3):
        store.put()
    store.write()
    assert [row.queue_offset for row in units(store)] == [5, 6, 7]
    (row,) = queue_rows(StoreDirectory(store.root))
    assert (row.min_offset, row.max_offset, row.units) == (5, 8, 3)


def test_leftover_units_of_a_truncation_are_recognised(made: Any) -> None:
    """Units past the end of the log do not count; one with a smaller offset ends the queue."""
    path = made.root / "consumequeue/TopicB/1" / file_name(0)
    count = len(made.queues["TopicB", 1])
    data = bytearray(path.read_bytes())
    data[count * 20 : count * 20 + 20] = encode_unit(made.end + 5000, 100)
    path.write_bytes(data)
    (row,) = (r for r in queue_rows(StoreDirectory(made.root), "TopicB") if r.queue_id == 1)
    assert row.max_offset == count
    data[count * 20 : count * 20 + 20] = encode_unit(made.places[0][0], 100)
    path.write_bytes(data)
    *good, last = units(made, topic="TopicB", queue_id=1)
    assert len(good) == count
    assert isinstance(last, DamageRow)
    assert (last.kind, last.severity, last.physical_offset) == ("order", "warning", count * 20)


def test_damaged_units_are_reported_and_passed(made: Any) -> None:
    path = made.root / "consumequeue/TopicA/0" / file_name(0)
    data = bytearray(path.read_bytes())
    data[40] ^= 0x80
    path.write_bytes(data)
    found = units(made, topic="TopicA", queue_id=0)
    bad = [row for row in found if isinstance(row, DamageRow)]
    assert [(d.kind, d.path, d.physical_offset, d.length) for d in bad] == [
        ("unit", str(path), 40, 20)
    ]
    good = [row.queue_offset for row in found if isinstance(row, QueueUnitRow)]
    assert good == [n for n in range(len(made.queues["TopicA", 0])) if n != 2]


def test_a_queue_file_of_odd_length_is_reported(made: Any) -> None:
    path = made.root / "consumequeue/TopicA/0" / file_name(0)
    path.write_bytes(path.read_bytes() + b"odd")
    kinds = [row.kind for row in units(made, topic="TopicA") if isinstance(row, DamageRow)]
    assert kinds == []  # units after the last written one are not read
    path.write_bytes(path.read_bytes()[:45])
    bad = [row for row in units(made, topic="TopicA") if isinstance(row, DamageRow)]
    assert [(d.kind, d.physical_offset, d.length) for d in bad] == [("truncated", 40, 5)]


def test_an_empty_queue_begins_and_ends_at_its_end(make_store: Any) -> None:
    store = make_store()
    store.put()
    store.write()
    folder = store.root / "consumequeue" / "TopicC" / "0"
    folder.mkdir(parents=True)
    (row,) = queue_rows(StoreDirectory(store.root), "TopicC")
    assert (row.min_offset, row.max_offset, row.units) == (0, 0, 0)
    (folder / file_name(0)).write_bytes(bytes(600))
    (row,) = queue_rows(StoreDirectory(store.root), "TopicC")
    assert (row.min_offset, row.max_offset, row.first_physical_offset) == (0, 0, None)


def test_batch_queues_count_messages(make_store: Any) -> None:
    store = make_store()
    body = encode_batch([Message("B", b"1"), Message("B", b"2"), Message("B", b"3")])
    batches = []
    for number in range(2):
        offset = store.put("B", body=body, sys_flag=0xC0, queue_offset=number * 3)
        size = store.places[-1][1]
        batches.append(BatchConsumeQueueUnit(offset, size, 0, NOW, number * 3, 3))
    store.write(queues=False)
    folder = store.root / "batchconsumequeue" / "B" / "0"
    folder.mkdir(parents=True)
    text = b"".join(map(encode_batch_unit, batches)).ljust(230, b"\0")
    (folder / file_name(0)).write_bytes(text)
    assert [(row.queue_offset, row.batch_size) for row in units(store)] == [(0, 3), (3, 3)]
    assert [row.queue_offset for row in units(store, from_offset=4, to_offset=5)] == [3]
    (row,) = queue_rows(StoreDirectory(store.root))
    assert (row.kind, row.min_offset, row.max_offset, row.units) == ("batch", 0, 6, 2)
    copy = store.root / "copy.bin"
    copy.write_bytes(text)
    assert [r.batch_size for r in unit_rows(StoreDirectory(copy))] == [3, 3]


def test_without_a_log_all_units_count(made: Any, tmp_path: Any) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (made.root / "consumequeue").rename(folder / "consumequeue")
    assert sum(row.units for row in queue_rows(StoreDirectory(folder))) == 40
