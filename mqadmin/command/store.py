"""``mqadmin store``: inspect, find, layout."""

from collections.abc import Iterator
from string import hexdigits
from typing import Annotated, Any, Literal

from broker.errors import CorruptRecordError, RemoteProtocolError
from broker.store.format.layout import LAYOUTS, find_layouts, layout_object, layout_text
from mqadmin.command.damage_report import Damages
from mqadmin.command.declare import Argument, Noun, Option
from mqadmin.command.failure import NoResults, UsageFault
from mqadmin.command.session import Session
from mqadmin.command.values import count, whole
from mqadmin.command.window import Begin, End, Time, window
from mqadmin.inspector.configs import config_rows
from mqadmin.inspector.damage import checkpoint_damage
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.find import find_id, find_key, message_rows
from mqadmin.inspector.index import index_rows
from mqadmin.inspector.query import Query
from mqadmin.inspector.queues import unit_rows
from mqadmin.inspector.summary import summarize
from mqadmin.inspector.timeline import MAX_SEEDS, Search, find_places
from mqadmin.output.stdio import write_out
from mqadmin.output.view import Outcome, View

NOUN = Noun(
    "store",
    """Inspect, verify and repair store files offline.

    A broker's store is a directory: the CommitLog holds every message once, in the order of
    arrival; ConsumeQueues hold for each message queue where its messages stand in the log;
    IndexFiles lead from keys to messages; checkpoint, abort file and config/ hold the rest. These
    commands need no broker and no network. They open files for reading only, take no lock, and
    work on a live directory, on a copy, on one file alone, and on stores written by a Java broker
    4.9 or 5.x. What is damaged is reported and skipped, and the exit status is then 7. Only
    repair, recover and export write, and only where --output says.
    """,
)

INSPECT_MESSAGES = View(
    "store.inspect",
    (
        "physicalOffset",
        "topic",
        "queueId",
        "queueOffset",
        "storeTime",
        "tags",
        "keys",
        "storeSize",
        "bodySize",
        "crcOk",
        "body",
    ),
)
INSPECT_QUEUE = View(
    "store.inspect.consumequeue",
    ("topic", "queueId", "queueOffset", "physicalOffset", "storeSize", "tagsCode", "batchSize"),
)
INSPECT_INDEX = View(
    "store.inspect.index",
    (
        "record",
        "slot",
        "entry",
        "keyHash",
        "physicalOffset",
        "timeDiffSeconds",
        "previousEntry",
        "beginTime",
        "endTime",
        "beginPhysicalOffset",
        "endPhysicalOffset",
        "hashSlotCount",
        "indexCount",
        "path",
    ),
)
INSPECT_CHECKPOINT = View("store.inspect.checkpoint", single=True)
INSPECT_STATE = View("store.inspect.state", single=True)
INSPECT_CONFIG = View("store.inspect.config", keep=("value",))
_CONFIG_COLUMNS = ("name", "table", "key", "value")
CONFIG_LINES = View("store.inspect.config", _CONFIG_COLUMNS, wide=_CONFIG_COLUMNS, keep=("value",))
INSPECT_SUMMARY = View("store.inspect.summary", single=True)
FIND = View("store.find", INSPECT_MESSAGES.columns)
PLACES = View(
    "store.find.places",
    ("storeTime", "place", "role", "topic", "queueId", "queueOffset", "physicalOffset", "detail"),
)
LAYOUT = View("store.layout")


def stored_id(text: str) -> str:
    """Check an id: an offsetMsgId or a uniqKey has at least 32 hexadecimal digits."""
    if len(text) < 32 or not set(text) <= set(hexdigits):
        raise ValueError(
            f"{text!r:.80} is neither an offsetMsgId nor a uniqKey;"
            " --key finds messages by any key or uniqKey"
        )
    return text


PATH_HELP = "A store directory, a folder in it, or one of its files."

Path = Annotated[str, Argument("DIR|FILE", help=PATH_HELP, complete="file")]
Topic = Annotated[str | None, Option("--topic", "-t", metavar="TOPIC", help="Only this topic.")]
Queue = Annotated[
    int | None, Option("--queue", metavar="N", help="Only this queue id.", parse=whole)
]
Limit = Annotated[
    int | None, Option("--limit", metavar="N", help="Show at most N rows.", parse=count)
]
BodyForm = Annotated[
    Literal["none", "text", "hex", "base64"], Option("--body", help="Show bodies in this form.")
]
Raw = Annotated[bool, Option("--raw", help="The stored bytes of bodies, not decompressed.")]
Crc = Annotated[bool | None, Option("--crc/--no-crc", help="Compare each body with its checksum.")]


