"""The sources of queues, index and offsets: what the inspector says, as tables."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from broker.errors import StoreError
from broker.store.format.config import split_topic_group
from mqadmin.inspector.directory import Query, StoreDirectory
from mqadmin.pipeline.tables import read_offsets, snapshot_time_ms


def test_units_are_those_of_the_inspector(spark: Any, store_roots: dict[str, Path]) -> None:
    expected = Counter()
    for root in store_roots.values():
        for unit in StoreDirectory(root).queue_units(Query()):
            if not hasattr(unit, "suggestion"):
                expected[
                    (
                        *(str(root), unit.topic, unit.queue_id, unit.queue_offset),
                        *(unit.physical_offset, unit.store_size, unit.tags_code, unit.batch_size),
                    )
                ] += 1
    reader = spark.read.format("rocketmq-queue")
    rows = reader.load([str(root) for root in store_roots.values()]).collect()
    found = Counter(
        (
            *(row.store, row.topic, row.queue_id, row.queue_offset),
            *(row.physical_offset, row["size"], row.tags_code, row.batch_size),
        )
        for row in rows
    )
    assert found == expected
    assert {row.kind for row in rows} == {"classic", "batch"}
    one = reader.option("topic", "OrdersA").option("columns", "queue_id,queue_offset")
    frame = one.load(str(store_roots["normal-stop-533"]))
    assert frame.columns == ["queue_id", "queue_offset"]
    topic = str(store_roots["normal-stop-533"])
    assert frame.count() == sum(
        count for key, count in expected.items() if key[:2] == (topic, "OrdersA")
    )


def test_index_entries_and_files(spark: Any, store_roots: dict[str, Path]) -> None:
    root = store_roots["normal-stop-533"]
    rows = list(StoreDirectory(root).index_entries(Query()))
    entries = [row for row in rows if row.record == "entry"]
    files = [row for row in rows if row.record == "file"]
    reader = spark.read.format("rocketmq-index")
    found = reader.load(str(root)).collect()
    assert [
        (row.entry, row.slot, row.key_hash, row.physical_offset, row.previous_entry)
        for row in sorted(found, key=lambda row: (row.file, row.entry))
    ] == [
        (row.entry, row.slot, row.key_hash, row.physical_offset, row.previous_entry)
        for row in entries
    ]
    shown = reader.option("files", "true").load(str(root)).orderBy("file").collect()
    assert len(shown) == len(files) > 1
    for row, file in zip(shown, files, strict=True):
        slots = Counter(entry.slot for entry in entries if entry.path == file.path)
        assert row.file == file.path
        assert row.begin_physical_offset == file.begin_physical_offset
        assert row.end_time.timestamp() * 1000 == pytest.approx(file.end_timestamp)
        assert (row.entries, row.slots_used) == (slots.total(), len(slots))
        assert row.longest_chain == max(slots.values())


def test_consumer_offsets_of_stores_and_of_snapshots(
    spark: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    root = store_roots["retry-dlq-533"]
    source = root / "config" / "consumerOffset.json"
    data = json.loads(source.read_text().replace("0:", '"0":').replace("1:", '"1":'))
    expected = {
        (*split_topic_group(key), int(queue), offset)
        for key, queues in data["offsetTable"].items()
        for queue, offset in queues.items()
    }
    copy = tmp_path / "consumerOffset-20260102T030405Z.json"
    copy.write_bytes(source.read_bytes())
    rows = spark.read.format("rocketmq-offsets").load([str(root), str(copy)]).collect()
    for store in ("", str(root)):
        assert {
            (row.topic, row.group, row.queue_id, row.consumer_offset)
            for row in rows
            if row.store == store
        } == expected
    times = {row.file: row.snapshot_time for row in rows}
    assert times[str(copy)].isoformat().startswith("2026-01-02T03:04:05")


def test_the_time_of_a_snapshot_is_in_its_name_or_that_of_the_file(tmp_path: Path) -> None:
    for name, ms in (
        ("consumerOffset.json.1700000000", 1_700_000_000_000),
        ("1700000000123.json", 1_700_000_000_123),
        ("offsets-2026-01-02.json", 1_767_312_000_000),
        ("offsets-2026-01-02_03:04.json", 1_767_323_040_000),
        ("20260102T030405.json", 1_767_323_045_000),
    ):
        assert snapshot_time_ms(tmp_path / name) == ms, name
    plain = tmp_path / "consumerOffset.json"
    plain.touch()
    os.utime(plain, (1000, 2000))
    assert snapshot_time_ms(plain) == 2_000_000


def test_a_broken_file_of_offsets_is_read_from_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text('{"offsetTable":{"t@g":{0:')
    with pytest.raises(StoreError, match="consumerOffset"):
        read_offsets(path)
    path.with_name(path.name + ".bak").write_text('{"offsetTable":{"t@g":{0:5}}}')
    file, offsets = read_offsets(path)
    assert file.name == "consumerOffset.json.bak"
    assert offsets == {("t", "g"): {0: 5}}


def test_stores_without_offsets_are_passed_where_others_have_some(
    spark: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "commitlog").mkdir()
    root = store_roots["retry-dlq-533"]
    read = spark.read.format("rocketmq-offsets")
    with_some = read.load([str(tmp_path), str(root)])
    assert {row.store for row in with_some.collect()} == {str(root)}
    with pytest.raises(Exception, match=f"{tmp_path} holds no consumerOffset.json"):
        read.load(str(tmp_path)).collect()
    assert read.option("optional", "true").load(str(tmp_path)).collect() == []
