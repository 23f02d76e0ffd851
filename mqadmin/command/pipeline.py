"""``mqadmin pipeline``: list, run, schema, warmup."""

from typing import Annotated, Any

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO, PARTLY
from mqadmin.command.framework.declare import Argument, Noun, Option, Options
from mqadmin.command.framework.values import count, heap_size, pair, time_ms
from mqadmin.command.store.directory.termination import interrupted_by_sigterm
from mqadmin.output.stdio import stderr_is_terminal, write_err, write_out
from mqadmin.output.view import Outcome, View
from mqadmin.pipeline.catalog import JOBS, find_job, job_page, job_row, page_text
from mqadmin.pipeline.job import Job, Table, camel, output_name
from mqadmin.pipeline.sinks.plot import check_plot_path, draw
from mqadmin.pipeline.spark.java import spark_home

NOUN = Noun(
    "pipeline",
    """Analyse the history in store files with Spark.

    The files of any number of store directories, live or copied, of this broker or of a Java
    broker, are read as tables, without a consumer group or a broker. A job computes tables:
    traffic, dead letters, retries, lag over time, latency, an audit, a comparison, an export to
    Parquet. Spark runs in this process on all cores, or on a cluster (--master spark://…). For
    small stores 'mqadmin store' is faster; Spark is for many files, joins and clusters. It needs
    the extra: pip install 'mqadmin[spark]', which includes a Java runtime.
    """,
)


def shown(table: Table) -> tuple[str, ...]:
    """Return the columns of a table in a terminal; times as RFC 3339."""
    if table.shown:
        return table.shown
    names = (camel(column.name, column.type) for column in table.columns)
    return tuple(
        name.removesuffix("Timestamp") + "Time" if name.endswith("Timestamp") else name
        for name in names
    )


def table_view(job: Job, table: Table) -> View:
    """Return the view of a table of a job."""
    return View(output_name(job, table), shown(table))


VIEWS = {
    (job.name, table.name): table_view(job, table) for job in JOBS.values() for table in job.tables
}
WRITTEN = View("pipeline.run.written")
LIST = View("pipeline.list", ("job", "summary"))
SCHEMA = View("pipeline.schema", single=True)
WARMUP = View("pipeline.warmup", single=True)

JobName = Annotated[str, Argument("JOB", help="A job; 'mqadmin pipeline list' shows them.")]


@NOUN.verb("list", view=LIST, examples=["mqadmin pipeline list"])
def list_jobs(session: Session) -> None:
    """List the jobs with their tables."""
    session.emit(LIST, [job_row(job) for job in JOBS.values()])


@NOUN.verb(
    "schema",
    view=SCHEMA,
    examples=["mqadmin pipeline schema traffic", "mqadmin pipeline schema dlq -o json"],
)
def schema(session: Session, job: JobName) -> None:
    """Show a job: purpose, example, parameters, columns of its tables.

    Column names are those of the files and DataFrames. On the command line they are written in
    camelCase, and a time as …Timestamp in milliseconds and …Time as RFC 3339.
    """
    found = find_job(job)
    if session.is_table:
        write_out(page_text(found))
        return
    session.emit_one(SCHEMA, job_page(found))


class RunOptions(Options):
    """Options of ``mqadmin pipeline run``."""

    job: JobName
    more: Annotated[
        list[str] | None,
        Argument("DIR", help="More stores, as from --store /data/* in a shell.", complete="file"),
    ] = None
    stores: Annotated[
        list[str] | None,
        Option(
            "--store",
            metavar="DIR",
            help="A store directory, a folder or file of it, or a glob; may be repeated.",
            complete="file",
        ),
    ] = None
    out: Annotated[
        str | None,
        Option(
            "--out",
            metavar="DIR",
            help="Output directory of all tables, instead of printing one.",
            complete="file",
        ),
    ] = None
    form: Annotated[
        str,
        Option("--format", metavar="FORMAT", help="For --out: parquet, csv, json, orc, delta."),
    ] = "parquet"
    table: Annotated[
        str | None, Option("--table", metavar="TABLE", help="Only this table of the job.")
    ] = None
    limit: Annotated[
        int | None,
        Option("--limit", metavar="N", help="Print at most N rows; default 10,000.", parse=count),
    ] = None
    topic: Annotated[
        str | None,
        Option("--topic", "-t", metavar="TOPIC[,TOPIC]", help="Only these topics."),
    ] = None
    since: Annotated[
        int | None,
        Option("--since", metavar="T", help="Only messages stored at T or later.", parse=time_ms),
    ] = None
    until: Annotated[
        int | None,
        Option("--until", metavar="T", help="Only messages stored before T.", parse=time_ms),
    ] = None
    parameters: Annotated[
        list[str] | None,
        Option(
            "--param",
            metavar="NAME=VALUE",
            help="A parameter of the job; 'mqadmin pipeline schema JOB' shows them.",
            parse=pair,
        ),
    ] = None
    plot: Annotated[
        str | None,
        Option(
            "--plot",
            metavar="FILE",
            help="Draw the result into FILE.png, .svg or .html (traffic, lag-history, latency).",
            complete="file",
        ),
    ] = None
    stream: Annotated[
        bool, Option("--stream", help="With the job export: continue until Ctrl-C.")
    ] = False
    master: Annotated[
        str,
        Option("--master", metavar="URL", help="Where Spark runs: local[N] or spark://HOST:PORT."),
    ] = "local[*]"
    conf: Annotated[
        list[str] | None,
        Option("--conf", metavar="NAME=VALUE", help="A setting of Spark.", parse=pair),
    ] = None
    memory: Annotated[
        str,
        Option("--memory", metavar="SIZE", help="Memory of the Java process: 2g.", parse=heap_size),
    ] = "2g"
    ship: Annotated[
        bool,
        Option("--ship/--no-ship", help="Send this package to the workers of a cluster."),
    ] = True