@NOUN.verb(
    "inspect",
    view=(
        INSPECT_MESSAGES,
        INSPECT_QUEUE,
        INSPECT_INDEX,
        INSPECT_CHECKPOINT,
        INSPECT_CONFIG,
        INSPECT_STATE,
        INSPECT_SUMMARY,
    ),
    examples=[
        "mqadmin store inspect /data/store --summary",
        "mqadmin store inspect /data/store --topic orders --begin -2h --body text",
        "mqadmin store inspect /data/store --kind consumequeue --topic orders --queue 3",
        "mqadmin store inspect /data/store/commitlog/00000000000000000000 --from 4096 --limit 5",
        "mqadmin store inspect /data/store --kind config -o json",
    ],
)
def inspect(
    session: Session,
    path: Path,
    kind: Annotated[
        Literal["auto", "commitlog", "consumequeue", "index", "checkpoint", "config", "state"],
        Option("--kind", help="Which files; auto goes by place, name and content."),
    ] = "auto",
    topic: Topic = None,
    queue: Queue = None,
    key: Annotated[
        str | None,
        Option("--key", "-k", metavar="KEY", help="Only messages with this key or uniqKey."),
    ] = None,
    message_id: Annotated[
        str | None,
        Option(
            "--id",
            "-i",
            metavar="ID",
            help="Only this offsetMsgId or uniqKey.",
            parse=stored_id,
        ),
    ] = None,
    from_offset: Annotated[
        int | None,
        Option(
            "--from",
            metavar="OFFSET",
            help="Begin here: a physical offset, in ConsumeQueues a queue offset.",
            parse=whole,
        ),
    ] = None,
    to_offset: Annotated[
        int | None,
        Option("--to", metavar="OFFSET", help="End here (not included).", parse=whole),
    ] = None,
    begin: Begin = None,
    end: End = None,
    time: Time = None,
    limit: Limit = None,
    body: BodyForm = "none",
    raw: Raw = False,
    crc: Crc = None,
    summary: Annotated[
        bool, Option("--summary", help="One record: what the log holds, by topic.")
    ] = False,
) -> None:
    """Show what store files hold: messages, queue units, index entries, markers, configuration.

    A directory shows the messages of its CommitLog in physical order. Damages are reported on
    stderr with file, physical offset and length (in JSON also under errors); reading goes on at
    the next record. Nothing is ever written.
    """
    store = StoreDirectory(path, kind)
    if summary:
        _summary(session, store, crc)
        return
    begin, end = window(session, begin, end, time)
    query = Query(
        topic=topic,
        queue_id=queue,
        key=key,
        id=message_id,
        from_offset=from_offset,
        to_offset=to_offset,
        begin_ms=begin,
        end_ms=end,
        body=body,
        raw=raw,
        check_crc=crc is not False,
    )
    filtered = query != Query(body=body, raw=raw, check_crc=query.check_crc)
    nothing = f"nothing in {path} matches" if filtered else ""
    if store.kind in ("auto", "commitlog"):
        view, rows = INSPECT_MESSAGES, _messages(store, query)
    elif store.kind == "consumequeue":
        view, rows = INSPECT_QUEUE, unit_rows(store, query)
    elif store.kind == "index":
        view, rows = INSPECT_INDEX, index_rows(store, query)
    elif store.kind == "config":
        view, rows = _config(session, config_rows(store, query))
    else:
        _one(session, store)
        return
    show(session, view, rows, limit, nothing)


def _messages(store: Any, query: Any) -> Iterator[Any]:
    """Return messages by the most selective query: by id, by key through the index, else a scan."""
    if query.id is not None:
        rows: Iterator[Any] = find_id(store, query.id, query)
    elif query.key is not None:
        rows = find_key(store, query.key, query)
    else:
        rows = message_rows(store, query)
    return rows


def _one(session: Session, store: Any) -> None:
    """Print the files that contain one record: checkpoint and markers."""
    if store.kind == "state":
        session.emit_one(INSPECT_STATE, store.state())
        return

    try:
        found = store.checkpoint()
    except RemoteProtocolError as error:
        path = store.path if store.path.is_file() else store.path / "checkpoint"
        raise CorruptRecordError(str(path), 0, error.message) from error
    if found is None:
        raise NoResults(f"{store.path}: no checkpoint", "a broker writes one at its first stop")
    session.emit_one(INSPECT_CHECKPOINT, found)
    damages = Damages(Outcome())
    for row in checkpoint_damage(found):
        damages.add(row)
    damages.report(session)


def _config(session: Session, rows: Iterator[Any]) -> tuple[View, Iterator[Any]]:
    """Return configuration files: whole in JSON, one line per entry of their tables in a table."""
    if session.form in ("table", "wide", "csv"):
        return CONFIG_LINES, config_lines(rows)
    return INSPECT_CONFIG, rows


def config_lines(rows: Iterator[Any]) -> Iterator[Any]:
    """Yield one line per entry of each table of each file; damage records unchanged."""
    for row in rows:
        if not hasattr(row, "value"):
            yield row  # a damage record
            continue
        for table, content in row.value.items():
            entries = content.items() if isinstance(content, dict) else ((None, content),)
            for key, value in entries:
                yield {"name": row.name, "table": table, "key": key, "value": value}


def show(
    session: Session, view: View, rows: Iterator[Any], limit: int | None, nothing: str
) -> None:
    """Print rows, and report the damage records among them."""
    outcome = Outcome()
    damages = Damages(outcome)
    wanted = damages.apart(rows)
    if limit is not None:
        wanted = _limited(wanted, limit, outcome)
    try:
        session.emit(view, wanted, outcome, nothing=nothing)
    finally:
        damages.report(session)


