"""``mqadmin store inspect``."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from broker.errors import CorruptRecordError, RemoteProtocolError
from mqadmin.command.execution.failure import NoResults, UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.window import Begin, End, Time, window
from mqadmin.command.framework.declare import Option, Options
from mqadmin.command.framework.values import whole
from mqadmin.command.store.damage_report import DamageReport
from mqadmin.command.store.delayed import VIEWS, delayed_rows
from mqadmin.command.store.noun import (
    NOUN,
    BodyForm,
    Key,
    Limit,
    Path,
    Queue,
    Raw,
    Topic,
    refuse_raw_alone,
    stored_id,
)
from mqadmin.inspector.configs import config_rows
from mqadmin.inspector.damage import checkpoint_damage
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.index import index_rows
from mqadmin.inspector.queries.find import find_id, find_key
from mqadmin.inspector.queries.messages import scan_messages
from mqadmin.inspector.queries.queues import unit_rows
from mqadmin.inspector.queries.summary import summarize
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import ConfigRow, DamageRow, IndexRow, QueueUnitRow
from mqadmin.message_row import MessageRow
from mqadmin.output.view import View

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

Kind = Literal[
    "auto",
    "commitlog",
    "consumequeue",
    "index",
    "checkpoint",
    "config",
    "state",
    "timerwheel",
    "timerlog",
    "ext",
    "pop",
    "transaction",
    "static",
]
Crc = Annotated[bool | None, Option("--crc/--no-crc", help="Verify the checksum of each body.")]

_TIMES: Final = frozenset({"--since", "--until", "--time"})
_PLACE: Final = frozenset({"--from", "--to"})
_CRC: Final = frozenset({"--crc", "--no-crc"})
_UNITS: Final = frozenset({"--topic", "--queue", "--key", "--id", "--limit", *_PLACE, *_TIMES})
# Kind -> the options that it applies.
_APPLIED: Final[dict[str, frozenset[str]]] = {
    "commitlog": _UNITS | _CRC | {"--body", "--raw"},
    "consumequeue": _UNITS,
    "index": _PLACE | _TIMES | {"--topic", "--key", "--limit"},
    "checkpoint": frozenset(),
    "config": frozenset({"--topic", "--limit"}),
    "state": frozenset(),
    "timerwheel": _TIMES | {"--limit"},
    "timerlog": _TIMES | _PLACE | {"--limit"},
    "ext": _TIMES | _PLACE | {"--topic", "--queue", "--limit"},
    "pop": frozenset({"--topic", "--queue", "--key", "--limit"}),
    "transaction": frozenset({"--topic", "--key", "--id", "--limit"}),
    "static": frozenset({"--topic", "--queue", "--limit"}),
}


class InspectOptions(Options):
    """Options of ``mqadmin store inspect``."""

    path: Path
    kind: Annotated[
        Kind,
        Option("--kind", help="Kind of file; auto detects it by path, name and content."),
    ] = "auto"
    topic: Topic = None
    queue: Queue = None
    key: Key = None
    message_id: Annotated[
        str | None,
        Option(
            "--id",
            "-i",
            metavar="ID",
            help="Only this offsetMsgId or uniqKey.",
            parse=stored_id,
        ),
    ] = None
    from_offset: Annotated[
        int | None,
        Option(
            "--from",
            metavar="OFFSET",
            help="First offset: physical, in ConsumeQueues the queue offset.",
            parse=whole,
        ),
    ] = None
    to_offset: Annotated[
        int | None,
        Option("--to", metavar="OFFSET", help="End offset, exclusive.", parse=whole),
    ] = None
    begin: Begin = None
    end: End = None
    time: Time = None
    limit: Limit = None
    body: BodyForm = "none"
    raw: Raw = False
    crc: Crc = None
    summary: Annotated[
        bool, Option("--summary", help="Print one summary of the log, by topic.")
    ] = False


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
        *VIEWS,
    ),
    examples=[
        "mqadmin store inspect /data/store --summary",
        "mqadmin store inspect /data/store --topic orders --since -2h --body text",
        "mqadmin store inspect /data/store --kind consumequeue --topic orders --queue 3",
        "mqadmin store inspect /data/store/commitlog/00000000000000000000 --from 4096 --limit 5",
        "mqadmin store inspect /data/store --kind config -o json",
        "mqadmin store inspect /data/store --kind pop --key GROUP",
    ],
)
def inspect(session: Session, given: InspectOptions) -> None:
    """Show the contents of store files: messages, units, index entries, markers, configuration.

    For a store directory the messages of its CommitLog are listed in physical order. Damaged
    regions are reported on stderr with file, physical offset and length (in JSON also in errors),
    and the scan resumes at the next record. Nothing is written.

    An option that a kind or --summary cannot apply is refused; index applies --topic with --key.

    Kinds that are contained in other files: pop lists the check points that are not revived yet
    (--key selects the group), transaction the half messages that are not decided, static the
    segments of the queues of static topics.
    """
    store = StoreDirectory(given.path, given.kind)
    _refuse_stray(given, "commitlog" if store.kind == "auto" else store.kind)
    if given.summary:
        _summary(session, store, given.crc)
        return
    query = _query(session, given)
    filtered = query != Query(body=given.body, raw=given.raw, check_crc=query.check_crc)
    nothing = f"nothing in {given.path} matches" if filtered else ""
    rows: Iterator[MessageRow | QueueUnitRow | IndexRow | ConfigRow | dict[str, Any] | DamageRow]
    if store.kind in ("auto", "commitlog"):
        view, rows = INSPECT_MESSAGES, _messages(store, query)
    elif store.kind == "consumequeue":
        view, rows = INSPECT_QUEUE, unit_rows(store, query)
    elif store.kind == "index":
        view, rows = INSPECT_INDEX, index_rows(store, query)
    elif store.kind == "config":
        view, rows = _config(session, config_rows(store, query))
    elif store.kind in ("checkpoint", "state"):
        _one(session, store)
        return
    else:
        view, rows = delayed_rows(store, query)
    with DamageReport(session) as damage:
        session.emit(view, damage.apart(rows, given.limit), damage.outcome, nothing=nothing)


def _named(given: InspectOptions) -> set[str]:
    """Return the names of the options given on the command line that select or show rows."""
    values = {
        "--topic": given.topic,
        "--queue": given.queue,
        "--key": given.key,
        "--id": given.message_id,
        "--from": given.from_offset,
        "--to": given.to_offset,
        "--since": given.begin,
        "--until": given.end,
        "--time": given.time,
        "--limit": given.limit,
        "--body": None if given.body == "none" else given.body,
        "--raw": given.raw or None,
        "--no-crc" if given.crc is False else "--crc": given.crc,
    }
    return {name for name, value in values.items() if value is not None}


def _refuse_stray(given: InspectOptions, kind: str) -> None:
    """Raise UsageFault for options that the summary, or the kind, cannot apply."""
    if given.summary and given.kind not in ("auto", "commitlog"):
        raise UsageFault(
            f"--summary cannot be applied with --kind {given.kind}", "it is a summary of the log"
        )
    form, applied = f"--kind {kind}", _APPLIED[kind]
    if given.summary:
        form, applied = "--summary", _CRC
    named = _named(given)
    stray = sorted(named - applied)
    if stray:
        raise UsageFault(
            f"{', '.join(stray)} cannot be applied with {form}",
            f"with {form}: " + (", ".join(sorted(applied)) or "none"),
        )
    if kind == "index" and "--topic" in named and "--key" not in named:
        raise UsageFault(
            "--topic cannot be applied with --kind index without --key",
            "an entry has no topic, only a hash of topic and key",
        )
    refuse_raw_alone(given.body, given.raw)
    if kind == "commitlog" and named >= {"--id", "--key"}:
        raise UsageFault("--id and --key exclude each other", "use one of them")


def _query(session: Session, given: InspectOptions) -> Query:
    begin, end = window(session, given.begin, given.end, given.time)
    return Query(
        topic=given.topic,
        queue_id=given.queue,
        key=given.key,
        id=given.message_id,
        from_offset=given.from_offset,
        to_offset=given.to_offset,
        begin_ms=begin,
        end_ms=end,
        body=given.body,
        raw=given.raw,
        check_crc=given.crc is not False,
    )


def _messages(store: StoreDirectory, query: Query) -> Iterator[MessageRow | DamageRow]:
    """Return messages by the most selective query: by id, by key through the index, else a scan."""
    if query.id is not None:
        return find_id(store, query.id, query)
    if query.key is not None:
        return find_key(store, query.key, query)
    return scan_messages(store, query)


def _one(session: Session, store: StoreDirectory) -> None:
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
    with DamageReport(session) as damage:
        for row in checkpoint_damage(found):
            damage.add(row)


def _config(session: Session, rows: Iterator[Any]) -> tuple[View, Iterator[Any]]:
    """Return configuration files: whole in JSON, one line per entry of their tables in a table."""
    if session.is_flat:
        return CONFIG_LINES, config_lines(rows)
    return INSPECT_CONFIG, rows


def config_lines(
    rows: Iterator[ConfigRow | DamageRow],
) -> Iterator[dict[str, Any] | DamageRow]:
    """Yield one line per entry of each table of each file; damage records unchanged."""
    for row in rows:
        if isinstance(row, DamageRow):
            yield row
            continue
        for table, content in row.value.items():
            entries = content.items() if isinstance(content, dict) else ((None, content),)
            for key, value in entries:
                yield {"name": row.name, "table": table, "key": key, "value": value}


def _summary(session: Session, store: StoreDirectory, crc: bool | None) -> None:
    found, rows = summarize(store, check_crc=crc)
    with DamageReport(session) as damage:
        for row in rows:
            damage.add(row)
        session.emit_one(INSPECT_SUMMARY, found)
