"""``mqadmin msg produce``."""

from collections.abc import Iterator
from os.path import getsize
from typing import TYPE_CHECKING, Annotated, Literal

from mqadmin.command.bulk.client_log import client_warnings
from mqadmin.command.execution.failure import UsageFault, target_status
from mqadmin.command.execution.online import producing
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import DONE, PARTLY, USAGE
from mqadmin.command.framework.common_options import Batch, InFlight, Rate
from mqadmin.command.framework.declare import Argument, Option, Options
from mqadmin.command.framework.values import (
    count,
    duration_ms,
    positive_int32,
    time_ms,
    topic_name,
    user_property,
    whole,
)
from mqadmin.command.message import NOUN
from mqadmin.output.errors import ErrorReport, emit_error
from mqadmin.output.progress import Progress
from mqadmin.output.stdio import input_stream, stdin_is_terminal, stdout_is_terminal
from mqadmin.output.view import View
from mqadmin.traffic.options import Defaults, ProduceOptions, SenderConfig

if TYPE_CHECKING:
    from mqadmin.traffic.produce import LineFailure, LineSent, ProduceReport, ProduceRun, Source

MSG_PRODUCE = View("msg.produce", single=True)
MSG_PRODUCE_RESULTS = View(
    "msg.produce.results",
    ("source", "line", "topic", "brokerName", "queueId", "queueOffset", "offsetMsgId", "uniqKey"),
)

InputFormat = Literal["ndjson", "lines", "csv"]


class ProduceCommandOptions(Options):
    """Options of ``mqadmin msg produce``."""

    place: Annotated[
        str | None,
        Argument("TOPIC", help="Topic; default: that of each line.", complete="topic"),
    ] = None
    topic: Annotated[
        str | None,
        Option(
            "--topic",
            "-t",
            metavar="TOPIC",
            help="Same as TOPIC.",
            parse=topic_name,
            complete="topic",
        ),
    ] = None
    paths: Annotated[
        list[str] | None,
        Option(
            "--from",
            metavar="FILE",
            help="Input file, - is stdin (the default); may be repeated.",
            complete="file",
        ),
    ] = None
    form: Annotated[
        InputFormat | None,
        Option(
            "--input-format",
            "-f",
            help="Format of the input; default ndjson, csv for files *.csv.",
        ),
    ] = None
    keys: Annotated[
        list[str] | None,
        Option("--key", "-k", metavar="KEY", help="Key of every message; may be repeated."),
    ] = None
    tags: Annotated[
        str | None, Option("--tag", "--tags", metavar="TAG", help="Tag of every message.")
    ] = None
    properties: Annotated[
        list[str] | None,
        Option(
            "--property",
            metavar="K=V",
            help="Property of every message; may be repeated.",
            parse=user_property,
        ),
    ] = None
    delay_level: Annotated[
        int | None,
        Option(
            "--delay-level", metavar="N", help="Delay level of every message.", parse=positive_int32
        ),
    ] = None
    delay: Annotated[
        int | None,
        Option(
            "--delay",
            metavar="DUR",
            help="Timer delay of every message (5.x brokers).",
            parse=duration_ms,
        ),
    ] = None
    deliver_at: Annotated[
        int | None,
        Option(
            "--deliver-at",
            metavar="T",
            help="Delivery time of every message (5.x brokers).",
            parse=time_ms,
        ),
    ] = None
    ordered_by: Annotated[
        str | None,
        Option(
            "--ordered-by",
            metavar="FIELD",
            help="Keep the order of messages with the same keys, tags, queueId or property.",
        ),
    ] = None
    batch: Batch = 1
    in_flight: InFlight = 256
    rate: Rate = None
    from_line: Annotated[
        int,
        Option("--from-line", metavar="N", help="First line of the first file.", parse=count),
    ] = 1
    max_errors: Annotated[
        int,
        Option(
            "--max-errors",
            metavar="N",
            help="Stop after N failed lines; 0: never.",
            parse=whole,
        ),
    ] = 100
    keep_uniq_key: Annotated[
        bool,
        Option("--keep-uniq-key", help="Keep the uniqKey of a stored message."),
    ] = False
    results: Annotated[
        bool, Option("--results", help="Print the place of each sent message, not the totals.")
    ] = False
    create: Annotated[bool, Option("--create", help="Let the broker create an unknown topic.")] = (
        False
    )


@NOUN.verb(
    "produce",
    view=(MSG_PRODUCE, MSG_PRODUCE_RESULTS),
    changes=True,
    examples=[
        "mqadmin msg produce orders --from orders.ndjson",
        "cat orders.ndjson | mqadmin msg produce orders-copy --ordered-by queueId",
        "seq 1000 | mqadmin msg produce numbers --input-format lines --rate 100/s",
        "mqadmin msg produce orders --from orders.csv --tag import --batch 64",
        "mqadmin msg produce orders --from orders.ndjson --from-line 5001",
    ],
)
def produce(session: Session, given: ProduceCommandOptions) -> None:
    """Send messages from stdin or files in bulk.

    ndjson is the form that 'msg query', 'msg consume', 'store export' and 'dlq show' print with
    --body text or --body base64: body, bodyEncoding, topic, tags, keys, properties, and optionally
    delayLevel, delayMs or deliverTimestamp. Properties that brokers add are dropped. lines: each
    line is a body. csv: a header names the columns; body, tags, keys, topic and properties have
    their meaning, other columns become properties; without a column body the row is sent as a JSON
    object. Options win over the fields of a line.

    A line that cannot be sent is reported with its number and the reason on stderr, and the others
    are sent; the exit status is then 5. An interrupted run waits for the messages in flight and
    prints the line to resume at with --from-line. With --ordered-by it stops at the first
    failure. --timeout bounds the sending of one message. It does not ask for confirmation;
    --dry-run checks every line and sends nothing.
    """
    sources = given.paths or ["-"]
    _check(session, given, sources)
    _run(session, _options(session, given, sources), sources, results=given.results)


