"""``rocketmq-index`` returns the entries and headers that the inspector reads."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.index import index_rows
from mqadmin.inspector.query import Query
from mqadmin.pipeline.sources.index import chain_statistics, read_index_file


def test_entries_and_files_are_equal_to_those_of_the_inspector(
    spark: Any, store_roots: dict[str, Path]
) -> None:
    root = store_roots["normal-stop-533"]
    rows = list(index_rows(StoreDirectory(root), Query()))
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


def test_a_file_that_is_not_an_index_file_has_no_rows(tmp_path: Path) -> None:
    for name, data in (("empty", b""), ("short", bytes(39)), ("zeros", bytes(4096))):
        path = tmp_path / name
        path.write_bytes(data)
        assert read_index_file(path) is None, name


def test_chain_statistics() -> None:
    entries = np.array([[5, 0, 0, 0], [15, 0, 0, 1], [7, 0, 0, 0]])
    assert chain_statistics(entries, 10) == (2, 2)
    assert chain_statistics(entries[:0], 10) == (0, 0)
