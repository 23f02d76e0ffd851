"""``mqadmin store verify``."""

from typing import Annotated, Any

from mqadmin.command.declare import Option
from mqadmin.command.session import Session
from mqadmin.command.status import DAMAGED
from mqadmin.command.store.damage_report import by_severity, folded
from mqadmin.command.store.noun import NOUN, Path, Topic
from mqadmin.command.values import time_ms
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.report import VerifyReport, meaning_of
from mqadmin.inspector.verify.verifier import VerifyOptions
from mqadmin.inspector.verify.verifier import verify as verify_store
from mqadmin.output.progress import Progress
from mqadmin.output.view import View

VERIFY = View(
    "store.verify",
    ("severity", "kind", "path", "physicalOffset", "length", "count", "detail", "suggestion"),
)
SUMMARY = View("store.verify.summary", single=True)
DOCUMENT = View("store.verify", single=True)


@NOUN.verb(
    "verify",
    view=(DOCUMENT, SUMMARY),
    examples=[
        "mqadmin store verify /data/store",
        "mqadmin store verify /data/store --topic orders --fast",
        "mqadmin store verify /data/store --since -2h -o json",
        "mqadmin store verify /backup/store --summary",
    ],
)
def verify(
    session: Session,
    path: Path,
    topic: Topic = None,
    since: Annotated[
        int | None,
        Option("--since", metavar="T", help="Only what was stored at T or later.", parse=time_ms),
    ] = None,
    full: Annotated[
        bool,
        Option("--full/--fast", help="Compare every body with its checksum, or leave that out."),
    ] = True,
    summary: Annotated[
        bool, Option("--summary", help="One record: what was looked at, findings by kind.")
    ] = False,
) -> None:
    """Check everything in a store against everything else in it; status 7 if anything is wrong.

    Every record: lengths, place, checksum, order of times. Every ConsumeQueue unit against its
    record, every record against its queue, every index entry against the keys of its record and
    back, headers and chains of IndexFiles; configuration, checkpoint, abort and lock file against
    what log and queues hold; transactions and delayed messages. Each finding says file, physical
    offset, length and what to do. Notices explain a state and leave the status at 0. Works beside
    a running broker; nothing is written.
    """
    store = StoreDirectory(path)
    options = VerifyOptions(topic=topic, since_ms=since, check_crc=full)
    with Progress() as progress:
        found = verify_store(store, options, progress.show)
    if summary:
        session.emit_one(SUMMARY, found.summary)
    else:
        emit_report(session, found)
    if not found.summary.ok:
        session.status = DAMAGED


def emit_report(session: Session, found: Any) -> None:
    """Print findings and summary in the requested form."""
    if session.form in ("json", "yaml"):
        report = VerifyReport(
            items=by_severity(found.findings),
            truncated=len(found.findings) < sum(found.summary.kinds.values()),
            errors=[],
            summary=found.summary,
        )
        session.emit_one(DOCUMENT, report)
        return
    rows = folded(found.findings) if session.is_table else by_severity(found.findings)
    session.emit(VERIFY, rows, quiet=True)
    for line in summary_lines(found.summary):
        session.note(line)


STATES = {
    "clean": "stopped cleanly",
    "crashed": "not stopped cleanly",
    "running": "a broker runs on it",
}


def summary_lines(summary: Any) -> list[str]:
    """Return the summary as text: state, findings per kind, and the extent of the checks."""
    counts = (("error", summary.errors), ("warning", summary.warnings), ("notice", summary.notices))
    found = ", ".join(f"{n} {word}{'s' * (n != 1)}" for word, n in counts if n)
    verdict = found or "no findings"
    if found and summary.ok:
        verdict = f"nothing wrong ({found})"
    kinds = [f"{count} {kind}: {meaning_of(kind)}" for kind, count in summary.kinds.items()]
    if summary.lost_messages:
        kinds.append(f"{summary.lost_messages} messages are lost")
    bodies = "bodies compared" if summary.bodies_checked else "bodies left out"
    looked = (
        f"looked at {summary.records} records in {summary.checked_bytes} bytes of log"
        f" ({summary.coverage:.1%}, {bodies}), {summary.units_checked} of {summary.units} units in"
        f" {summary.queues} queues, {summary.index_entries_checked} of {summary.index_entries}"
        f" index entries; {summary.keys_indexed} of {summary.keys} keys are indexed;"
        f" {summary.seconds} s"
    )
    head = f"{summary.path} ({STATES[summary.state]}): {verdict}"
    return [head, *kinds, looked, *summary.notes]
