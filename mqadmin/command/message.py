"""``mqadmin msg``: query, show, send, tail, decode-id."""

from itertools import islice
from typing import Annotated, Any, Literal

from mqadmin.command.declare import Argument, Noun, Option
from mqadmin.command.failure import UsageFault
from mqadmin.command.found import emit_found, emit_one_found
from mqadmin.command.session import Session
from mqadmin.command.values import count, pair, whole
from mqadmin.command.window import Begin, End, Time, window
from mqadmin.output.view import View

NOUN = Noun(
    "msg",
    """Find, show, send and follow messages.

    A message can be named in four ways: by its offsetMsgId (store address and physical offset,
    given by the broker), by its uniqKey (given by the producer), by a business key in its KEYS
    property, or by its place (broker, queue, queue offset). Keys are looked up in the broker's
    IndexFile, which holds hashes: each hit is checked against topic and key. When nothing is
    found the answer says why: not in the index, outside the time window, already deleted,
    refused or unreachable are different things.
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
MESSAGE_ROW = "mqadmin.message_row:MessageRow"
MSG_QUERY = View("msg.query", MESSAGE_ROW, MESSAGE_COLUMNS)
MSG_SHOW = View("msg.show", MESSAGE_ROW, single=True)
MSG_TAIL = View(
    "msg.tail",
    MESSAGE_ROW,
    ("storeTime", "brokerName", "queueId", "queueOffset", "tags", "keys", "body"),
)
MSG_SEND = View("msg.send", "mqadmin.admin.message:SendRecord", single=True)
MSG_DECODE = View("msg.decode-id", "mqadmin.admin.message:DecodedId", single=True)

Body = Literal["none", "text", "hex", "base64"]

Topic = Annotated[
    str | None,
    Option("--topic", "-t", metavar="TOPIC", help="Topic of the message.", complete="topic"),
]
Broker = Annotated[
    str | None, Option("--broker", "-b", metavar="NAME", help="Broker name of the queue.")
]
Queue = Annotated[int | None, Option("--queue", metavar="N", help="Queue id.", parse=whole)]
Place = Annotated[
    str | None, Argument("TOPIC", help="The topic, or name it with --topic.", complete="topic")
]
BodyForm = Annotated[Body, Option("--body", help="Show the body in this form.")]
Raw = Annotated[bool, Option("--raw", help="The stored bytes of the body, not decompressed.")]


def _one_topic(verb: str, place: str | None, option: str | None) -> str:
    """Take the topic from its place or from ``--topic``; both are fine when they agree."""
    if place and option and place != option:
        raise UsageFault(f"{verb}: one topic at a time, not both {place} and {option}")
    topic = option or place
    if not topic:
        raise UsageFault(f"{verb} needs a topic", f"mqadmin {verb} --topic orders …")
    return topic


def _body(form: str, raw: bool) -> Any:
    from mqadmin.admin.message import BodyView

    return BodyView(encoding=form, raw=raw)


@NOUN.verb(
    "query",
    view=MSG_QUERY,
    examples=[
        "mqadmin msg query --topic orders --key 42",
        "mqadmin msg query --topic orders --key 42 --begin -2h --scan",
        "mqadmin msg query --id 7F00000100002A9F0000000000000000",
        "mqadmin msg query --topic orders --queue 3 --offset 1200 --count 10",
        "mqadmin msg query --topic orders --begin '2026-01-02 03:04' --end now --body text",
        "mqadmin msg query --topic orders --time -2h..-1h",
    ],
)
def query(
    session: Session,
    topic: Topic = None,
    key: Annotated[
        str | None, Option("--key", "-k", metavar="KEY", help="A word of the KEYS property.")
    ] = None,
    uniq_key: Annotated[
        str | None, Option("--uniq-key", metavar="ID", help="The producer's id (UNIQ_KEY).")
    ] = None,
    message_id: Annotated[
        str | None,
        Option("--id", "-i", metavar="ID", help="An offsetMsgId, or a uniqKey with --topic."),
    ] = None,
    queue: Queue = None,
    offset: Annotated[
        int | None, Option("--offset", metavar="N", help="Queue offset.", parse=whole)
    ] = None,
    number: Annotated[
        int, Option("--count", metavar="N", help="Read on from --offset.", parse=count)
    ] = 1,
    broker: Broker = None,
    begin: Begin = None,
    end: End = None,
    time: Time = None,
    all_time: Annotated[
        bool, Option("--all-time", help="No time window (the default without --begin, --end).")
    ] = False,
    maximum: Annotated[
        int, Option("--max", "-m", metavar="N", help="Show at most N messages.", parse=count)
    ] = 64,
    scan: Annotated[
        bool, Option("--scan", help="Read the queues themselves when the index has nothing.")
    ] = False,
    tags: Annotated[
        str, Option("--tags", metavar="EXPR", help="With a time range: a tag expression.")
    ] = "*",
    body: BodyForm = "none",
    raw: Raw = False,
) -> None:
    """Find messages by key, by id, by place or by time.

    --key asks the IndexFile of every broker of the topic, newest first. --scan reads the queues
    in the window when the index has nothing, which is slow and certain. --begin and --end take
    RFC 3339, '2026-01-02 03:04', now, -2h, or epoch seconds or milliseconds.
    """
    if all_time and (begin is not None or end is not None or time is not None):
        raise UsageFault("--all-time and --begin/--end/--time exclude each other")
    view = _body(body, raw)
    if message_id:
        found = session.admin.message.query_id(message_id, topic=topic, body=view)
        emit_found(session, MSG_QUERY, found)
        return
    if not topic:
        raise UsageFault(
            "msg query needs --id, or --topic with --key, --uniq-key, --offset or --begin",
            "mqadmin msg query --topic orders --key 42",
        )
    messages = session.admin.message
    begin, end = window(session, begin, end, time)
    if key or uniq_key:
        result = messages.query_key(
            topic,
            key or uniq_key or "",
            begin_ms=begin or 0,
            end_ms=end,
            max_items=maximum,
            scan=scan,
            unique=not key,
            body=view,
        )
    elif offset is not None:
        result = messages.query_offset(
            topic, queue or 0, offset, broker=broker, count=number, body=view
        )
    elif begin is not None or end is not None:
        result = messages.query_time(
            topic,
            begin or 0,
            end,
            max_items=maximum,
            queue_id=queue,
            broker=broker,
            tags=tags,
            body=view,
        )
    else:
        raise UsageFault(
            f"msg query: topic {topic} alone names no message",
            "add --key, --uniq-key, --queue with --offset, or --begin and --end",
        )
    emit_found(session, MSG_QUERY, result)


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
    """Show everything about one message, its body included."""
    result = session.admin.message.query_id(message_id, topic=topic, body=_body(body, raw))
    emit_one_found(session, MSG_SHOW, result)


@NOUN.verb(
    "send",
    view=MSG_SEND,
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
    body: Annotated[str | None, Option("--body", metavar="TEXT", help="The body as text.")] = None,
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
        Option("--property", metavar="K=V", help="A property; may be repeated.", parse=pair),
    ] = None,
    broker: Broker = None,
    queue: Queue = None,
    delay_level: Annotated[
        int, Option("--delay-level", metavar="N", help="Deliver later (level 1 …).", parse=whole)
    ] = 0,
    create: Annotated[
        bool, Option("--create", help="Let the broker create an unknown topic.")
    ] = False,
) -> None:
    """Send one message and show where it landed.

    Sending adds a message and alters nothing, so it does not ask; --dry-run shows what would be
    sent.
    """
    topic = _one_topic("msg send", place, topic)
    if (body is None) == (body_file is None):
        raise UsageFault("msg send needs --body or --body-file, one of them")
    data = body.encode("utf-8", "surrogateescape") if body is not None else _read(body_file or "-")
    if session.dry_run:
        session.note(f"would send {len(data)} bytes to topic {topic}")
        session.note("dry run: nothing was changed")
        return
    sent = session.admin.message.send(
        topic,
        data,
        tags=tags,
        keys=keys or (),
        properties=dict(word.split("=", 1) for word in properties or ()),
        broker=broker,
        queue_id=queue,
        delay_level=delay_level,
        create=create,
    )
    session.emit_thing(MSG_SEND, sent)


def _read(path: str) -> bytes:
    if path == "-":
        from mqadmin.output.stdio import read_input

        return read_input()
    from mqadmin.settings import read_file

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
        int, Option("--last", metavar="N", help="Begin N messages before the end.", parse=whole)
    ] = 0,
    follow: Annotated[
        bool, Option("--follow/--no-follow", help="Wait for new messages, or end at the end.")
    ] = True,
    maximum: Annotated[
        int | None, Option("--max", "-m", metavar="N", help="End after N messages.", parse=count)
    ] = None,
    tags: Annotated[str, Option("--tags", metavar="EXPR", help="Only these tags: 'a || b'.")] = "*",
    broker: Broker = None,
    queue: Queue = None,
    body: BodyForm = "text",
    raw: Raw = False,
) -> None:
    """Follow a topic: print messages as they arrive, until Ctrl-C.

    No consumer group is used and no offset is moved.
    """
    if session.form in ("json", "yaml") and follow and maximum is None:
        raise UsageFault(
            f"msg tail: {session.form} is one document and would never end",
            "use -o ndjson, or end it with --max or --no-follow",
        )
    topic = _one_topic("msg tail", place, topic)
    messages = session.admin.message.tail(
        topic,
        last=last,
        follow=follow,
        tags=tags,
        broker=broker,
        queue_id=queue,
        body=_body(body, raw),
    )
    if maximum is not None:
        messages = islice(messages, maximum)
    session.emit(MSG_TAIL, messages, live=follow)


@NOUN.verb(
    "decode-id",
    view=MSG_DECODE,
    examples=["mqadmin msg decode-id 7F00000100002A9F0000000000000000"],
)
def decode_id(
    session: Session,
    text: Annotated[str, Argument("ID", help="An offsetMsgId or a uniqKey.")],
) -> None:
    """Say what an id holds: address and physical offset, or host, process, time and counter.

    Nothing is asked over the network. The two kinds can look alike; both readings are given.
    """
    from mqadmin.admin.message import decode_id as decode

    session.emit_thing(MSG_DECODE, decode(text))
