"""Execution of one job: from a request to rows, files and a manifest.

::

    from mqadmin.pipeline.run import Request, run

    result = run(Request(job="traffic", stores=["/data/store"]))
    result.rows

Rows have the column names of the command line (camelCase, times as ``…Timestamp`` in epoch ms).
"""

import base64
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from pyspark.sql import DataFrame, SparkSession

from broker.common.times import format_time
from broker.errors import ConfigError
from mqadmin.pipeline.catalog import find_job
from mqadmin.pipeline.expressions import positive_number, switch
from mqadmin.pipeline.failure import cause_of
from mqadmin.pipeline.inputs import DamageSummary, Inputs
from mqadmin.pipeline.job import Job, Table, camel
from mqadmin.pipeline.jobs import audit, diff, dlq, export, keys, lag, latency, retries, traffic
from mqadmin.pipeline.sinks.atomic_file import write_atomically
from mqadmin.pipeline.sinks.output import Output, store_extents
from mqadmin.pipeline.sinks.output_lock import output_lock
from mqadmin.pipeline.sources.options import expand_paths
from mqadmin.pipeline.sources.partitions.splits import log_files
from mqadmin.pipeline.spark.progress import (
    Notify,
    Progress,
    await_stream,
    ignore_progress,
    run_with_progress,
)
from mqadmin.pipeline.spark.session import SparkSettings, spark_session

if TYPE_CHECKING:
    from mqadmin.pipeline.export import Export
    from mqadmin.pipeline.sinks.parquet import SplitRecord

MAX_ROWS: Final = 10_000  # rows collected in this process and printed
SCHEMA: Final = "mqadmin.pipeline.manifest/1"
PARQUET: Final = "parquet"
REPLAY_FILE: Final = "replay.ndjson"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

T = TypeVar("T")

