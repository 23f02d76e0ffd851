"""A message is followed through the store: log, queue, index, copies, op records."""

from pathlib import Path

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.queries.growth import growth
from mqadmin.inspector.queries.timeline import Search, find_places
from mqadmin.inspector.query import Query


def places(root: Path, **search: object) -> list[tuple[str, str, str]]:
    found = find_places(StoreDirectory(root), Search(**search))  # type: ignore[arg-type]
    return [(row.place, row.role, row.topic) for row in found.places]


def test_a_plain_message_is_in_log_queue_and_index(golden_store) -> None:
    root = golden_store("normal-stop-533") / "store"
    rows = places(root, key="o-1")
    assert rows == [
        ("log", "message", "OrdersA"),
        ("queue", "message", "OrdersA"),
        ("index", "message", "OrdersA"),
        ("index", "message", "OrdersA"),
    ]


def test_a_dead_letter_is_followed_back_to_its_first_delivery(golden_store, golden_expect) -> None:
    root = golden_store("retry-dlq-533") / "store"
    dead = next(
        m for m in golden_expect("retry-dlq-533")["messages"] if m["topic"].startswith("%DLQ%")
    )
    found = find_places(StoreDirectory(root), Search(id=dead["msgId"]))
    logs = [row for row in found.places if row.place == "log"]
    roles = [row.role for row in logs]
    assert roles[0] == "message"
    assert "deadLetter" in roles
    assert {"delayed", "retry"} <= set(roles)
    assert [row.store_timestamp for row in logs] == sorted(row.store_timestamp for row in logs)
    assert {row.uniq_key for row in found.places} == {dead["msgId"]}
    copies = [m for m in golden_expect("retry-dlq-533")["messages"] if m["msgId"] == dead["msgId"]]
    assert len(found.messages) == len(copies) == len(logs)


def test_a_committed_transaction_has_half_op_and_commit(golden_store) -> None:
    root = golden_store("transaction-498") / "store"
    roles = set()
    for row in message_rows(StoreDirectory(root), Query(topic="RMQ_SYS_TRANS_HALF_TOPIC")):
        if getattr(row, "uniq_key", None):
            found = places(root, id=row.uniq_key)  # type: ignore[union-attr]
            roles.add(tuple(sorted({role for _, role, _ in found})))
    assert ("committed", "half", "op") in roles
    assert roles == {
        ("committed", "half", "op"),
        ("half", "op"),  # rolled back
        ("half",),  # open
    }


def test_an_op_record_is_in_the_log_and_in_its_queue(golden_store) -> None:
    root = golden_store("transaction-533") / "store"
    found = find_places(StoreDirectory(root), Search(query=Query(begin_ms=0)))
    ops = {(row.place, row.physical_offset) for row in found.places if row.role == "op"}
    logs = {at for place, at in ops if place == "log"}
    assert logs
    assert {at for place, at in ops if place == "queue"} == logs
    rows = [(row.place, row.detail, row.physical_offset) for row in found.places]
    twice = [row for row in rows if row[0] == "log" and rows.count(row) > 1]
    assert not twice
    # A record that closes several half messages belongs to each of them.
    halves = [row for row in found.messages if row.topic == "RMQ_SYS_TRANS_HALF_TOPIC"]
    closed = [row for row in halves if any(place.role == "op" for place in row.places)]
    assert len(closed) > len(logs)


def test_a_batch_is_in_its_queue_with_all_its_messages(golden_store) -> None:
    root = golden_store("batch-cq-533") / "store"
    store = StoreDirectory(root)
    batches = {
        (queue.topic, queue.queue_id) for queue in store.queue_files() if queue.kind == "batch"
    }
    assert batches
    found = find_places(store, Search(query=Query(begin_ms=0)))
    units = {
        row.physical_offset: row.detail
        for row in found.places
        if row.place == "queue" and (row.topic, row.queue_id) in batches
    }
    logs = {
        row.physical_offset
        for row in found.places
        if row.place == "log" and (row.topic, row.queue_id) in batches
    }
    assert set(units) == logs
    inner = [row.physical_offset for row in found.messages if row.physical_offset in units]
    for at, detail in units.items():
        assert detail.startswith(f"{inner.count(at)} messages")


def test_every_way_to_a_message_gives_the_same_places(golden_store) -> None:
    root = golden_store("normal-stop-533") / "store"
    (row,) = find_places(StoreDirectory(root), Search(key="o-1")).messages
    expected = places(root, key="o-1")
    assert places(root, id=row.uniq_key) == expected
    assert places(root, id=row.offset_msg_id) == expected
    assert places(root, offset=row.physical_offset) == expected
    at = row.store_timestamp
    assert places(root, query=Query(begin_ms=at, end_ms=at + 1)) == expected
    assert places(root, key="o-1", scan="always") == expected
    (shown,) = find_places(
        StoreDirectory(root), Search(key="o-1", query=Query(body="text"))
    ).messages
    assert shown.body
    assert expected == places(root, text=shown.body[20:90])


def test_text_is_found_in_compressed_bodies(golden_store) -> None:
    root = golden_store("normal-stop-533") / "store"
    store = StoreDirectory(root)
    packed = next(
        row
        for row in message_rows(store, Query(topic="ZipA", body="text"))
        if getattr(row, "sys_flag", 0) & 1 and row.body_encoding == "utf-8"  # type: ignore[union-attr]
    )
    found = find_places(store, Search(text=packed.body[:40]))  # type: ignore[union-attr]
    assert packed.physical_offset in {row.physical_offset for row in found.messages}


def test_a_unit_that_refers_to_another_record_is_reported(golden_store) -> None:
    root = golden_store("normal-stop-533", copy=True) / "store"
    path = root / "consumequeue" / "OrdersA" / "1" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[7] ^= 0xFF
    path.write_bytes(data)
    found = find_places(StoreDirectory(root), Search(key="o-1"))
    assert any("instead" in row.detail for row in found.places if row.place == "queue")


def test_more_matches_than_requested_are_reported(golden_store) -> None:
    root = golden_store("normal-stop-533") / "store"
    found = find_places(StoreDirectory(root), Search(query=Query(topic="OrdersA"), most=3))
    assert len(found.messages) == 3
    assert found.more


def test_growth_counts_messages_stored_in_the_window(golden_store) -> None:
    root = golden_store("normal-stop-533") / "store"
    rows = [row for row in message_rows(StoreDirectory(root)) if hasattr(row, "store_timestamp")]
    first, last = rows[0].store_timestamp, rows[-1].store_timestamp
    found = growth(StoreDirectory(root), first, last + 1)
    assert found.messages == len(rows)
    assert found.bytes == sum(row.store_size for row in rows)
    assert found.bytes_per_hour > 0
    assert abs(sum(topic.share for topic in found.topics) - 1) < 0.01
    assert found.topics[0].bytes == max(topic.bytes for topic in found.topics)
    assert found.disk_bytes > found.disk_used_bytes > 0
    late = growth(StoreDirectory(root), last + 1, last + 2)
    assert (late.messages, late.bytes) == (0, 0)
    assert late.hours_to_90 in (None, 0.0)
