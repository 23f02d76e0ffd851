"""``rocketmq-offsets`` reads the offsets of stores and of copies of consumerOffset.json."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from broker.errors import StoreError
from broker.store.format.config import split_topic_group
from mqadmin.pipeline.sources.offsets import read_offsets, snapshot_time_ms


def test_offsets_of_stores_and_of_copies(
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


def test_the_snapshot_time_is_in_the_file_name_or_the_modification_time(tmp_path: Path) -> None:
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


def test_the_backup_of_a_damaged_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text('{"offsetTable":{"t@g":{0:')
    with pytest.raises(StoreError, match="consumerOffset"):
        read_offsets(path)
    path.with_name(path.name + ".bak").write_text('{"offsetTable":{"t@g":{0:5}}}')
    file, offsets = read_offsets(path)
    assert file.name == "consumerOffset.json.bak"
    assert offsets == {("t", "g"): {0: 5}}


def test_stores_without_offsets_are_skipped_if_another_path_has_some(
    spark: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "commitlog").mkdir()
    root = store_roots["retry-dlq-533"]
    read = spark.read.format("rocketmq-offsets")
    with_some = read.load([str(tmp_path), str(root)])
    assert {row.store for row in with_some.collect()} == {str(root)}
    with pytest.raises(
        Exception, match=f"{tmp_path} contains no consumerOffset.json and no lmqConsumerOffset"
    ):
        read.load(str(tmp_path)).collect()
    assert read.option("optional", "true").load(str(tmp_path)).collect() == []


def test_the_offsets_of_a_broker_with_lmqs_are_read(spark: Any, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (tmp_path / "commitlog").mkdir()
    (config / "lmqConsumerOffset.json").write_text(
        '{"lmqOffsetTable":{"%LMQ%t@g":4},"offsetTable":{"t@g":{0:3,1:5}}}'
    )
    rows = spark.read.format("rocketmq-offsets").load(str(tmp_path)).collect()
    assert [(row.topic, row.group, row.queue_id, row.consumer_offset) for row in rows] == [
        ("%LMQ%t", "g", 0, 4),
        ("t", "g", 0, 3),
        ("t", "g", 1, 5),
    ]


def test_both_files_of_a_store_are_snapshots(spark: Any, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (tmp_path / "commitlog").mkdir()
    for name, time, offset in (("consumerOffset", 1000, 3), ("lmqConsumerOffset", 2000, 7)):
        path = config / f"{name}.json"
        path.write_text(json.dumps({"offsetTable": {"t@g": {"0": offset}}}))
        os.utime(path, (time, time))
    rows = spark.read.format("rocketmq-offsets").load(str(tmp_path)).collect()
    found = {(row.snapshot_time.timestamp(), row.consumer_offset) for row in rows}
    assert found == {(1000, 3), (2000, 7)}
