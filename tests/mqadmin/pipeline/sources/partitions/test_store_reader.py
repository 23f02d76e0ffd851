"""Filters pushed down by Spark narrow the read, but exclude no matching row."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from broker.errors import ConfigError
from mqadmin.pipeline.sources.options import RowFilter
from mqadmin.pipeline.sources.partitions.store_reader import FilteringReader, StoreReader, narrow
from tests.support.pipeline_store import MakeLog

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME = ("store_time",)


def test_pushed_filters_exclude_no_matching_row() -> None:
    """Every bound is at least as wide as the filter; times are rounded outwards."""
    for ms in (0, 1, 1_795_180_182_680, 1_795_180_182_679, 999_999_999_999):
        time = EPOCH + timedelta(milliseconds=ms)
        found = narrow(RowFilter(), [LessThanOrEqual(TIME, time)])
        assert found.until_ms == ms + 1
        found = narrow(RowFilter(), [GreaterThan(TIME, time)])
        assert found.since_ms == ms
        later = time + timedelta(microseconds=1)
        found = narrow(RowFilter(), [LessThan(TIME, later)])
        assert found.until_ms == ms + 1
    given = RowFilter(topics=frozenset("ab"), since_ms=5, to_offset=100)
    more = [
        In(("topic",), ["b", "c"]),
        EqualTo(("physical_offset",), 7),
        GreaterThanOrEqual(TIME, EPOCH),
        EqualTo(("tags",), "x"),
    ]
    assert narrow(given, more) == RowFilter(
        topics=frozenset("b"), since_ms=5, from_offset=7, to_offset=8
    )


def test_pushed_filters_narrow_the_planned_splits(make_log: MakeLog) -> None:
    log = make_log(file_size=4096)
    while log.end < 3 * 4096:
        log.put()
    schema = StructType().add("topic", "string")
    reader = FilteringReader(schema, {"path": str(log.root)})
    assert len(reader.partitions()) == 3 + (log.end > 3 * 4096)
    pushed: list[Filter] = [LessThan(("physical_offset",), 4095)]
    assert list(reader.pushFilters([*pushed])) == pushed
    assert len(reader.partitions()) == 1


def test_unknown_columns_and_missing_paths_are_refused() -> None:
    with pytest.raises(ConfigError, match="no column 'colour'"):
        StoreReader(StructType().add("colour", "string"), {"path": "/tmp"})
    with pytest.raises(ConfigError, match="no path"):
        StoreReader(StructType().add("topic", "string"), {})
