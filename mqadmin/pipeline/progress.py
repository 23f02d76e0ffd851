"""Watching an action while it runs: tasks done, and the way to stop it."""

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S: Final = 0.3
CANCEL_LIMIT_S: Final = 15.0

T = TypeVar("T")


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an action is: tasks of the stages that have begun, ``what`` is in words."""

    what: str
    done: int = 0
    total: int = 0


Notify = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Tell nobody."""


def watched(spark: "SparkSession", what: str, work: Callable[[], T], notify: Notify) -> T:
    """Run ``work`` (actions of a session) and tell how far it is; its result, or its error.

    A KeyboardInterrupt cancels its jobs before it goes on.
    """
    from pyspark import InheritableThread

    context = spark.sparkContext
    group = f"mqadmin-{uuid.uuid4().hex}"
    found: dict[str, Any] = {}

    def run() -> None:
        try:
            context.setJobGroup(group, what, interruptOnCancel=True)
            found["value"] = work()
        except BaseException as error:
            found["error"] = error

    thread = InheritableThread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_S)
            notify(tasks(context, group, what))
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        thread.join(CANCEL_LIMIT_S)
        raise
    if "error" in found:
        raise found["error"]
    value: T = found["value"]
    return value


def tasks(context: Any, group: str, what: str) -> Progress:
    """Tasks done and begun of a job group."""
    tracker = context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None else info.stageIds:
            one = tracker.getStageInfo(stage)
            if one is not None:
                done += one.numCompletedTasks
                total += one.numTasks
    return Progress(what=what, done=done, total=total)


def streamed(query: "StreamingQuery", what: str, notify: Notify, each: Callable[[], None]) -> None:
    """Wait for a query to end and tell how far it is; ``each`` is called after every batch.

    A KeyboardInterrupt stops the query before it goes on.
    """
    batch = -1
    try:
        while not query.awaitTermination(1):
            last = query.lastProgress
            if last is not None and last.batchId != batch:
                batch = last.batchId
                each()
                notify(Progress(what=f"{what}: batch {batch}", done=batch + 1))
    except KeyboardInterrupt:
        query.stop()
        raise
    error = query.exception()
    if error is not None:
        raise error
