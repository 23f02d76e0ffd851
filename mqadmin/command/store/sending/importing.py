"""``mqadmin store import``."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from msgspec import structs

from mqadmin.command.bulk.client_log import client_warnings
from mqadmin.command.execution.failure import UsageFault, target_status
from mqadmin.command.execution.online import importing
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import DONE, NO, PARTLY, USAGE
from mqadmin.command.execution.window import Begin, End, Time, window
from mqadmin.command.framework.declare import Argument, Option, Options
from mqadmin.command.framework.values import count, per_second, time_ms, topic_name, whole
from mqadmin.command.store.damage_report import DamageReport
from mqadmin.command.store.noun import NOUN, Key, Queue, Topic
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.message_row import MessageRow
from mqadmin.output.errors import ErrorReport, emit_error
from mqadmin.output.progress import Progress
from mqadmin.output.view import View
from mqadmin.traffic.options import Defaults, ProduceOptions, Selection, SenderConfig

if TYPE_CHECKING:
    from mqadmin.traffic.imports.run import ImportReport, ImportSource
    from mqadmin.traffic.produce import LineFailure, ProduceReport

STORE_IMPORT = View("store.import", single=True)

SILENT_HINT = "mqadmin broker status asks the broker; rerun to send the rest"

INTERRUPT_WAIT_MS = 3_000
"""After Ctrl-C: a rerun looks up messages that have no response until then."""


def _target_word(text: str) -> str:
    """Check a word of ``--to``: TOPIC or OLD=NEW."""
    for name in text.split("=", 1):
        topic_name(name)
    return text


class ImportOptions(Options):
    """Options of ``mqadmin store import``."""

    path: Annotated[
        str,
        Argument(
            "DIR|FILE",
            help="A store directory, a file of its log, or NDJSON of 'store export'.",
            complete="file",
        ),
    ]
    topic: Topic = None
    queue: Queue = None
    key: Key = None
    begin: Begin = None
    end: End = None
    time: Time = None
    to: Annotated[
        list[str] | None,
        Option(
            "--to",
            metavar="[OLD=]NEW",
            help="Target topic, of topic OLD or of every message; default: its own.",
            parse=_target_word,
        ),
    ] = None
    ordered_by: Annotated[
        str,
        Option(
            "--ordered-by",
            metavar="FIELD",
            help="Keep the order of messages with the same keys, tags or property; none: no order.",
        ),
    ] = "queueId"
    rate: Annotated[
        float | None,
        Option("--rate", metavar="N/s", help="Maximum messages per second.", parse=per_second),
    ] = None
    batch: Annotated[
        int, Option("--batch", metavar="N", help="Messages of one request.", parse=count)
    ] = 1
    in_flight: Annotated[
        int,
        Option("--in-flight", metavar="N", help="Messages without a response.", parse=count),
    ] = 256
    max_errors: Annotated[
        int,
        Option("--max-errors", metavar="N", help="Stop after N failures; 0: never.", parse=whole),
    ] = 100
    ledger: Annotated[
        str | None,
        Option(
            "--ledger",
            metavar="FILE",
            help="File that records sent messages; default NAME.ledger in this directory.",
            complete="file",
        ),
    ] = None


@NOUN.verb(
    "import",
    view=STORE_IMPORT,
    changes=True,
    examples=[
        "mqadmin store import /backup/store --topic orders --dry-run",
        "mqadmin store import /backup/store --topic orders --to orders-copy --rate 500/s --yes",
        "mqadmin store import orders.ndjson --since -1d --yes",
    ],
)
def import_messages(session: Session, given: ImportOptions) -> None:
    """Send the messages of a store, or of an export of one, to a running cluster.

    Body, flag, keys, tags, uniqKey and the application's properties are sent; properties that
    brokers and consumers add are not, and the messages get new offsets and times. The order of each
    queue is kept, in the queue with the same id if the target topic has it. Messages of system,
    retry and dead-letter topics are sent only if --topic or --to names their topic. The target
    topics must exist. Messages stored after the start are left out.

    Counts the messages per target topic first (not with --yes) and asks for confirmation. The
    ledger records sent messages: rerun a stopped import to resume, also after a failure, at which
    an ordered import stops. A message without a response is looked up by its uniqKey before it is
    sent again. --timeout bounds the sending of one message. A damaged region or an invalid line is
    reported, and the others are sent; the exit status is then 7 or 5.
    """
    session.require_consent()
    job = _Job(session, given)
    session.announce(job.library.targets(job.named_topics))
    report = None
    if session.dry_run or not session.yes:
        report = job.run(dry_run=True)
        for topic, number in report.topics.items():
            session.note(f"{topic}: {number} to send")
    planned = sum(report.topics.values()) if report is not None else None
    if not session.dry_run and planned != 0:
        if not session.consent(f"send {planned} messages?"):
            return
        report = job.run(dry_run=False)
    assert report is not None, "one of the two runs"
    job.conclude(report)


class _Job:
    """The import of a command line: its source, its runs, the status of the last one."""

    def __init__(self, session: Session, given: ImportOptions) -> None:
        self._session = session
        self._given = given
        self._targets = _targets(given)
        self._path = os.path.realpath(given.path)
        self._store = None if _is_export(given.path) else StoreDirectory(given.path)
        self._window = window(session, given.begin, given.end, given.time)
        self.library = importing(session.settings, session.admin)
        self._damage: DamageReport | None = None
        self._stopped_by = 0  # the signal that ended the last run

    @property
    def named_topics(self) -> list[str]:
        """The target topics that the command line names, none if they are those of the source."""
        if self._given.topic is not None:
            return [self._target_of(self._given.topic)]
        return list(self._targets.values()) if "" in self._targets else []

    def _target_of(self, topic: str) -> str:
        return self._targets.get(topic) or self._targets.get("") or topic

    def run(self, *, dry_run: bool) -> "ImportReport":
        """Send or count the messages; failures and damage are reported as they are found."""
        session = self._session
        ledger = self._given.ledger or f"{os.path.basename(self._path)}.ledger"

        def on_failure(failure: "LineFailure") -> None:
            emit_error(self._report_of(failure), form=session.form)

        def on_progress(produced: "ProduceReport") -> None:
            done = sum(produced.topics.values())
            rate = f"{done / max(progress.seconds, 0.001):.0f}/s"
            progress.show_part(f"{done} {'counted' if dry_run else 'sent'}, {rate}", 0, 0)

        self._damage = DamageReport(session)
        with (
            client_warnings(session),
            self.library.stop_signal() as stop,
            Progress() as progress,
        ):
            source = self._source(self._damage)
            report = self.library.run(source, ledger).run(
                self._options(dry_run=dry_run), stop, on_failure=on_failure, on_progress=on_progress
            )
        self._stopped_by = stop.number
        return report

    def _source(self, damage: DamageReport) -> "ImportSource":
        given, store = self._given, self._store
        begin, end = self._window
        wanted = Selection(
            topic=given.topic,
            queue_id=given.queue,
            key=given.key,
            begin_ms=begin,
            end_ms=time_ms("now") if end is None and store is not None else end,
        )

        def rows(start: int) -> "Iterator[MessageRow]":
            assert store is not None, "a source without rows is a file"
            question = Query(**structs.asdict(wanted), from_offset=start, body="base64")
            return damage.apart(message_rows(store, question))

        return self.library.source(
            self._path, wanted, targets=self._targets, rows=None if store is None else rows
        )

    def _options(self, *, dry_run: bool) -> ProduceOptions:
        given = self._given
        ordered = given.ordered_by != "none"
        return ProduceOptions(
            defaults=Defaults(
                ordered_by=given.ordered_by if ordered else None,
                keep_uniq_key=True,
                keep_queue_id=given.ordered_by == "queueId",
            ),
            sender=SenderConfig(
                group="mqadmin_import",
                batch=given.batch,
                max_count=max(given.batch, given.in_flight),
                ordered=ordered,
                timeout_ms=self._session.settings.timeout_ms,
            ),
            rate=given.rate,
            max_errors=given.max_errors,
            dry_run=dry_run,
            interrupt_wait_ms=INTERRUPT_WAIT_MS,
        )

    def _report_of(self, failure: "LineFailure") -> ErrorReport:
        place = "line" if self._store is None else "physical offset"
        silent = failure.kind in ("timeout", "unreachable")
        return ErrorReport(
            failure.kind,
            f"{self._path} {place} {failure.line}: {failure.message}",
            failure.hint or (SILENT_HINT if silent else ""),
            address=failure.address,
            response_code=failure.response_code,
            path=self._path,
        )

    def conclude(self, report: "ImportReport") -> None:
        """Print the result of the last run and set the status."""
        session = self._session
        session.emit_one(STORE_IMPORT, report)
        if report.excluded:
            session.note(
                f"{report.excluded} messages of system, retry and dead-letter topics are not sent;"
                " --topic TOPIC selects one"
            )
        unsent = report.failed + report.not_tried + report.unknown
        if not report.dry_run and (unsent or not report.complete):
            session.note(f"{report.sent} sent, recorded in {report.ledger}; rerun to resume")
        if report.dry_run:
            session.end_dry_run()
        assert self._damage is not None, "a run has ended"
        with self._damage:
            pass  # its end reports the damage
        if self._stopped_by:
            session.status = 128 + self._stopped_by
        elif unsent:
            session.status = _failed_status(report)
        elif session.status == DONE and not _some(report):
            session.report(NO, "notFound", f"{self._path}: no message to send")


def _some(report: "ImportReport") -> bool:
    """Return whether this run or an earlier one sent any message, or a dry run would."""
    return bool(report.already or report.found or any(report.topics.values()))


def _failed_status(report: "ImportReport") -> int:
    """Return the status when messages were not sent: 5 if others were."""
    if _some(report) or not report.failures:
        return PARTLY
    first = report.failures[0]
    return USAGE if first.kind == "input" else target_status(first.kind, first.response_code)


def _targets(given: ImportOptions) -> dict[str, str]:
    """Return old topic → new topic, "" for every other one; UsageFault if two are contradictory."""
    found: dict[str, str] = {}
    for word in given.to or ():
        old, _, new = word.rpartition("=")
        if found.setdefault(old, new) != new:
            raise UsageFault(f"store import: --to names two targets of {old or 'every topic'}")
    return found


def _is_export(path: str) -> bool:
    """Return whether a file is NDJSON; the first bytes of a log are a size."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(1) == b"{"
