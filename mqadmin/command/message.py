"""``mqadmin msg``: query, show, send, tail, decode-id; produce and consume are in ``bulk``."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from broker.errors import ProtocolError
from broker.message.message_id import parse_uniq_key
from mqadmin.command.execution.failure import UsageFault, target_report
from mqadmin.command.execution.found import (
    DEFAULT_LIMIT,
    Limit,
    body_view,
    emit_found,
    emit_one_found,
)
from mqadmin.command.execution.online import decoded_id, message_queries, messages
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.window import Begin, End, Time, window
from mqadmin.command.framework.declare import Argument, Noun, Option, Options
from mqadmin.command.framework.values import (
    count,
    int32,
    user_property,
    whole,
)
from mqadmin.output.stdio import read_input
from mqadmin.output.view import DOCUMENT_FORMS, Outcome, View
from mqadmin.settings import read_file

if TYPE_CHECKING:
    from mqadmin.admin.result import TargetError
    from mqadmin.message_row import MessageRow

NOUN = Noun(
    "msg",
    """Find, show, send, follow, produce, consume and trace messages.

    A message is identified by its offsetMsgId (store address and physical offset, assigned by the
    broker), by its uniqKey (assigned by the producer), by a business key in its KEYS property, or
    by its position (broker, queue, queue offset). Keys are looked up in the broker's IndexFiles,
    which contain hashes, so each hit is compared with topic and key. An empty result names its
    reason: not in the index, outside the time window, deleted, refused, or unreachable.
    """,
)

MESSAGE_COLUMNS = (
    "topic",
    "brokerName",
    "queueId",
    "queueOffset",
    "storeTime",
    "tags",
    "keys",
    "bodySize",
    "offsetMsgId",
    "body",
)
MSG_QUERY = View("msg.query", MESSAGE_COLUMNS)
MSG_SHOW = View("msg.show", single=True)
MSG_TAIL = View(
    "msg.tail",
    ("storeTime", "brokerName", "queueId", "queueOffset", "tags", "keys", "body"),
)
MSG_SEND = View("msg.send", single=True)
MSG_DECODE = View("msg.decode-id", single=True)

Body = Literal["none", "text", "hex", "base64"]

Topic = Annotated[
    str | None,
    Option("--topic", "-t", metavar="TOPIC", help="Topic of the message.", complete="topic"),
]
Broker = Annotated[
    str | None, Option("--broker", "-b", metavar="NAME", help="Broker name of the queue.")
]
Queue = Annotated[int | None, Option("--queue", metavar="N", help="Queue id.", parse=int32)]
Tags = Annotated[
    str | None,
    Option("--tag", "--tags", metavar="EXPR", help="Only these tags: 'a || b'."),
]
Place = Annotated[str | None, Argument("TOPIC", help="Topic; same as --topic.", complete="topic")]
BodyForm = Annotated[Body, Option("--body", help="Show the body in this form.")]
Raw = Annotated[bool, Option("--raw", help="Show the stored bytes of the body, not decompressed.")]


def checked_id(text: str) -> str:
    """Check an offsetMsgId or a uniqKey."""
    try:
        parse_uniq_key(text.strip())
    except ProtocolError as error:
        hint = error.hint or "an id has 32 or 56 hexadecimal digits"
        raise ValueError(f"{text!r:.80} is neither an offsetMsgId nor a uniqKey: {hint}") from error
    return text


def one_topic(verb: str, place: str | None, option: str | None) -> str:
    """Return the topic from the argument or ``--topic``; UsageFault if both differ or none is."""
    if place and option and place != option:
        raise UsageFault(f"{verb}: one topic at a time, not both {place} and {option}")
    topic = option or place
    if not topic:
        raise UsageFault(f"{verb} needs a topic", f"mqadmin {verb} --topic orders …")
    return topic


class QueryOptions(Options):
    """Options of ``mqadmin msg query``."""

    topic: Topic = None
    key: Annotated[
        str | None, Option("--key", "-k", metavar="KEY", help="A word of the KEYS property.")
    ] = None
    uniq_key: Annotated[
        str | None, Option("--uniq-key", metavar="ID", help="The producer's id (UNIQ_KEY).")
    ] = None
    message_id: Annotated[
        str | None,
        Option("--id", "-i", metavar="ID", help="An offsetMsgId, or a uniqKey with --topic."),
    ] = None
    queue: Queue = None
    offset: Annotated[
        int | None, Option("--offset", metavar="N", help="Queue offset.", parse=whole)
    ] = None
    number: Annotated[
        int | None,
        Option("--count", metavar="N", help="Number of messages from --offset.", parse=count),
    ] = None
    broker: Broker = None
    begin: Begin = None
    end: End = None
    time: Time = None
    all_time: Annotated[
        bool, Option("--all-time", help="No time window (the default with --key).")
    ] = False
    limit: Limit = None
    scan: Annotated[bool, Option("--scan", help="Read the queues if the index has no match.")] = (
        False
    )
    tags: Tags = None
    body: BodyForm = "none"
    raw: Raw = False


@NOUN.verb(
    "query",
    view=MSG_QUERY,
    examples=[
        "mqadmin msg query --topic orders --key 42",
        "mqadmin msg query --topic orders --key 42 --since -2h --scan",
        "mqadmin msg query --id 7F00000100002A9F0000000000000000",
        "mqadmin msg query --topic orders --queue 3 --offset 1200 --count 10",
        "mqadmin msg query --topic orders --since '2026-01-02 03:04' --until now --body text",
        "mqadmin msg query --topic orders --time -2h..-1h",
    ],
)
def query(session: Session, given: QueryOptions) -> None:
    """Find messages by key, by id, by position or by time.

    --key queries the IndexFiles of every broker of the topic, newest first. --scan reads the
    queues within the window if the index has no match, which is slow but complete. --id can be
    combined with --topic; --offset with --queue, --broker and --count; --key, --uniq-key and a
    time window with --tag, --queue, --broker and --limit. Times are RFC 3339, '2026-01-02 03:04',
    now, -2h, or epoch seconds or milliseconds.
    """
    question = _question(given)
    view = body_view(given.body, given.raw)
    library = message_queries(session.admin)
    if given.message_id is not None:
        found = library.query_id(given.message_id, topic=given.topic, body=view)
        emit_found(session, MSG_QUERY, found)
        return
    assert given.topic is not None, "checked by _question"
    if given.offset is not None:
        assert given.queue is not None, "checked by _question"
        found = library.query_offset(
            given.topic,
            given.queue,
            given.offset,
            broker=given.broker,
            count=given.number or 1,
            body=view,
        )
        emit_found(session, MSG_QUERY, found)
        return
    begin, end = window(session, given.begin, given.end, given.time)
    narrow: dict[str, Any] = {
        "queue_id": given.queue,
        "broker": given.broker,
        "tags": given.tags or "*",
    }
    at_most = given.limit or DEFAULT_LIMIT
    if question == "window":
        found = library.query_time(given.topic, begin, end, max_items=at_most, body=view, **narrow)
    else:
        found = library.query_key(
            given.topic,
            given.key if given.key is not None else given.uniq_key or "",
            begin_ms=begin or 0,
            end_ms=end,
            max_items=at_most,
            scan=given.scan,
            unique=question == "--uniq-key",
            body=view,
            **narrow,
        )
    emit_found(session, MSG_QUERY, found, given.limit)


_WINDOW = frozenset({"--since", "--until", "--time", "--all-time"})
_NARROWED = _WINDOW | {"--topic", "--queue", "--broker", "--tag", "--limit"}

# The options that select messages, each with the options that can be combined with it.
_QUESTIONS: dict[str, frozenset[str]] = {
    "--id": frozenset({"--topic"}),
    "--key": _NARROWED | {"--scan"},
    "--uniq-key": _NARROWED | {"--scan"},
    "--offset": frozenset({"--topic", "--queue", "--broker", "--count"}),
    "window": _NARROWED,
}


def _named(options: QueryOptions) -> set[str]:
    """Return the names of the options given on the command line, without those of the output."""
    values = {
        "--id": options.message_id,
        "--key": options.key,
        "--uniq-key": options.uniq_key,
        "--offset": options.offset,
        "--topic": options.topic,
        "--queue": options.queue,
        "--broker": options.broker,
        "--count": options.number,
        "--since": options.begin,
        "--until": options.end,
        "--time": options.time,
        "--all-time": options.all_time or None,
        "--limit": options.limit,
        "--scan": options.scan or None,
        "--tag": options.tags,
    }
    return {name for name, value in values.items() if value is not None}


def _question(options: QueryOptions) -> str:
    """Return the selecting option; UsageFault for none, two, or one that does not combine."""
    given = _named(options)
    asked = [name for name in _QUESTIONS if name in given]
    if len(asked) > 1:
        raise UsageFault(f"msg query: {' and '.join(asked)} exclude each other", "use one of them")
    if not asked and not given & _WINDOW:
        raise UsageFault(
            "msg query needs --id, or --topic with --key, --uniq-key, --queue and --offset, or a "
            "time window",
            "mqadmin msg query --topic orders --key 42",
        )
    question = asked[0] if asked else "window"
    stray = sorted(given - _QUESTIONS[question] - {question})
    if stray:
        form = f"with {question}" if asked else "with a time window"
        raise UsageFault(
            f"msg query: {', '.join(stray)} cannot be applied {form}",
            f"{form}: " + ", ".join(sorted(_QUESTIONS[question])),
        )
    if question != "--id" and "--topic" not in given:
        raise UsageFault(f"msg query: {question} needs --topic", "add --topic TOPIC")
    if question == "--offset" and "--queue" not in given:
        raise UsageFault("msg query: --offset needs --queue", "mqadmin topic status TOPIC")
    if "--all-time" in given and len(given & _WINDOW) > 1:
        raise UsageFault("--all-time and --since/--until/--time exclude each other")
    return question


@NOUN.verb(
    "show",
    view=MSG_SHOW,
    examples=[
        "mqadmin msg show 7F00000100002A9F0000000000000000",
        "mqadmin msg show 7F00000126AD18B4AAC2799D5BAB0000 --topic orders --body hex",
    ],
)
def show(
    session: Session,
    message_id: Annotated[str, Argument("ID", help="An offsetMsgId, or a uniqKey with --topic.")],
    topic: Topic = None,
    body: BodyForm = "text",
    raw: Raw = False,
) -> None:
    """Show all fields of one message, including its body."""
    result = message_queries(session.admin).query_id(
        message_id, topic=topic, body=body_view(body, raw)
    )
    emit_one_found(session, MSG_SHOW, result)


@NOUN.verb(
    "send",
    view=MSG_SEND,
    changes=True,
    examples=[
        "mqadmin msg send --topic orders --key 42 --tag paid --body 'two coffees'",
        "mqadmin msg send orders --body-file order.json --property region=eu",
        "printf hello | mqadmin msg send orders --body-file -",
    ],
)
def send(
    session: Session,
    place: Place = None,
    topic: Topic = None,
    body: Annotated[
        str | None,
        Option("--body", metavar="TEXT", help="The body as text.", any_bytes=True),
    ] = None,
    body_file: Annotated[
        str | None,
        Option("--body-file", metavar="FILE", help="Read the body; - is stdin.", complete="file"),
    ] = None,
    keys: Annotated[
        list[str] | None,
        Option("--key", "-k", metavar="KEY", help="A business key; may be repeated."),
    ] = None,
    tags: Annotated[
        str | None, Option("--tags", "--tag", metavar="TAG", help="The message's tag.")
    ] = None,
    properties: Annotated[
        list[str] | None,
        Option(
            "--property", metavar="K=V", help="A property; may be repeated.", parse=user_property
        ),
    ] = None,
    broker: Broker = None,
    queue: Queue = None,
    delay_level: Annotated[
        int,
        Option(
            "--delay-level",
            metavar="N",
            help="Deliver later: a level of the broker, from 1.",
            parse=int32,
        ),
    ] = 0,
    create: Annotated[
        bool, Option("--create", help="Let the broker create an unknown topic.")
    ] = False,
) -> None:
    """Send one message and show its location.

    Sending does not ask for confirmation; --dry-run checks the message and shows its target.
    """
    topic = one_topic("msg send", place, topic)
    if (body is None) == (body_file is None):
        raise UsageFault("msg send needs --body or --body-file, one of them")
    data = body.encode("utf-8", "surrogateescape") if body is not None else _read(body_file or "-")
    if not data:
        given = "--body" if body is not None else "--body-file"
        raise UsageFault(f"{given}: the body is empty", "brokers refuse a message without a body")
    message: dict[str, Any] = {
        "tags": tags,
        "keys": keys or (),
        "properties": dict(word.split("=", 1) for word in properties or ()),
        "broker": broker,
        "queue_id": queue,
        "delay_level": delay_level,
        "create": create,
    }
    session.guard_change()
    if session.dry_run:
        plan = messages(session.admin).plan_send(topic, data, **message)
        session.announce(plan.addresses)
        session.note(f"would send {len(data)} bytes to topic {topic}")
        session.emit_one(MSG_SEND, plan.record)
        session.end_dry_run()
        return
    session.emit_one(MSG_SEND, messages(session.admin).send(topic, data, **message))


def _read(path: str) -> bytes:
    if path == "-":
        return read_input()

    return read_file(path)


@NOUN.verb(
    "tail",
    view=MSG_TAIL,
    examples=[
        "mqadmin msg tail --topic orders",
        "mqadmin msg tail orders --last 10 --no-follow -o ndjson",
    ],
)
def tail(
    session: Session,
    place: Place = None,
    topic: Topic = None,
    last: Annotated[
        int, Option("--last", metavar="N", help="Start N messages before the end.", parse=whole)
    ] = 0,
    follow: Annotated[
        bool,
        Option("--follow/--no-follow", help="Wait for new messages, or stop at the end."),
    ] = True,
    limit: Annotated[
        int | None,
        Option("--limit", "--max", "-m", metavar="N", help="Stop after N messages.", parse=count),
    ] = None,
    tags: Tags = None,
    broker: Broker = None,
    queue: Queue = None,
    body: BodyForm = "text",
    raw: Raw = False,
) -> None:
    """Follow a topic: print messages as they arrive, until Ctrl-C.

    It ends after --limit messages or after --timeout, if given on the command line. No consumer
    group is used and no offset is committed. A broker that does not respond is reported and
    queried again later; the exit status is then 5.
    """
    timeout = session.settings.effective["timeout"]
    for_ms = session.settings.timeout_ms if follow and timeout.origin == "option" else None
    endless = follow and limit is None and for_ms is None
    if session.form in DOCUMENT_FORMS and endless:
        raise UsageFault(
            f"msg tail: {session.form} is one document, which would not end",
            "use -o ndjson, or stop it with --limit, --timeout or --no-follow",
        )
    topic = one_topic("msg tail", place, topic)
    failed: list[TargetError] = []

    def report(error: "TargetError") -> None:
        failed.append(error)
        session.report_targets([error], some_worked=True)

    rows: Iterator[MessageRow] = messages(session.admin).tail(
        topic,
        last=last,
        follow=follow,
        for_ms=for_ms,
        tags=tags or "*",
        broker=broker,
        queue_id=queue,
        body=body_view(body, raw),
        report=report,
    )
    if limit is not None:
        rows = islice(rows, limit)
    outcome = Outcome()
    session.emit(MSG_TAIL, _with_errors(rows, failed, outcome), outcome, live=follow, quiet=True)


def _with_errors(
    messages: "Iterator[MessageRow]", failed: "list[TargetError]", outcome: Outcome
) -> "Iterator[MessageRow]":
    """Yield the messages, then add the brokers that failed meanwhile to the outcome."""
    yield from messages
    outcome.errors = [target_report(error).fields() for error in failed]


@NOUN.verb(
    "decode-id",
    view=MSG_DECODE,
    examples=["mqadmin msg decode-id 7F00000100002A9F0000000000000000"],
)
def decode_id(
    session: Session,
    text: Annotated[str, Argument("ID", help="An offsetMsgId or a uniqKey.", parse=checked_id)],
) -> None:
    """Decode an id: address and physical offset, or host, process, time and counter.

    No network connection is used. An id can be valid as both kinds; both are then shown.
    """
    session.emit_one(MSG_DECODE, decoded_id(text))
