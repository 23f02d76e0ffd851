"""``mqadmin store export``."""

from pathlib import Path as FilePath
from typing import Annotated, Literal

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import DAMAGED
from mqadmin.command.execution.window import Begin, End, Time, window
from mqadmin.command.framework.declare import Option, Options
from mqadmin.command.store.damage_report import DamageReport
from mqadmin.command.store.noun import (
    NOUN,
    BodyForm,
    Key,
    Path,
    Queue,
    Raw,
    Topic,
    refuse_raw_alone,
)
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.output.view import View
from mqadmin.repair.export import export as write

MESSAGES = View(
    "store.export",
    ("physicalOffset", "topic", "queueId", "queueOffset", "storeTime", "tags", "keys", "bodySize"),
)
RESULT = View("store.export.result", single=True)


class ExportOptions(Options):
    """Options of ``mqadmin store export``."""

    path: Path
    output: Annotated[
        str | None,
        Option(
            "--out",
            metavar="FILE",
            help="Output file, a directory for Parquet; rerun to resume.",
            complete="file",
        ),
    ] = None
    format: Annotated[
        Literal["ndjson", "csv", "parquet"] | None,
        Option("--format", help="Format; default by the name of the file, else ndjson."),
    ] = None
    topic: Topic = None
    queue: Queue = None
    key: Key = None
    begin: Begin = None
    end: End = None
    time: Time = None
    body: BodyForm = "none"
    raw: Raw = False


@NOUN.verb(
    "export",
    view=(MESSAGES, RESULT),
    changes=True,
    examples=[
        "mqadmin store export /data/store --topic orders --body text -o ndjson",
        "mqadmin store export /data/store --out orders.csv --topic orders --time -1d..",
        "mqadmin store export /data/store --out archive --format parquet --body base64",
    ],
)
def export(session: Session, given: ExportOptions) -> None:
    """Write messages to NDJSON, CSV or Parquet, in the order of the log.

    Without --out they are printed in the format of -o. The state of an export is stored next to its
    file: rerun the command to resume after an interruption or to append the messages stored since.
    Parquet has the columns of the data pipeline, with bodies unless --body is none. In CSV a cell
    that spreadsheets would evaluate is prefixed with ', and control characters are escaped; NDJSON
    keeps every value. Damaged regions are reported on stderr;
    the exit status is then 7.
    """
    refuse_raw_alone(given.body, given.raw)
    store = StoreDirectory(given.path)
    begin, end = window(session, given.begin, given.end, given.time)
    query = Query(
        topic=given.topic,
        queue_id=given.queue,
        key=given.key,
        begin_ms=begin,
        end_ms=end,
        body=given.body,
        raw=given.raw,
    )
    if given.output is not None:
        _write(session, given, store, query, given.output)
        return
    if given.format is not None:
        raise UsageFault("--format requires --out", "on stdout -o selects the format")
    if session.dry_run:
        raise UsageFault("--dry-run requires --out", "nothing is written without it")
    with DamageReport(session) as damage:
        rows = damage.apart(message_rows(store, query))
        session.emit(MESSAGES, rows, damage.outcome, nothing=f"nothing in {given.path} matches")


def _write(
    session: Session, given: ExportOptions, store: StoreDirectory, query: Query, output: str
) -> None:
    """Write or continue an output file, and report the result."""
    found: list[DamageRow] = []
    ending = output.rpartition(".")[2]
    form = given.format or (ending if ending in ("csv", "parquet") else "ndjson")
    result = write(
        store, query, FilePath(output), form, damaged_regions=found, dry_run=session.dry_run
    )
    session.emit_one(RESULT, result)
    if session.dry_run:
        session.end_dry_run()
    if found:
        hint = f"mqadmin store verify {given.path} lists them"
        session.note(f"{len(found)} damaged regions were skipped; {hint}")
        session.status = DAMAGED
