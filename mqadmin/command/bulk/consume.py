"""``mqadmin msg consume``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from mqadmin.command.bulk.client_log import client_warnings
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.found import body_view
from mqadmin.command.execution.online import traffic
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import PARTLY, UNREACHABLE
from mqadmin.command.framework.declare import Option, Options
from mqadmin.command.framework.values import count, duration_ms, start_position, start_word
from mqadmin.command.message import NOUN, BodyForm, Place, Raw, Topic, one_topic
from mqadmin.output.progress import Progress
from mqadmin.output.stdio import stdout_is_terminal
from mqadmin.output.view import DOCUMENT_FORMS, View
from mqadmin.traffic.options import Limits

if TYPE_CHECKING:
    from mqadmin.admin.message.record import BodyView
    from mqadmin.message_row import MessageRow
    from mqadmin.traffic.consume import CommitRule, GroupConsumer, TopicConsumer
    from mqadmin.traffic.library import TrafficLibrary
    from mqadmin.traffic.stop import StopSignal

MSG_CONSUME = View(
    "msg.consume",
    ("storeTime", "brokerName", "queueId", "queueOffset", "tags", "keys", "body"),
)


class ConsumeOptions(Options):
    """Options of ``mqadmin msg consume``."""

    place: Place = None
    topic: Topic = None
    group: Annotated[
        str | None,
        Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Consumer group; default: none, nothing is committed.",
            complete="group",
        ),
    ] = None
    no_commit: Annotated[
        bool,
        Option("--no-commit", help="Join the group, but leave its offsets as they are."),
    ] = False
    tags: Annotated[
        str | None, Option("--tag", "--tags", metavar="EXPR", help="Only these tags: 'a || b'.")
    ] = None
    sql: Annotated[
        str | None,
        Option("--sql", metavar="EXPR", help="Only messages that match an SQL92 expression."),
    ] = None
    start: Annotated[
        str,
        Option(
            "--start",
            "--from",
            metavar="WHERE",
            help="Start of queues without offset: earliest, latest or a time.",
            parse=start_word,
        ),
    ] = "latest"
    limit: Annotated[
        int | None,
        Option("--limit", "--max", "-m", metavar="N", help="Stop after N messages.", parse=count),
    ] = None
    duration: Annotated[
        int | None,
        Option("--for", metavar="DUR", help="Stop after this time.", parse=duration_ms),
    ] = None
    idle: Annotated[
        int | None,
        Option(
            "--idle",
            metavar="DUR",
            help="Stop when no message arrived for this time.",
            parse=duration_ms,
        ),
    ] = None
    body: BodyForm = "text"
    raw: Raw = False


@NOUN.verb(
    "consume",
    view=MSG_CONSUME,
    examples=[
        "mqadmin msg consume orders --group audit -o ndjson",
        "mqadmin msg consume orders --group billing --no-commit --limit 10",
        "mqadmin msg consume orders --start earliest --idle 2s -o ndjson",
        "mqadmin msg consume orders --start -2h --sql \"region = 'eu' AND amount > 100\"",
    ],
)
def consume(session: Session, given: ConsumeOptions) -> None:
    """Consume a topic and print its messages, as a member of a group or without one.

    With --group the command shares the queues with the other members, its retry topic included,
    and commits a message after it was written and flushed: Ctrl-C, SIGTERM and a closed pipe
    commit exactly the messages that were printed. After kill -9 the last second is printed again.
    With -o json or -o yaml, which are complete only at their end, everything is committed there.
    With --no-commit nothing is committed: after the command has left, the other members get the
    messages of its queues again. All members of a group need the same subscription: without --tag
    and --sql the filter of the connected members is used; another filter, or a group with further
    topics, is refused. Without --group no group is used, and brokers keep no trace of it.

    A group continues at its committed offsets; --start applies to queues without one. It ends
    with --limit, --for, --idle or Ctrl-C (status 130). --timeout bounds the connection, not the
    command. The output of -o ndjson is the input of 'msg produce'; bodies that are not text are
    printed in hex.
    """
    topic = one_topic("msg consume", given.place, given.topic)
    _check(session, given)
    library = traffic(session.settings)
    with client_warnings(session) as warnings, library.stop_signal() as stop:
        printer = _Printer(
            session,
            library,
            Limits(count=given.limit, for_ms=given.duration, idle_ms=given.idle),
            stop,
            body_view(given.body, given.raw),
        )
        if given.group is None:
            _read(printer, topic, given)
        else:
            _consume_as_member(printer, topic, given, given.group, warnings)
        if stop.requested:
            session.status = 128 + stop.number


def _check(session: Session, given: ConsumeOptions) -> None:
    """Refuse options that exclude each other, and a document without an end."""
    if given.tags is not None and given.sql is not None:
        raise UsageFault("msg consume: --tag and --sql exclude each other")
    if given.no_commit and given.group is None:
        raise UsageFault("msg consume: --no-commit needs --group", "without a group no offset is")
    bounds = (given.limit, given.duration, given.idle)
    if session.form in DOCUMENT_FORMS and bounds == (None, None, None):
        raise UsageFault(
            f"msg consume: {session.form} is one document, which would not end",
            "use -o ndjson, or stop it with --limit, --for or --idle",
        )
    if given.group is not None and not given.no_commit:
        session.guard_change()


class _Printer:
    """Prints the messages of a consumer, up to the limits or until the run is stopped."""

    def __init__(
        self,
        session: Session,
        library: "TrafficLibrary",
        limits: Limits,
        stop: "StopSignal",
        view: "BodyView",
    ) -> None:
        self.session = session
        self.library = library
        self._limits = limits
        self._stop = stop
        self._view = view

    def print(self, consumer: "GroupConsumer | TopicConsumer") -> int:
        """Print messages; return their number. Progress is shown unless they go to the terminal."""
        limits = self._limits
        with Progress(enabled=not stdout_is_terminal()) as progress:
            printed = 0

            def show() -> None:
                label = f"{printed} messages, {printed / max(progress.seconds, 0.001):.0f}/s"
                if limits.count is not None:
                    progress.show_part(label, printed, limits.count)
                else:
                    progress.show_part(label, progress.seconds * 1000, limits.for_ms or 0)

            found = consumer.messages(limits, self._stop, show)

            def rows() -> "Iterator[MessageRow]":
                nonlocal printed
                for name, message in found:
                    yield self.library.row(name, message, self._view)
                    printed += 1
                    show()

            try:
                return self.session.emit(MSG_CONSUME, rows(), live=True, quiet=True)
            finally:
                found.close()  # the message at which the output failed was not printed


def _read(printer: _Printer, topic: str, given: ConsumeOptions) -> None:
    """Print messages without joining a group."""
    session = printer.session
    reader = printer.library.topic_consumer(
        session.admin,
        topic,
        lambda error: session.report_targets([error], some_worked=True),
        start=start_position(given.start),
        tags=given.tags or "*",
        sql=given.sql,
    )
    with reader:
        printer.print(reader)


def _consume_as_member(
    printer: _Printer, topic: str, given: ConsumeOptions, group: str, warnings: set[str]
) -> None:
    """Print messages as a member of a group, and commit those that were written.

    ``warnings`` are those of the client so far; any after the last message concern the commit.
    """
    session = printer.session
    member = printer.library.group_consumer(
        session.admin,
        group,
        topic,
        start=start_position(given.start),
        commit=_commit_rule(session, no_commit=given.no_commit),
        tags=given.tags,
        sql=given.sql,
    )
    with member:
        printed = _print_and_commit(printer, member)
        before = len(warnings)
        member.commit()
    if warnings and not printed:
        session.status = UNREACHABLE
    elif len(warnings) > before:
        session.status = PARTLY


def _commit_rule(session: Session, *, no_commit: bool) -> "CommitRule":
    if no_commit:
        return "never"
    return "at end" if session.form in DOCUMENT_FORMS else "as printed"


def _print_and_commit(printer: _Printer, member: "GroupConsumer") -> int:
    """Print messages; commit them also when the output fails, as far as they were written."""
    try:
        return printer.print(member)
    except OSError:  # a closed pipe, a full disk
        if printer.session.form in DOCUMENT_FORMS:
            member.abandon()
        else:
            member.commit()
        raise
