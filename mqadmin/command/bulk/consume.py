"""``mqadmin msg consume``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from mqadmin.command.bulk.client_log import client_warnings
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.found import body_view
from mqadmin.command.execution.online import traffic
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import PARTLY, UNREACHABLE
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import count, duration_ms, start_position, start_word
from mqadmin.command.message import NOUN, BodyForm, Place, Raw, Topic, one_topic
from mqadmin.output.progress import Progress
from mqadmin.output.stdio import stdout_is_terminal
from mqadmin.output.view import View
from mqadmin.traffic.options import Limits

if TYPE_CHECKING:
    from mqadmin.admin.message.record import BodyView
    from mqadmin.admin.result import TargetError
    from mqadmin.message_row import MessageRow
    from mqadmin.traffic.consume import CommitRule, GroupConsumer, TopicConsumer
    from mqadmin.traffic.library import TrafficLibrary
    from mqadmin.traffic.stop import StopSignal

MSG_CONSUME = View(
    "msg.consume",
    ("storeTime", "brokerName", "queueId", "queueOffset", "tags", "keys", "body"),
)


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
def consume(
    session: Session,
    place: Place = None,
    topic: Topic = None,
    group: Annotated[
        str | None,
        Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Consumer group; default: none, nothing is committed.",
            complete="group",
        ),
    ] = None,
    no_commit: Annotated[
        bool,
        Option("--no-commit", help="Join the group, but leave its offsets as they are."),
    ] = False,
    tags: Annotated[
        str | None, Option("--tag", "--tags", metavar="EXPR", help="Only these tags: 'a || b'.")
    ] = None,
    sql: Annotated[
        str | None,
        Option("--sql", metavar="EXPR", help="Only messages that match an SQL92 expression."),
    ] = None,
    start: Annotated[
        str,
        Option(
            "--start",
            "--from",
            metavar="WHERE",
            help="Start of queues without offset: earliest, latest or a time.",
            parse=start_word,
        ),
    ] = "latest",
    limit: Annotated[
        int | None,
        Option("--limit", "--max", "-m", metavar="N", help="Stop after N messages.", parse=count),
    ] = None,
    duration: Annotated[
        int | None,
        Option("--for", metavar="DUR", help="Stop after this time.", parse=duration_ms),
    ] = None,
    idle: Annotated[
        int | None,
        Option(
            "--idle",
            metavar="DUR",
            help="Stop when no message arrived for this time.",
            parse=duration_ms,
        ),
    ] = None,
    body: BodyForm = "text",
    raw: Raw = False,
) -> None:
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
    topic = one_topic("msg consume", place, topic)
    if tags is not None and sql is not None:
        raise UsageFault("msg consume: --tag and --sql exclude each other")
    if no_commit and group is None:
        raise UsageFault("msg consume: --no-commit needs --group", "without a group no offset is")
    if session.form in ("json", "yaml") and (limit, duration, idle) == (None, None, None):
        raise UsageFault(
            f"msg consume: {session.form} is one document, which would not end",
            "use -o ndjson, or stop it with --limit, --for or --idle",
        )
    if group is not None and not no_commit:
        session.guard_sending()
    view = body_view(body, raw)
    limits = Limits(count=limit, for_ms=duration, idle_ms=idle)
    position = start_position(start)
    library = traffic(session.settings)
    with client_warnings(session) as warnings, library.stop_signal() as stop:
        if group is None:

            def report(error: "TargetError") -> None:
                session.report_targets([error], some_worked=True)

            reader = library.topic_consumer(
                session.admin,
                topic,
                report,
                start=position,
                tags=tags or "*",
                sql=sql,
            )
            with reader:
                _print(session, library, reader, limits, stop, view)
        else:
            member = library.group_consumer(
                session.admin,
                group,
                topic,
                start=position,
                commit=_commit_rule(session, no_commit=no_commit),
                tags=tags,
                sql=sql,
            )
            with member:
                printed = _print_and_commit(session, library, member, limits, stop, view)
                before = len(warnings)
                member.commit()
            if warnings and not printed:
                session.status = UNREACHABLE
            elif len(warnings) > before:
                session.status = PARTLY
        if stop.requested:
            session.status = 128 + stop.number


def _commit_rule(session: Session, *, no_commit: bool) -> "CommitRule":
    if no_commit:
        return "never"
    return "at end" if session.form in ("json", "yaml") else "as printed"


def _print(
    session: Session,
    library: "TrafficLibrary",
    consumer: "GroupConsumer | TopicConsumer",
    limits: Limits,
    stop: "StopSignal",
    view: "BodyView",
) -> int:
    """Print messages; return their number. Progress is shown unless they go to the terminal."""
    with Progress(enabled=not stdout_is_terminal()) as progress:
        printed = 0

        def show() -> None:
            label = f"{printed} messages, {printed / max(progress.seconds, 0.001):.0f}/s"
            if limits.count is not None:
                progress.show_part(label, printed, limits.count)
            else:
                progress.show_part(label, progress.seconds * 1000, limits.for_ms or 0)

        found = consumer.messages(limits, stop, show)

        def rows() -> "Iterator[MessageRow]":
            nonlocal printed
            for name, message in found:
                yield library.row(name, message, view)
                printed += 1
                show()

        try:
            return session.emit(MSG_CONSUME, rows(), live=True, quiet=True)
        finally:
            found.close()  # the message at which the output failed was not printed


def _print_and_commit(
    session: Session,
    library: "TrafficLibrary",
    member: "GroupConsumer",
    limits: Limits,
    stop: "StopSignal",
    view: "BodyView",
) -> int:
    """Print messages; commit them also when the output fails, as far as they were written."""
    try:
        return _print(session, library, member, limits, stop, view)
    except OSError:  # a closed pipe, a full disk
        if session.form in ("json", "yaml"):
            member.abandon()
        else:
            member.commit()
        raise
