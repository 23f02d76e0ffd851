"""The reader shared by the table sources: columns, types, tasks."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from broker.errors import ConfigError, StoreError
from mqadmin.pipeline.failure import MARK
from mqadmin.pipeline.sources.options import Options
from mqadmin.pipeline.sources.partitions.table import Rows, TableReader, TableTask, schema_of

TYPES = {
    "file": "string",
    "size": "bigint",
    "time": "timestamp",
    "note": "string",
    "store": "string",
}


class Numbers:
    """A format with one task; its items are numbers of rows, 0 is an error."""

    def tasks(self, paths: list[str], options: Options) -> Iterator[TableTask]:
        yield TableTask([(path, int(options["rows"])) for path in paths])

    def rows(self, store: str, item: int) -> Iterator[Rows]:
        if not item:
            raise StoreError("cannot read it", path=store)
        sizes = np.arange(item, dtype=np.int32)
        yield {"file": "f", "size": sizes, "time": 1_000_000, "note": None}, item


def reader(root: Path, rows: int, *names: str) -> TableReader:
    schema = StructType()
    for name in names:
        schema = schema.add(name, "string")
    options = {"path": str(root), "ROWS": str(rows)}
    return TableReader(schema, options, source="test", types=TYPES, table_format=Numbers())


def read(root: Path, rows: int, *names: str) -> list[dict[str, Any]]:
    source = reader(root, rows, *names)
    batches = [batch for task in source.partitions() for batch in source.read(task)]
    return pa.Table.from_batches(batches).to_pylist()


def test_batches_have_the_selected_columns_in_order_and_type(tmp_path: Path) -> None:
    rows = read(tmp_path, 2, "time", "store", "size", "note")
    time = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert [list(row) for row in rows] == [["time", "store", "size", "note"]] * 2
    assert rows[1] == {"time": time, "store": str(tmp_path), "size": 1, "note": None}


def test_the_schema_is_that_of_the_selected_columns() -> None:
    assert schema_of({"columns": "size, file"}, TYPES, "test") == "`size` bigint, `file` string"
    assert schema_of({}, {"store": "string"}, "test") == "`store` string"
    with pytest.raises(ConfigError, match="no column 'x'"):
        schema_of({"columns": "x"}, TYPES, "test")


def test_unknown_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="test: no column 'colour'"):
        reader(tmp_path, 1, "colour")


def test_the_empty_partition_of_spark_has_no_rows(tmp_path: Path) -> None:
    assert list(reader(tmp_path, 1, "file").read(InputPartition(None))) == []


def test_errors_of_a_task_are_annotated(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot read it") as raised:
        read(tmp_path, 0, "file")
    assert MARK in raised.value.__notes__[0]