JOB_FUNCTIONS: Final[dict[str, Callable[[Inputs], dict[str, DataFrame]]]] = {
    "traffic": traffic.run,
    "export": export.run,
    "dlq": dlq.run,
    "retries": retries.run,
    "lag-history": lag.run,
    "audit": audit.run,
    "latency": latency.run,
    "diff": diff.run,
    "keys": keys.run,
}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A job to run.

    ``stores`` may contain globs; ``topic`` is a comma-separated list; ``since_ms`` and
    ``until_ms`` (exclusive) bound the store time. With ``out`` "" no files are written and at most
    ``limit`` rows of ``table`` ("" is the first one) are returned. ``format`` is any format that
    Spark can write. ``stream`` and ``available_now`` apply to the job export only.
    """

    job: str
    stores: list[str]
    table: str = ""
    limit: int = MAX_ROWS
    out: str = ""
    format: str = PARQUET
    topic: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    parameters: dict[str, str] = {}
    stream: bool = False
    available_now: bool = False
    settings: SparkSettings = SparkSettings()

    def limits(self) -> dict[str, str]:
        """Return the source options that narrow every read."""
        given = {"topic": self.topic, "since": self.since_ms, "until": self.until_ms}
        return {name: str(value) for name, value in given.items() if value not in (None, "")}


class Result(msgspec.Struct, kw_only=True):
    """The result of a run: a table with its rows, skipped damaged regions, the manifest.

    ``found`` counts the differences of the job diff, or the findings of the job audit other than
    notices. ``written``: the tables were written to files, and ``rows`` are
    :class:`~mqadmin.pipeline.job.WrittenTable` fields.
    """

    table: Table
    rows: list[dict[str, Any]]
    truncated: bool = False
    damages: DamageSummary = DamageSummary()
    manifest: dict[str, Any] | None = None
    written: bool = False
    found: int = 0


def run(request: Request, notify: Notify = ignore_progress) -> Result:
    """Run a job to its end.

    ConfigError for an invalid request or without Spark or Java, StoreError for a path that cannot
    be read, StoreLockedError while another run writes to ``out``, DiskFullError for a full disk,
    RemotingError if Spark fails.
    """
    job = find_job(request.job)
    job.settings(request.parameters)
    job.table(request.table)
    _check(request, job)
    for path in expand_paths(request.stores, job.name):
        log_files(path)  # report a missing path before the JVM is started
    notify(Progress(subject="starting Spark"))
    try:
        with output_lock(request.out), spark_session(request.settings) as spark:
            return _Run(request, job, spark, notify).run()
    except Exception as error:
        cause = cause_of(error, job.name)
        if cause is error:
            raise
        raise cause from None


def _check(request: Request, job: Job) -> None:
    if not request.stores:
        raise ConfigError(f"job {job.name}: no store", "--store DIR")
    if job.name == "export" and not request.out:
        raise ConfigError("job export: no output directory", "--out DIR")
    if request.stream and (job.name != "export" or request.format != PARQUET):
        raise ConfigError("--stream applies only to the job export with the format parquet")


class _Run:
    def __init__(self, request: Request, job: Job, spark: SparkSession, notify: Notify) -> None:
        self.request = request
        self.job = job
        self.spark = spark
        self.notify = notify
        self.started_ms = int(time.time() * 1000)
        self.parameters = job.settings(request.parameters)
        self.inputs = Inputs(
            spark, request.stores, limits=request.limits(), parameters=self.parameters
        )

    def run(self) -> Result:
        """Run the job: export to Parquet, write its tables, or return the rows of one table."""
        if self.job.name == "export" and self.request.format == PARQUET:
            return self._export()
        frames = JOB_FUNCTIONS[self.job.name](self.inputs)
        if self.request.out:
            return self._write_tables(frames)
        table = self.job.table(self.request.table)
        rows = self._with_progress(table.name, lambda: self._collect(table, frames[table.name]))
        limit = self.request.limit
        return Result(
            table=table,
            rows=rows[:limit],
            truncated=len(rows) > limit,
            damages=self.inputs.damage_summary(),
            found=self._count_found(rows),
        )

    def _count_found(self, rows: list[dict[str, Any]]) -> int:
        """Count the differences or findings in the rows of any table of diff or audit."""
        if self.job.name == "diff":
            columns = ("onlyHere", "onlyThere", "different")
            return sum(
                "difference" in row or any(row[column] for column in columns) for row in rows
            )
        if self.job.name == "audit":
            return sum(
                row.get("severity") in ("error", "warning")
                or bool(row.get("errors"))
                or bool(row.get("warnings"))
                for row in rows
            )
        return 0

    def _with_progress(self, subject: str, work: Callable[[], T]) -> T:
        return run_with_progress(self.spark, subject, work, self.notify)

    def _collect(self, table: Table, frame: DataFrame) -> list[dict[str, Any]]:
        found = frame.limit(self.request.limit + 1).collect()
        return [plain_row(table, row) for row in found]

    # ---- tables written by Spark

    def _about(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "job": self.job.name,
            "parameters": {k: v for k, v in self.parameters.items() if v},
            "limits": self.request.limits(),
        }

    def _times(self) -> dict[str, Any]:
        return {
            "sparkVersion": self.spark.version,
            "startedTime": format_time(self.started_ms),
            "finishedTime": format_time(int(time.time() * 1000)),
        }

    def _write_tables(self, frames: dict[str, DataFrame]) -> Result:
        out = Path(self.request.out)
        about = {**self._about(), "stores": store_extents(self.inputs.stores)}
        output = Output(out, self.request.format, about)
        counts = {
            name: self._write_table(output, name, frame)
            for name, frame in frames.items()
            if self.request.table in ("", name)
        }
        damage = self.inputs.damage_summary()
        if self.job.name == "dlq" and "replay" in counts:
            self._write_replay_file(frames["replay"], out)
        manifest = output.finish(counts, {**self._times(), "damages": damage.count})
        rows = [
            {"table": name, "rows": one["rows"], "format": one["format"], "path": str(out / name)}
            for name, one in manifest["tables"].items()
        ]
        return Result(
            table=self.job.table(self.request.table),
            rows=rows,
            damages=damage,
            manifest=manifest,
            written=True,
            found=self._count_found_in_files(counts, out),
        )

    def _write_table(self, output: Output, name: str, frame: DataFrame) -> int:
        partitions = ("dt", "topic") if self.job.name == "export" else ()
        self._with_progress(name, lambda: output.write(name, frame, partitions))
        return self._with_progress(name, lambda: output.count(self.spark, name))

    def _count_found_in_files(self, counts: dict[str, int], out: Path) -> int:
        """Count the differences or findings in the written tables."""
        if self.job.name == "diff":
            return counts.get("differences", 0)
        if self.job.name == "audit" and counts.get("findings"):
            reader = self.spark.read.format(self.request.format).option("header", "true")
            return int(reader.load(str(out / "findings")).where("severity <> 'notice'").count())
        return 0

    def _write_replay_file(self, frame: DataFrame, out: Path) -> None:
        """Write the table replay as the file that ``mqadmin dlq replay --from`` reads."""
        table = self.job.table("replay")

        def text() -> bytes:
            rows = (plain_row(table, row) for row in frame.toLocalIterator())
            return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)

        write_atomically(out / REPLAY_FILE, self._with_progress("replay", text))

    # ---- the Parquet export, written by the tasks

    def _export(self) -> Result:
        # Needs numpy and Arrow, which the session has imported while the JVM was starting.
        from mqadmin.pipeline.export import Export, ExportSource, by_partition

        self.spark.dataSource.register(ExportSource)
        exporter = Export(
            self.spark,
            Path(self.request.out),
            stores=self.inputs.stores,
            columns=export.export_columns(self.parameters),
        )
        exporter.limits = self.request.limits()
        exporter.split_bytes = positive_number(self.parameters, "splitBytes")
        exporter.max_bytes = self.parameters["maxBytesPerTrigger"]
        exporter.skip_lost_data = not switch(self.parameters, "failOnDataLoss")
        if self.request.stream:
            self._stream(exporter)
        else:
            self._with_progress("export", exporter.run)
        manifest = exporter.finish({**self._about(), **self._times()})
        records = exporter.records()
        rows = [
            {camel(name): value for name, value in row.items()} for row in by_partition(records)
        ]
        limit = self.request.limit
        return Result(
            table=self.job.tables[0],
            rows=rows[:limit],
            truncated=len(rows) > limit,
            damages=_damage_of(records),
            manifest=manifest,
        )

    def _stream(self, exporter: "Export") -> None:
        query = exporter.stream(available_now=self.request.available_now)

        def write_manifest() -> None:
            exporter.finish({**self._about(), **self._times()})

        try:
            await_stream(query, "export", self.notify, write_manifest)
        except KeyboardInterrupt:
            write_manifest()
            raise


def _damage_of(records: "list[SplitRecord]") -> DamageSummary:
    damaged = [record for record in records if record.damages]
    if not damaged:
        return DamageSummary()
    return DamageSummary(
        count=sum(record.damages for record in damaged),
        store=damaged[0].store,
        detail=damaged[0].first_damage,
    )


def plain_row(table: Table, row: Any) -> dict[str, Any]:
    """Return a Spark row under the column names of the command line."""
    return {
        camel(column.name, column.type): plain_value(column.type, value)
        for column, value in zip(table.columns, row, strict=True)
    }


def plain_value(kind: str, value: Any) -> Any:
    """Return a value as in JSON: times in epoch ms, bytes as base64, floats with 6 decimals."""
    if value is None:
        return None
    if kind == "time":
        moment = value if value.tzinfo is not None else value.astimezone(UTC)
        return (moment - _EPOCH) // _MILLISECOND
    if kind == "bytes":
        return base64.b64encode(value).decode("ascii")
    return round(value, 6) if kind == "float" else value
