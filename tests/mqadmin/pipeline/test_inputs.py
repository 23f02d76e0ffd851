"""Inputs of a job: damaged regions are excluded and counted, every source is readable."""

from pathlib import Path
from typing import Any

import pytest

from mqadmin.pipeline.inputs import DamageSummary, Inputs
from tests.support.pipeline_store import MakeLog


def test_reads_that_have_not_run_report_no_damaged_regions(spark: Any, make_log: MakeLog) -> None:
    log = make_log(file_size=8192)
    offsets = [log.put() for _ in range(20)]
    for offset in offsets[3:12:4]:
        log.write(offset + 4, b"\0\0\0\0")
    inputs = Inputs(spark, [str(log.root)])
    first = inputs.messages("physical_offset")
    second = inputs.messages("topic")
    assert inputs.damage_summary() == DamageSummary()
    assert [row.physical_offset for row in first.orderBy("physical_offset").collect()] == [
        offset for offset in offsets if offset not in offsets[3:12:4]
    ]
    for _ in range(2):  # several reads of the same store see the same regions
        summary = inputs.damage_summary()
        assert (summary.count, summary.physical_offset) == (3, offsets[3])
        assert summary.store == str(log.root)
        second.count()


def test_limits_narrow_every_read_except_the_topic_on_request(
    spark: Any, make_log: MakeLog
) -> None:
    log = make_log()
    for topic in ("a", "b", "c", "a"):
        log.put(topic)
    inputs = Inputs(spark, [str(log.root)], limits={"topic": "a, b", "offset.from": "1"})
    assert inputs.topics == ["a", "b"]
    assert [row.topic for row in inputs.messages("topic").collect()] == ["b", "a"]
    every = inputs.messages("topic", every_topic=True)
    assert [row.topic for row in every.collect()] == ["b", "c", "a"]


@pytest.mark.parametrize("rows", ["findings", "stores"])
def test_stores_are_verified(spark: Any, store_roots: dict[str, Path], rows: str) -> None:
    inputs = Inputs(spark, [str(store_roots["normal-stop-533"])])
    columns = inputs.verification(rows=rows).columns
    assert ("suggestion" in columns, "coverage" in columns) == (
        rows == "findings",
        rows == "stores",
    )
