"""``mqadmin store find``."""

from typing import Annotated, Literal

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.window import Begin, End, Time, window
from mqadmin.command.framework.declare import Option, Options
from mqadmin.command.framework.values import whole
from mqadmin.command.store.damage_report import DamageReport
from mqadmin.command.store.inspect import INSPECT_MESSAGES
from mqadmin.command.store.noun import (
    NOUN,
    BodyForm,
    Limit,
    Path,
    Queue,
    Raw,
    Topic,
    refuse_raw_alone,
    stored_id,
)
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.timeline import MAX_SEEDS, Search, find_places
from mqadmin.inspector.query import Query
from mqadmin.output.stdio import write_out
from mqadmin.output.view import Outcome, View

FIND = View("store.find", INSPECT_MESSAGES.columns)
PLACES = View(
    "store.find.places",
    ("storeTime", "place", "role", "topic", "queueId", "queueOffset", "physicalOffset", "detail"),
)


class FindOptions(Options):
    """Options of ``mqadmin store find``."""

    path: Path
    key: Annotated[
        str | None, Option("--key", "-k", metavar="KEY", help="A word of KEYS, or a uniqKey.")
    ] = None
    message_id: Annotated[
        str | None,
        Option("--id", "-i", metavar="ID", help="An offsetMsgId or a uniqKey.", parse=stored_id),
    ] = None
    offset: Annotated[
        int | None, Option("--offset", metavar="N", help="A physical offset.", parse=whole)
    ] = None
    text: Annotated[
        str | None,
        Option("--text", metavar="TEXT", help="Text contained in the body.", any_bytes=True),
    ] = None
    topic: Topic = None
    queue: Queue = None
    begin: Begin = None
    end: End = None
    time: Time = None
    limit: Limit = None
    scan: Annotated[
        Literal["auto", "always", "never"],
        Option("--scan", help="Search the log: where no index covers it, all of it, or never."),
    ] = "auto"
    body: BodyForm = "none"
    raw: Raw = False


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
def find(session: Session, given: FindOptions) -> None:
    """Find messages and all their locations in the store, as a timeline.

    Keys and ids are looked up in the IndexFiles, and each hit is compared with its record. --scan
    auto also reads the parts of the log that no IndexFile covers, always reads the whole log, never
    only the index. A physical offset, text of the body or a time alone select messages, too. For
    each message the records with its uniqKey are listed: copies among delayed, half, retry and
    dead-letter messages, their ConsumeQueue units and index entries, and the op records of half
    messages. In JSON the locations are fields of each message.
    """
    refuse_raw_alone(given.body, given.raw)
    wanted = _wanted(given)
    store = StoreDirectory(given.path)
    begin, end = window(session, given.begin, given.end, given.time)
    search = Search(
        key=given.key,
        id=given.message_id,
        offset=given.offset,
        text=given.text,
        query=Query(
            topic=given.topic,
            queue_id=given.queue,
            begin_ms=begin,
            end_ms=end,
            body=given.body,
            raw=given.raw,
        ),
        scan=given.scan,
        most=min(given.limit or MAX_SEEDS, MAX_SEEDS),
    )
    found = find_places(store, search)
    outcome = Outcome()
    if found.more:
        outcome.truncated = True
        outcome.asked = given.limit is not None and given.limit <= MAX_SEEDS
        outcome.reason = f"there are more than {search.most} messages"
        if not outcome.asked:
            outcome.reason += "; narrow the search with --topic, --queue or --time"
    with DamageReport(session, outcome) as damage:
        rows = damage.apart([*found.damaged_regions, *found.messages])
        nothing = f"no message with {wanted} in {given.path} ({_extent(given)})"
        count = session.emit(FIND, rows, outcome, nothing=nothing)
        if count and session.is_table:
            write_out("\n")
            session.emit(PLACES, found.places)


def _wanted(given: FindOptions) -> str:
    """Return the one condition as text; UsageFault for none or two."""
    conditions = {
        "key": given.key,
        "id": given.message_id,
        "physical offset": given.offset,
        "text": given.text,
    }
    asked = [f"{name} {value}" for name, value in conditions.items() if value is not None]
    timed = (given.begin, given.end, given.time) != (None, None, None)
    if len(asked) > 1 or not (asked or timed):
        raise UsageFault("store find needs one of --key, --id, --offset, --text, or a time window")
    return asked[0] if asked else "that time"


def _extent(given: FindOptions) -> str:
    """Return which files were searched, for an empty result."""
    if given.key is None and given.message_id is None:
        return "searched the log"
    return {
        "auto": "searched the index and the rest of the log",
        "always": "searched the whole log",
        "never": "searched only the index; --scan auto also searches the rest of the log",
    }[given.scan]
