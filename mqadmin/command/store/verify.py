"""``mqadmin store verify``."""

from typing import Annotated, Any

from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import DAMAGED
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import time_ms
from mqadmin.command.store.damage_report import by_severity, folded
from mqadmin.command.store.noun import NOUN, Path, Topic
from mqadmin.inspector.damage import KINDS
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.report import VerifyReport
from mqadmin.inspector.verify.verifier import VerifyOptions
from mqadmin.inspector.verify.verifier import verify as verify_store
from mqadmin.output.progress import Progress
from mqadmin.output.view import DOCUMENT_FORMS, View

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
        Option("--since", metavar="T", help="Only messages stored at T or later.", parse=time_ms),
    ] = None,
    full: Annotated[
        bool,
        Option("--full/--fast", help="Verify the checksum of every body, or omit that check."),
    ] = True,
    summary: Annotated[
        bool, Option("--summary", help="Print one summary: extent of the checks, findings by kind.")
    ] = False,
) -> None:
    """Cross-check all files of a store; status 7 if there is an error or a warning.

    Checked are the lengths, offset, checksum and times of every record; every ConsumeQueue unit
    and its record, in both directions; every index entry and the keys of its record, in both
    directions; headers and chains of IndexFiles; configuration, checkpoint, abort and lock file;
    transactions and delayed messages. A finding has file, physical offset, length and advice.
    Notices describe a state and do not change the status. A broker may be running; nothing is
    written.
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
    if session.form in DOCUMENT_FORMS:
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
    "running": "in use by a broker",
}


def summary_lines(summary: Any) -> list[str]:
    """Return the summary as text: state, findings per kind, and the extent of the checks."""
    counts = (("error", summary.errors), ("warning", summary.warnings), ("notice", summary.notices))
    found = ", ".join(f"{n} {word}{'s' * (n != 1)}" for word, n in counts if n)
    verdict = found or "no findings"
    if found and summary.ok:
        verdict = f"no errors ({found})"
    kinds = [f"{count} {kind}: {KINDS[kind].meaning}" for kind, count in summary.kinds.items()]
    if summary.lost_messages:
        kinds.append(f"{summary.lost_messages} messages are lost")
    bodies = "bodies checked" if summary.bodies_checked else "bodies not checked"
    extent = (
        f"checked {summary.records} records in {summary.checked_bytes} bytes of log"
        f" ({summary.coverage:.1%}, {bodies}), {summary.units_checked} of {summary.units} units in"
        f" {summary.queues} queues, {summary.index_entries_checked} of {summary.index_entries}"
        f" index entries; {summary.keys_indexed} of {summary.keys} keys are indexed;"
        f" {summary.seconds} s"
    )
    head = f"{summary.path} ({STATES[summary.state]}): {verdict}"
    return [head, *kinds, extent, *summary.notes]
