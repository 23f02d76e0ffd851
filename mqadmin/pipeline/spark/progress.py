"""Progress and cancellation of running Spark actions."""

import uuid
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

POLL_S: Final = 0.3
CANCEL_LIMIT_S: Final = 15.0

T = TypeVar("T")


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an action: its description, completed and known tasks of its stages."""

    subject: str
    done: int = 0
    total: int = 0


Notify = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """Discard progress."""


def run_with_progress(
    spark: SparkSession, subject: str, work: Callable[[], T], notify: Notify
) -> T:
    """Run ``work`` (actions of the session) and report progress; return its result.

    An error of ``work`` is raised. A KeyboardInterrupt cancels the jobs and is raised again.
    """
    context = spark.sparkContext
    group = f"mqadmin-{uuid.uuid4().hex}"
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            context.setJobGroup(group, subject, interruptOnCancel=True)
            outcome["value"] = work()
        except BaseException as error:
            outcome["error"] = error

    thread = InheritableThread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_S)
            notify(task_progress(context, group, subject))
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        thread.join(CANCEL_LIMIT_S)
        raise
    if "error" in outcome:
        raise outcome["error"]
    value: T = outcome["value"]
    return value


def task_progress(context: SparkContext, group: str, subject: str) -> Progress:
    """Return the completed and known tasks of a job group."""
    tracker = context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage_id in () if info is None else info.stageIds:
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                done += stage.numCompletedTasks
                total += stage.numTasks
    return Progress(subject=subject, done=done, total=total)


def await_stream(
    query: StreamingQuery, subject: str, notify: Notify, after_batch: Callable[[], None]
) -> None:
    """Wait for a streaming query to end, and report progress after each batch.

    An error of the query is raised. A KeyboardInterrupt stops the query and is raised again.
    """
    batch = -1
    try:
        while not query.awaitTermination(1):
            last = query.lastProgress
            if last is not None and last.batchId != batch:
                batch = last.batchId
                after_batch()
                notify(Progress(subject=f"{subject}: batch {batch}", done=batch + 1))
    except KeyboardInterrupt:
        query.stop()
        raise
    error = query.exception()
    if error is not None:
        raise error