def _check(session: Session, given: ProduceCommandOptions, sources: list[str]) -> None:
    """Refuse options that exclude each other."""
    if given.place and given.topic and given.place != given.topic:
        raise UsageFault(
            f"msg produce: one topic at a time, not both {given.place} and {given.topic}"
        )
    if sum(one is not None for one in (given.delay_level, given.delay, given.deliver_at)) > 1:
        raise UsageFault("--delay-level, --delay and --deliver-at exclude each other")
    if given.ordered_by is not None and (given.delay_level or given.delay or given.deliver_at):
        raise UsageFault("--ordered-by cannot be combined with a delay: delivery has its own order")
    if given.results and session.dry_run:
        raise UsageFault("--results and --dry-run exclude each other: nothing is sent")
    if given.from_line > 1 and len(sources) > 1 and "-" in sources[1:]:
        raise UsageFault("--from-line applies to the first file")


def _options(session: Session, given: ProduceCommandOptions, sources: list[str]) -> ProduceOptions:
    """Convert the options of the command line to those of the library."""
    usual = "csv" if all(path.endswith(".csv") for path in sources) else "ndjson"
    return ProduceOptions(
        format=given.form or usual,
        defaults=Defaults(
            topic=given.topic or given.place,
            tags=given.tags,
            keys=given.keys or (),
            properties=dict(word.split("=", 1) for word in given.properties or ()),
            delay_level=given.delay_level,
            delay_ms=given.delay,
            deliver_ms=given.deliver_at,
            ordered_by=given.ordered_by,
            keep_uniq_key=given.keep_uniq_key,
        ),
        sender=SenderConfig(
            batch=given.batch,
            max_count=max(given.batch, given.in_flight),
            ordered=given.ordered_by is not None,
            create=given.create,
            timeout_ms=session.settings.timeout_ms,
        ),
        from_line=given.from_line,
        rate=given.rate,
        max_errors=given.max_errors,
        dry_run=session.dry_run,
    )


def _run(session: Session, options: ProduceOptions, paths: list[str], *, results: bool) -> None:
    session.guard_change()
    total = 0 if "-" in paths else sum(getsize(path) for path in paths)
    if session.dry_run:
        session.announce(())
    if "-" in paths and stdin_is_terminal():
        session.note("reading messages from the terminal, one per line; Ctrl-D ends the input")
    library = producing(session.settings)
    reported: list[str] = []
    with (
        client_warnings(session),
        library.stop_signal() as stop,
        Progress(enabled=not (results and stdout_is_terminal())) as progress,
    ):

        def on_failure(failure: "LineFailure") -> None:
            reported.append(failure.message)
            emit_error(_report_of(failure), form=session.form)

        def on_progress(done_bytes: int) -> None:
            sent, failed = run.report.sent, run.report.failed
            label = f"{sent} sent, {sent / max(progress.seconds, 0.001):.0f}/s"
            if failed:
                label += f", {failed} failed"
            progress.show_part(label, done_bytes, total)

        run = library.produce(stop, options, on_failure=on_failure, on_progress=on_progress)
        sources = library.sources(paths, input_stream())
        try:
            if results:
                session.emit(MSG_PRODUCE_RESULTS, _rows(run, sources), live=True, quiet=True)
            else:
                run.run(sources)
        finally:
            _note_resume(session, run.report)
    report = run.report
    if not results:
        session.emit_one(MSG_PRODUCE, report)
    if session.dry_run:
        session.end_dry_run()
    session.status = 128 + stop.number if stop.requested else _status(report)


def _rows(run: "ProduceRun", sources: "Iterator[Source]") -> "Iterator[LineSent]":
    for group in run.steps(sources):
        yield from group


def _report_of(failure: "LineFailure") -> ErrorReport:
    return ErrorReport(
        failure.kind,
        f"{failure.source} line {failure.line}: {failure.message}",
        failure.hint,
        address=failure.address,
        response_code=failure.response_code,
        path=failure.source,
    )


def _note_resume(session: Session, report: "ProduceReport") -> None:
    if report.unknown:
        session.note(f"{report.unknown} messages got no response: they may be stored")
    if report.resume_line is not None and report.resume_source:
        source = report.resume_source
        place = f"--from-line {report.resume_line}"
        if source != "stdin":
            place = f"--from {source} {place}"
        session.note(f"{report.sent} sent; resume with {place}")


def _status(report: "ProduceReport") -> int:
    if not report.failed and not report.not_tried and not report.unknown:
        return DONE
    planned = report.dry_run and any(report.topics.values())
    if report.sent or planned or not report.failures:
        return PARTLY
    first = report.failures[0]
    return USAGE if first.kind == "input" else target_status(first.kind, first.response_code)