def _limited(rows: Iterator[Any], limit: int, outcome: Outcome) -> Iterator[Any]:
    for number, row in enumerate(rows):
        if number == limit:
            outcome.truncated = outcome.asked = True
            outcome.reason = f"--limit {limit} is reached and there are more"
            return
        yield row


def _summary(session: Session, store: Any, crc: bool | None) -> None:
    found, rows = summarize(store, check_crc=crc)
    damages = Damages(Outcome())
    for row in rows:
        damages.add(row)
    session.emit_one(INSPECT_SUMMARY, found)
    damages.report(session)


@NOUN.verb(
    "find",
    view=(FIND, PLACES),
    examples=[
        "mqadmin store find /data/store --key 42 --topic orders",
        "mqadmin store find /data/store --id 7F00000100002A9F0000000000000000 --body text",
        "mqadmin store find /data/store --text 'order 4711' --time -1h..",
        "mqadmin store find /data/store --key 42 --scan always",
    ],
)
def find(
    session: Session,
    path: Path,
    key: Annotated[
        str | None, Option("--key", "-k", metavar="KEY", help="A word of KEYS, or a uniqKey.")
    ] = None,
    message_id: Annotated[
        str | None,
        Option("--id", "-i", metavar="ID", help="An offsetMsgId or a uniqKey.", parse=stored_id),
    ] = None,
    offset: Annotated[
        int | None, Option("--offset", metavar="N", help="A physical offset.", parse=whole)
    ] = None,
    text: Annotated[
        str | None,
        Option("--text", metavar="TEXT", help="Words that stand in the body.", any_bytes=True),
    ] = None,
    topic: Topic = None,
    queue: Queue = None,
    begin: Begin = None,
    end: End = None,
    time: Time = None,
    limit: Limit = None,
    scan: Annotated[
        Literal["auto", "always", "never"],
        Option("--scan", help="Read the log where the index does not cover it, whole, or not."),
    ] = "auto",
    body: BodyForm = "none",
    raw: Raw = False,
) -> None:
    """Find messages, and every place where each of them stands, as one timeline.

    By key or id the way goes through the IndexFile: each hit is compared with the record it leads
    to. --scan auto also reads the parts of the log that no index file covers, so nothing stays
    unseen; 'always' ignores the index, 'never' trusts it. A physical offset, words of the body or
    a time alone work, too. Each message is then followed by its uniqKey: its copies among delayed,
    half, retry and dead letter messages, their ConsumeQueue units and index entries, and the op
    records that close a half message. In JSON the places stand in each message.
    """
    given = {"key": key, "id": message_id, "physical offset": offset, "text": text}
    asked = [f"{name} {value}" for name, value in given.items() if value is not None]
    timed = (begin, end, time) != (None, None, None)
    if len(asked) > 1 or not (asked or timed):
        raise UsageFault("store find needs --key, --id, --offset, --text, or a time; one of them")
    store = StoreDirectory(path)
    begin, end = window(session, begin, end, time)
    search = Search(
        key=key,
        id=message_id,
        offset=offset,
        text=text,
        query=Query(topic=topic, queue_id=queue, begin_ms=begin, end_ms=end, body=body, raw=raw),
        scan=scan,
        most=min(limit or MAX_SEEDS, MAX_SEEDS),
    )
    found = find_places(store, search)
    looked = {
        "auto": "index asked, the rest of the log read",
        "always": "the whole log read",
        "never": "only the index asked; --scan auto reads what it does not cover",
    }[scan]
    if key is None and message_id is None:
        looked = "the log read"
    what = asked[0] if asked else "that time"
    outcome = Outcome()
    if found.more:
        outcome.truncated = True
        outcome.asked = limit is not None and limit <= MAX_SEEDS
        outcome.reason = f"there are more than {search.most} messages"
        if not outcome.asked:
            outcome.reason += "; narrow the search with --topic, --queue or --time"
    damages = Damages(outcome)
    rows = damages.apart(iter([*found.damages, *found.messages]))
    try:
        nothing = f"no message with {what} in {path} ({looked})"
        count = session.emit(FIND, rows, outcome, nothing=nothing)
        if count and session.is_table:
            write_out("\n")
            session.emit(PLACES, found.places)
    finally:
        damages.report(session)


@NOUN.verb(
    "layout",
    view=LAYOUT,
    examples=["mqadmin store layout", "mqadmin store layout record", "mqadmin store layout index"],
)
def layout(
    session: Session,
    name: Annotated[
        str, Argument("NAME", help="A layout or the beginning of its name; all when left out.")
    ] = "",
) -> None:
    """Print the layout of store files, field by field.

    The same tables drive the codecs: what is printed is what is read and written.
    """
    found = find_layouts(name)
    if not found:
        known = ", ".join(item.name for item in LAYOUTS)
        raise NoResults(f"no layout {name!r}", f"there are: {known}")
    if session.is_table:
        write_out("\n".join(layout_text(item) for item in found))
        return
    session.emit(LAYOUT, [layout_object(item) for item in found])
