"""``mqadmin store export``."""

from pathlib import Path as FilePath
from typing import Annotated, Literal

from mqadmin.command.declare import Option
from mqadmin.command.failure import UsageFault
from mqadmin.command.session import Session
from mqadmin.command.status import DAMAGED
from mqadmin.command.store.damage_report import Damages
from mqadmin.command.store.noun import NOUN, BodyForm, Path, Queue, Raw, Topic
from mqadmin.command.window import Begin, End, Time, window
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.output.view import Outcome, View
from mqadmin.repair.export import export as write

MESSAGES = View(
    "store.export",
    ("physicalOffset", "topic", "queueId", "queueOffset", "storeTime", "tags", "keys", "bodySize"),
)
RESULT = View("store.export.result", single=True)


@NOUN.verb(
    "export",
    view=(MESSAGES, RESULT),
    changes=True,
    examples=[
        "mqadmin store export /data/store --topic orders --body text -o ndjson",
        "mqadmin store export /data/store --output orders.csv --topic orders --time -1d..",
        "mqadmin store export /data/store --output archive --format parquet --body base64",
    ],
)
def export(
    session: Session,
    path: Path,
    output: Annotated[
        str | None,
        Option(
            "--output",
            metavar="FILE",
            help="Write here; a folder for Parquet. A second run goes on where it stopped.",
            complete="file",
        ),
    ] = None,
    format: Annotated[
        Literal["ndjson", "csv", "parquet"] | None,
        Option("--format", help="What to write; by the file's name, else ndjson."),
    ] = None,
    topic: Topic = None,
    queue: Queue = None,
    key: Annotated[
        str | None,
        Option("--key", "-k", metavar="KEY", help="Only messages with this key or uniqKey."),
    ] = None,
    begin: Begin = None,
    end: End = None,
    time: Time = None,
    body: BodyForm = "none",
    raw: Raw = False,
) -> None:
    """Write messages to NDJSON, CSV or Parquet, in the order of the log.

    Without --output they go to stdout in the form of -o. Beside a file stands its state: the same
    command again exports what has been stored since, or goes on after an interruption. Parquet
    has the columns of the data pipeline; bodies are in it if --body says any form. In CSV a cell
    that spreadsheets would evaluate begins with ', and control characters are escaped; NDJSON keeps
    every value. Damages are reported on stderr, and the status is then 7.
    """
    store = StoreDirectory(path)
    begin, end = window(session, begin, end, time)
    query = Query(
        topic=topic, queue_id=queue, key=key, begin_ms=begin, end_ms=end, body=body, raw=raw
    )
    if output is None:
        if format is not None:
            raise UsageFault("--format belongs to --output", "on stdout -o chooses the form")
        if session.dry_run:
            raise UsageFault("--dry-run belongs to --output", "nothing is written without it")

        outcome = Outcome()
        damages = Damages(outcome)
        try:
            rows = damages.apart(message_rows(store, query))
            session.emit(MESSAGES, rows, outcome, nothing=f"nothing in {path} matches")
        finally:
            damages.report(session)
        return

    found: list[object] = []
    ending = output.rpartition(".")[2]
    form = format or (ending if ending in ("csv", "parquet") else "ndjson")
    result = write(
        store,
        query,
        FilePath(output),
        form,
        damages=found,  # type: ignore[arg-type]
        dry_run=session.dry_run,
    )
    session.emit_one(RESULT, result)
    if session.dry_run:
        session.end_dry_run()
    if found:
        session.note(f"{len(found)} damages were met; mqadmin store verify {path} names them")
        session.status = DAMAGED
