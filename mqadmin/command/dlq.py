"""``mqadmin dlq``: list, show, replay."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from mqadmin.command.dead_letters.filters import (
    Exceptions,
    Keys,
    Origin,
    Properties,
    Tags,
    dead_letter_filter,
)
from mqadmin.command.execution.failure import UsageFault, target_status
from mqadmin.command.execution.found import DEFAULT_LIMIT, Limit, body_view, emit_found
from mqadmin.command.execution.online import (
    body_form,
    dead_letters,
    read_dead_letters,
)
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO, PARTLY
from mqadmin.command.execution.window import Begin, End, Time, window
from mqadmin.command.framework.common_options import Rate
from mqadmin.command.framework.declare import Argument, Noun, Option, Options
from mqadmin.command.framework.values import count, time_ms
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.dlq import dlq_rows
from mqadmin.output.stdio import read_input
from mqadmin.output.view import View
from mqadmin.settings import read_file

NOUN = Noun(
    "dlq",
    """List, show, count, export, replay and skip dead letters.

    A message that a consumer group failed to process is delivered again from the group's retry
    topic; after retryMaxTimes deliveries it is stored in the topic %DLQ%group, which has no
    consumers. A dead letter keeps its body and keys, and in its properties its original topic
    and id.
    """,
)

REPLAY_LIMIT = 10_000  # default number of dead letters read from a DLQ
REPLAY_LIMIT_BYTES = 1 << 30  # the input of a replay is read into memory; split larger ones

DLQ_LIST = View(
    "dlq.list",
    ("group", "topic", "messages", "oldestTime", "newestTime", "growthPerHour"),
)
DLQ_SHOW = View(
    "dlq.show",
    (
        "topic",
        "brokerName",
        "queueId",
        "queueOffset",
        "storeTime",
        "reconsumeTimes",
        "tags",
        "keys",
        "offsetMsgId",
        "body",
    ),
)
DLQ_REPLAY = View(
    "dlq.replay",
    (
        "group",
        "offsetMsgId",
        "keys",
        "targetTopic",
        "status",
        "brokerName",
        "queueId",
        "queueOffset",
        "note",
    ),
)


@NOUN.verb(
    "list",
    view=DLQ_LIST,
    examples=["mqadmin dlq list", "mqadmin dlq list billing --store /data/store"],
)
def list_dead_letters(
    session: Session,
    group: Annotated[
        str | None, Argument("GROUP", help="Only this group.", complete="group")
    ] = None,
    store: Annotated[
        str | None,
        Option("--store", metavar="DIR", help="Read a store directory.", complete="file"),
    ] = None,
) -> None:
    """List groups with dead letters: number, age and growth.

    With --store the dead letters of a store directory are counted, without a network connection.
    """
    nothing = f"group {group} has no dead letters" if group else ""
    if store is not None:
        rows = dlq_rows(StoreDirectory(store), group=group, now_ms=time_ms("now"))
        session.emit(DLQ_LIST, rows, nothing=nothing)
        return
    session.emit_listing(DLQ_LIST, dead_letters(session.admin).list(group=group), nothing=nothing)


@NOUN.verb(
    "show",
    view=DLQ_SHOW,
    examples=["mqadmin dlq show billing", "mqadmin dlq show billing --since -1d --body text"],
)
def show(
    session: Session,
    group: Annotated[str, Argument("GROUP", help="The consumer group.", complete="group")],
    begin: Begin = None,
    end: End = None,
    time: Time = None,
    limit: Limit = None,
    body: Annotated[
        Literal["none", "text", "hex", "base64"],
        Option("--body", help="Show the body in this form."),
    ] = "none",
    raw: Annotated[
        bool, Option("--raw", help="The stored bytes of the body, not decompressed.")
    ] = False,
) -> None:
    """Show the dead letters of a group, oldest first."""
    view = body_view(body, raw)
    begin, end = window(session, begin, end, time)
    result = dead_letters(session.admin).show(
        group,
        max_items=limit or DEFAULT_LIMIT,
        begin_ms=begin or 0,
        end_ms=end,
        body=view,
    )
    emit_found(session, DLQ_SHOW, result, limit)


class ReplayOptions(Options):
    """Options of ``mqadmin dlq replay``."""

    group: Annotated[
        str | None,
        Argument("GROUP", help="Only dead letters of this group.", complete="group"),
    ] = None
    source: Annotated[
        str | None,
        Option(
            "--from",
            metavar="FILE",
            help="File with dead letters (- for stdin); default: the DLQ of GROUP.",
            complete="file",
        ),
    ] = None
    to: Annotated[
        str,
        Option("--to", metavar="WHERE", help="Target: origin, retry (only this group) or a topic."),
    ] = "origin"
    limit: Annotated[
        int | None,
        Option(
            "--limit",
            "--max",
            "-m",
            metavar="N",
            help=f"Maximum number of messages from a DLQ; default {REPLAY_LIMIT}.",
            parse=count,
        ),
    ] = None
    rate: Rate = None
    ledger: Annotated[
        str | None,
        Option(
            "--ledger",
            metavar="FILE",
            help="File that records sent messages; default FILE.ledger or dlq-GROUP.ledger.",
            complete="file",
        ),
    ] = None
    begin: Begin = None
    end: End = None
    time: Time = None
    tags: Tags = None
    keys: Keys = None
    properties: Properties = None
    origin: Origin = None
    exception: Exceptions = None


@NOUN.verb(
    "replay",
    view=DLQ_REPLAY,
    changes=True,
    examples=[
        "mqadmin dlq replay --from dead-letters.ndjson --dry-run",
        "mqadmin dlq replay billing --from /out/replay.ndjson --to retry --rate 50/s --yes",
        "mqadmin dlq replay billing --to orders-repair --yes",
        "mqadmin dlq replay billing --origin orders --tag paid --since -1d --dry-run",
    ],
)
def replay(session: Session, given: ReplayOptions) -> None:
    """Send dead letters again as their producers sent them.

    FILE is the output of 'mqadmin pipeline run dlq' (replay.ndjson in --out, or --table replay
    -o ndjson) or of 'mqadmin dlq show --body base64 -o ndjson'. Body, flag, keys, tags, uniqKey
    and the application's properties are sent unchanged; properties added by brokers and consumers
    are removed. The originals stay in the DLQ. A message sent to its original topic is delivered
    to all groups of the topic, a message sent to the retry topic only to its own group.

    Prints the number of messages per target, asks for confirmation, and sends in the order of the
    file. The filters hold together; --limit counts the messages read, before them. The ledger
    records sent messages: rerun a stopped replay to resume; rerunning a complete
    one sends nothing. A message without a response is looked up by its uniqKey before it is sent
    again.
    """
    session.require_consent()
    group, source = given.group, given.source
    if source is None and group is None:
        raise UsageFault("dlq replay: no input", "name a GROUP, or a file with --from FILE")
    if source is not None and given.limit is not None:
        raise UsageFault("dlq replay: --limit is for a DLQ, not for a file", "omit it")
    if source is not None and (given.begin, given.end, given.time) != (None, None, None):
        raise UsageFault("dlq replay: a time window is for a DLQ, not for a file", "omit it")
    period = window(session, given.begin, given.end, given.time)
    found = _dead_letters(session, group, source, given.limit, period)
    if found is None:
        return
    chosen = dead_letter_filter(
        given.tags, given.keys, given.properties, given.origin, given.exception
    )
    if not chosen.empty:
        read = len(found)
        found = [one for one in found if chosen.test(one)]
        session.note(f"{len(found)} of {read} dead letters match")
        if not found:
            session.emit(DLQ_REPLAY, [], quiet=True)
            session.report(NO, "notFound", f"none of {read} dead letters matches")
            return
    kept = given.ledger or _ledger_name(group, source)
    plan = dead_letters(session.admin).plan_replay(found, to=given.to, ledger=kept)
    session.announce(plan.addresses)
    for topic, (new, old) in plan.targets().items():
        before = f", {old} sent before" if old else ""
        session.note(f"{topic}: {new} to send{before}")
    items = plan.items
    planned = plan.count("planned")
    if session.dry_run or not planned:
        session.emit(DLQ_REPLAY, items, quiet=True)
    elif not session.consent(f"send {planned} messages?"):
        return
    else:
        items = _send(session, plan, given.rate)
    if session.dry_run:
        session.end_dry_run()
    elif not planned and plan.count("alreadySent") == len(found):
        session.note(f"nothing to do: according to {kept} all were sent")
    _conclude(session, items)


def _ledger_name(group: str | None, source: str | None) -> str:
    """Return the default ledger: next to the input file, else in the working directory."""
    if source not in (None, "-"):
        return f"{source}.ledger"
    return f"dlq-{group}.ledger" if group else "dlq.ledger"


def _dead_letters(
    session: Session,
    group: str | None,
    source: str | None,
    limit: int | None,
    period: tuple[int | None, int | None],
) -> list[Any] | None:
    """Read dead letters from a file or a DLQ; None if there are none, which is reported."""
    if source is None:
        assert group is not None
        found = dead_letters(session.admin).show(
            group,
            max_items=limit or REPLAY_LIMIT,
            begin_ms=period[0] or 0,
            end_ms=period[1],
            body=body_form("base64"),
        )
        if found.kind != "found":
            emit_found(session, DLQ_REPLAY, found)
            return None
        if found.truncated and limit is None:
            reason = f"only the first {len(found.items)} dead letters of the group"
            session.report(PARTLY, "truncated", reason, "raise --limit")
        session.report_targets(found.errors, some_worked=True)
        return read_dead_letters(found.items)
    if source == "-":
        data = read_input()
    else:
        data = read_file(source, REPLAY_LIMIT_BYTES)
    selected = [one for one in read_dead_letters(data, source) if group in (None, one.group)]
    if selected:
        return selected
    whose = f" of group {group}" if group else ""
    session.emit(DLQ_REPLAY, [], quiet=True)
    session.report(NO, "notFound", f"{source} contains no dead letters{whose}")
    return None


def _send(session: Session, plan: Any, rate: float | None) -> list[Any]:
    """Send, printing each message with its new location; an interrupt reports the number sent."""
    done: list[Any] = []

    def items() -> Iterator[Any]:
        for item in dead_letters(session.admin).apply_replay(plan, rate=rate):
            done.append(item)
            yield item

    try:
        session.emit(DLQ_REPLAY, items(), quiet=True, live=session.form == "ndjson")
    finally:
        sent = sum(item.status == "sent" for item in done)
        session.note(f"{sent} sent, recorded in {plan.ledger}")
    return done


def _conclude(session: Session, items: Sequence[Any]) -> None:
    """Report the messages that could not be sent."""
    failed = [item for item in items if item.error is not None]
    if not failed:
        return
    first = failed[0]
    some = any(item.status in ("planned", "sent", "found", "alreadySent") for item in items)
    session.report(
        PARTLY if some else target_status(first.error.kind, first.error.response_code),
        first.error.kind,
        f"{len(failed)} of {len(items)} messages cannot be sent; the first"
        f" ({first.offset_msg_id}): {first.error.message}",
        first.error.hint,
    )
