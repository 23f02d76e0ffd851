"""Running a job: from names and options to rows, files and a manifest.

::

    from mqadmin.pipeline.run import Request, run

    result = run(Request(job="traffic", stores=["/data/store"]))
    result.rows

Names of columns are those of the command line here (camelCase, times as ``…Timestamp`` in ms).
"""

import base64
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from broker.common.times import format_time
from broker.errors import ConfigError
from mqadmin.pipeline.catalog import find_job
from mqadmin.pipeline.expressions import switch, whole_number
from mqadmin.pipeline.failure import cause_of
from mqadmin.pipeline.inputs import Damages, Inputs
from mqadmin.pipeline.job import Job, Table, camel
from mqadmin.pipeline.lock import held
from mqadmin.pipeline.options import expanded
from mqadmin.pipeline.progress import Notify, Progress, silent, streamed, watched
from mqadmin.pipeline.session import SparkSettings, spark_session
from mqadmin.pipeline.splits import log_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mqadmin.pipeline.export import Export

ROW_LIMIT: Final = 10_000  # rows that are brought to this process and printed
SCHEMA: Final = "mqadmin.pipeline.manifest/1"
PARQUET: Final = "parquet"
REPLAY: Final = "replay.ndjson"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run.

    ``stores`` may hold globs; ``topic`` is a comma list; ``since_ms`` and ``until_ms`` bound the
    store time. ``out`` "" means: no files, the rows of ``table`` ("" the first) are brought here,
    at most ``limit``. ``format`` is one that Spark writes. ``stream`` is for the export only.
    """

    job: str
    stores: list[str]
    table: str = ""
    limit: int = ROW_LIMIT
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
        """Options of the source that narrow every read."""
        given = {"topic": self.topic, "since": self.since_ms, "until": self.until_ms}
        return {name: str(value) for name, value in given.items() if value not in (None, "")}


class Result(msgspec.Struct, kw_only=True):
    """What came of it: a table with its rows, the damages passed, the manifest if there is one.

    ``found`` counts what makes the answer a no: differences of the job diff, findings (notices
    apart) of the job audit. ``written`` says that the rows are :class:`WrittenTable` fields.
    """

    table: Table
    rows: list[dict[str, Any]]
    truncated: bool = False
    damages: Damages = Damages()
    manifest: dict[str, Any] | None = None
    written: bool = False
    found: int = 0


def run(request: Request, notify: Notify = silent) -> Result:
    """Run a job to its end.

    ConfigError for a request that cannot be carried out (also without Spark or a Java),
    StoreError for a path that cannot be read, StoreLockedError while another run writes to
    ``out``, DiskFullError if it does not fit, RemotingError when Spark fails.
    """
    job = find_job(request.job)
    job.settings(request.parameters)
    job.table(request.table)
    _check(request, job)
    stores = expanded(request.stores, job.name)
    for path in stores:
        log_files(path)  # a path that is not there is told before a machine is started
    notify(Progress(what="starting Spark"))
    try:
        with held(request.out), spark_session(request.settings) as spark:
            return _Run(request, job, spark, notify).run()
    except Exception as error:
        cause = cause_of(error, job.name)
        if cause is error:
            raise
        raise cause from None


def _check(request: Request, job: Job) -> None:
    if not request.stores:
        raise ConfigError(f"job {job.name}: no store", "--store DIR names one")
    if job.name == "export" and not request.out:
        raise ConfigError("job export: no place to write to", "--out DIR names one")
    if request.stream and (job.name != "export" or request.format != PARQUET):
        raise ConfigError("--stream is for the job export and its format parquet only")


class _Run:
    def __init__(self, request: Request, job: Job, spark: "SparkSession", notify: Notify) -> None:
        self.request = request
        self.job = job
        self.spark = spark
        self.notify = notify
        self.began = time.time()
        self.parameters = job.settings(request.parameters)
        self.inputs = Inputs(
            spark, request.stores, limits=request.limits(), parameters=self.parameters
        )

    def run(self) -> Result:
        """Do it."""
        if self.job.name == "export" and self.request.format == PARQUET:
            return self._export()
        module, _, name = self.job.entry.partition(":")
        frames: dict[str, DataFrame] = getattr(import_module(module), name)(self.inputs)
        if self.request.out:
            return self._written(frames)
        table = self.job.table(self.request.table)
        rows = self._watched(table.name, lambda: self._rows(table, frames[table.name]))
        limit = self.request.limit
        return Result(
            table=table,
            rows=rows[:limit],
            truncated=len(rows) > limit,
            damages=self.inputs.damages(),
            found=self._found(rows),
        )

    def _found(self, rows: list[dict[str, Any]]) -> int:
        """Differences or findings among the rows of whatever table was asked for."""
        if self.job.name == "diff":
            kinds = ("onlyHere", "onlyThere", "different")
            return sum("difference" in row or any(row[kind] for kind in kinds) for row in rows)
        if self.job.name == "audit":
            return sum(
                row.get("severity") in ("error", "warning")
                or bool(row.get("errors"))
                or bool(row.get("warnings"))
                for row in rows
            )
        return 0

    def _watched(self, what: str, work: Callable[[], Any]) -> Any:
        return watched(self.spark, what, work, self.notify)

    def _rows(self, table: Table, frame: "DataFrame") -> list[dict[str, Any]]:
        found = frame.limit(self.request.limit + 1).collect()
        return [plain_row(table, row) for row in found]

    # ---- files

    def _about(self) -> dict[str, Any]:
        request = self.request
        return {
            "schema": SCHEMA,
            "job": self.job.name,
            "parameters": {k: v for k, v in self.parameters.items() if v},
            "limits": request.limits(),
        }

    def _times(self) -> dict[str, Any]:
        now = int(time.time() * 1000)
        return {
            "sparkVersion": self.spark.version,
            "startedTime": format_time(int(self.began * 1000)),
            "finishedTime": format_time(now),
        }

    def _written(self, frames: "dict[str, DataFrame]") -> Result:
        from mqadmin.pipeline.output import Output, store_states

        out = Path(self.request.out)
        about = {**self._about(), "stores": store_states(self.inputs.stores)}
        output = Output(out, self.request.format, about)
        counts = {}
        for name, frame in frames.items():
            if self.request.table and name != self.request.table:
                continue
            partitions = ("dt", "topic") if self.job.name == "export" else ()
            self._watched(name, lambda n=name, f=frame, p=partitions: output.write(n, f, p))  # type: ignore[misc]
            counts[name] = self._watched(name, lambda n=name: output.count(self.spark, n))  # type: ignore[misc]
        damages = self.inputs.damages()
        if self.job.name == "dlq" and "replay" in counts:
            self._replay_file(frames["replay"], out)
        manifest = output.finish(counts, {**self._times(), "damages": damages.count})
        rows = [
            {"table": name, "rows": one["rows"], "format": one["format"], "path": str(out / name)}
            for name, one in manifest["tables"].items()
        ]
        return Result(
            table=self.job.table(self.request.table),
            rows=rows,
            damages=damages,
            manifest=manifest,
            written=True,
            found=self._found_in(counts, out),
        )

    def _found_in(self, counts: dict[str, int], out: Path) -> int:
        """Differences or findings in tables that were written."""
        if self.job.name == "diff":
            return counts.get("differences", 0)
        if self.job.name == "audit" and counts.get("findings"):
            reader = self.spark.read.format(self.request.format).option("header", "true")
            return int(reader.load(str(out / "findings")).where("severity <> 'notice'").count())
        return 0

    def _replay_file(self, frame: "DataFrame", out: Path) -> None:
        """The replay set as one file of lines, as ``mqadmin dlq replay --from`` takes it."""
        from mqadmin.pipeline.parquet import write_whole

        table = self.job.table("replay")

        def text() -> bytes:
            rows = (plain_row(table, row) for row in frame.toLocalIterator())
            return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)

        write_whole(out / REPLAY, self._watched("replay", text))

    # ---- the export

    def _export(self) -> Result:
        from mqadmin.pipeline.export import Export, ExportSource, by_partition
        from mqadmin.pipeline.jobs.export import wanted_columns

        self.spark.dataSource.register(ExportSource)
        export = Export(
            self.spark,
            Path(self.request.out),
            stores=self.inputs.stores,
            columns=wanted_columns(self.parameters),
        )
        export.limits = self.request.limits()
        export.split_bytes = whole_number(self.parameters, "splitBytes")
        export.max_bytes = self.parameters["maxBytesPerTrigger"]
        export.keeps_on = not switch(self.parameters, "failOnDataLoss")
        if self.request.stream:
            self._stream(export)
        else:
            self._watched("export", export.run)
        manifest = export.finish({**self._about(), **self._times()})
        records = export.records()
        table = self.job.tables[0]
        rows = [
            {camel(name): value for name, value in row.items()} for row in by_partition(records)
        ]
        limit = self.request.limit
        return Result(
            table=table,
            rows=rows[:limit],
            truncated=len(rows) > limit,
            damages=_damages_of(records),
            manifest=manifest,
        )

    def _stream(self, export: "Export") -> None:
        query = export.stream(available_now=self.request.available_now)

        def note() -> None:
            export.finish({**self._about(), **self._times()})

        try:
            streamed(query, "export", self.notify, note)
        except KeyboardInterrupt:
            note()
            raise


def _damages_of(records: list[Any]) -> Damages:
    damaged = [record for record in records if record.damages]
    if not damaged:
        return Damages()
    return Damages(
        count=sum(record.damages for record in damaged),
        store=damaged[0].store,
        detail=damaged[0].first_damage,
    )


def plain_row(table: Table, row: Any) -> dict[str, Any]:
    """A row of Spark under the names of the command line."""
    return {
        camel(column.name, column.type): plain_value(column.type, value)
        for column, value in zip(table.columns, row, strict=True)
    }


def plain_value(kind: str, value: Any) -> Any:
    """A value as JSON has it: times in ms, bytes in base64, floats rounded to 6 digits."""
    if value is None:
        return None
    if kind == "time":
        moment = value if value.tzinfo is not None else value.astimezone(UTC)
        return (moment - _EPOCH) // _MILLISECOND
    if kind == "bytes":
        return base64.b64encode(value).decode("ascii")
    return round(value, 6) if kind == "float" else value