@NOUN.verb(
    "run",
    view=(*VIEWS.values(), WRITTEN),
    examples=[
        *(job.example for job in JOBS.values()),
        "mqadmin pipeline run traffic --store /data/store --master spark://10.0.0.1:7077 -o json",
    ],
)
def run(session: Session, given: RunOptions) -> None:
    """Run a job over store directories and print its first table, or write all with --out.

    Damaged regions of the log are skipped and reported; the exit status is then 5. Output is
    written atomically; manifest.json, written last, contains counts and offsets. On a terminal a
    bar shows the progress of Spark's tasks; Ctrl-C and SIGTERM cancel.
    """
    found = find_job(given.job)
    spark_home()  # reports a missing installation before anything of Spark is imported
    from mqadmin.pipeline import run as execution
    from mqadmin.pipeline.spark.session import SparkSettings

    if given.plot is not None:
        _check_plot(found, given.plot, given.out)
    _check_times(given.since, given.until)
    request = execution.Request(
        job=given.job,
        stores=[*(given.stores or []), *(given.more or [])],
        out=given.out or "",
        format=given.form,
        table=given.table or "",
        limit=given.limit or execution.MAX_ROWS,
        topic=given.topic or "",
        since_ms=given.since,
        until_ms=given.until,
        parameters=_pairs(given.parameters),
        stream=given.stream,
        settings=SparkSettings(
            master=given.master,
            conf=_pairs(given.conf),
            heap=given.memory,
            verbose=bool(session.options.get("verbose")),
            ship=given.ship and not given.master.startswith("local"),
        ),
    )
    bar = Bar(session)
    try:
        with interrupted_by_sigterm():
            result = execution.run(request, bar.show)
    finally:
        bar.clear()
    _show(session, found, result, asked=given.limit is not None)
    if given.plot is not None:
        draw(found.name, result.table.name, result.rows, given.plot)
        session.note(f"plot written to {given.plot}")


def _show(session: Session, job: Job, result: Any, *, asked: bool) -> None:
    view = WRITTEN if result.written else VIEWS[job.name, result.table.name]
    outcome = Outcome(
        truncated=result.truncated,
        asked=asked,
        reason="there are more rows: --limit shows more, --out writes all",
    )
    damage = result.damages
    if damage.count:
        outcome.errors.append(_damage_fields(damage))
    session.emit(view, result.rows, outcome, quiet=True)
    if not result.rows and session.is_table:
        session.note("no rows")
    if damage.count:
        place = "" if damage.physical_offset is None else f" at {damage.physical_offset}"
        session.report(
            PARTLY,
            "damaged",
            f"damaged regions of the log skipped: {damage.count}; the first"
            f" ({damage.store}{place}): {damage.detail}",
            "mqadmin store verify DIR lists them with advice",
        )
    if result.found and job.name == "audit":
        session.report(PARTLY, "damaged", f"{result.found} findings are errors or warnings")
    elif result.found:
        session.report(NO, "differs", f"the stores differ in {result.found} rows")


def _damage_fields(damage: Any) -> dict[str, Any]:
    return {
        "kind": "damaged",
        "message": damage.detail,
        "path": damage.store,
        "physicalOffset": damage.physical_offset,
        "count": damage.count,
    }


def _pairs(words: list[str] | None) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in words or ())}


def _check_plot(job: Job, path: str, out: str | None) -> None:
    if not job.plots:
        names = ", ".join(name for name, other in JOBS.items() if other.plots)
        raise UsageFault(f"job {job.name} has no plot", f"--plot is available for {names}")
    if out is not None:
        raise UsageFault("--plot and --out exclude each other")
    if not path.endswith((".png", ".svg", ".html")):
        raise UsageFault(f"{path}: unknown image format", "use .png, .svg or .html")

    check_plot_path(path)


def _check_times(since: int | None, until: int | None) -> None:
    if since is not None and until is not None and until < since:
        raise UsageFault("--until is before --since")


class Bar:
    """Number of finished Spark tasks on stderr while a job runs, only on a terminal."""

    WIDTH = 30

    def __init__(self, session: Session) -> None:
        self._active = stderr_is_terminal() and not session.is_machine
        self._drawn = 0

    def show(self, progress: Any) -> None:
        """Draw the progress of a run."""
        if not self._active:
            return

        text = progress.subject
        if progress.total:
            filled = self.WIDTH * progress.done // progress.total
            bar = "#" * filled + "." * (self.WIDTH - filled)
            text = f"{text} [{bar}] {progress.done}/{progress.total} tasks"
        write_err("\r" + text.ljust(self._drawn))
        self._drawn = len(text)

    def clear(self) -> None:
        """Clear the line."""
        if self._drawn:
            write_err("\r" + " " * self._drawn + "\r")
            self._drawn = 0


@NOUN.verb("warmup", view=WARMUP, examples=["mqadmin pipeline warmup"])
def warmup(session: Session) -> None:
    """Write the class-data archive of Spark's Java, which makes Spark start faster.

    The archive (about 180 MB) is stored in the user's cache folder and used by later runs; write
    it again after an update of Java or Spark. Takes a minute.
    """
    spark_home()
    from mqadmin.pipeline.spark.warmup import warm_up

    bar = Bar(session)
    try:
        archive = warm_up(bar.show)
    finally:
        bar.clear()
    session.emit_one(WARMUP, archive)
