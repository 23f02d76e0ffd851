"""Progress of actions and streams is reported; an interrupt cancels them."""

from types import SimpleNamespace
from typing import Any

import pytest

from mqadmin.pipeline.spark import progress
from mqadmin.pipeline.spark.progress import (
    Progress,
    await_stream,
    ignore_progress,
    run_with_progress,
    task_progress,
)


class Tracker:
    """Two jobs: one with two stages, one that has ended; one stage has ended."""

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return [1, 2] if group == "g" else []

    def getJobInfo(self, job: int) -> Any:
        return SimpleNamespace(stageIds=[10, 11, 12]) if job == 1 else None

    def getStageInfo(self, stage: int) -> Any:
        stages = {10: (4, 4), 11: (1, 8)}
        if stage not in stages:
            return None
        done, total = stages[stage]
        return SimpleNamespace(numCompletedTasks=done, numTasks=total)


def test_the_tasks_of_all_stages_of_a_group_are_added() -> None:
    context: Any = SimpleNamespace(statusTracker=Tracker)
    assert task_progress(context, "g", "traffic") == Progress(subject="traffic", done=5, total=12)
    assert task_progress(context, "other", "x") == Progress(subject="x")


class Query:
    """A streaming query with progress reports; it ends after the last one."""

    def __init__(self, *batches: int | None, error: Exception | None = None) -> None:
        self.batches = list(batches)
        self.error = error
        self.stopped = False
        self.lastProgress: Any = None

    def awaitTermination(self, seconds: int) -> bool:
        if not self.batches:
            return True
        batch = self.batches.pop(0)
        self.lastProgress = None if batch is None else SimpleNamespace(batchId=batch)
        return False

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.stopped = True


def test_each_batch_of_a_stream_is_reported_once() -> None:
    reports: list[str] = []
    after: list[int] = []
    query: Any = Query(None, 0, 0, 1, 3)
    await_stream(query, "export", lambda p: reports.append(p.subject), lambda: after.append(1))
    assert reports == ["export: batch 0", "export: batch 1", "export: batch 3"]
    assert len(after) == 3


def test_the_error_of_a_stream_is_raised() -> None:
    query: Any = Query(0, error=ValueError("x"))
    with pytest.raises(ValueError, match="x"):
        await_stream(query, "export", ignore_progress, lambda: None)


def test_an_interrupt_stops_the_stream() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    query: Any = Query(0)
    with pytest.raises(KeyboardInterrupt):
        await_stream(query, "export", ignore_progress, interrupted)
    assert query.stopped


def test_an_action_returns_its_result_or_raises_its_error(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "POLL_S", 0.01)
    reports: list[Progress] = []
    assert run_with_progress(spark, "count", spark.range(10).count, reports.append) == 10
    assert {report.subject for report in reports} == {"count"}

    def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        run_with_progress(spark, "fail", fail, ignore_progress)


def test_an_interrupt_cancels_the_jobs_of_an_action(spark: Any) -> None:
    def interrupted(_: Progress) -> None:
        raise KeyboardInterrupt

    endless = spark.range(1 << 40).selectExpr("sum(hash(id))")
    with pytest.raises(KeyboardInterrupt):
        run_with_progress(spark, "endless", endless.collect, interrupted)
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
