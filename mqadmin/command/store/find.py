"""``mqadmin store find``."""

from typing import Annotated, Literal

from mqadmin.command.declare import Option
from mqadmin.command.failure import UsageFault
from mqadmin.command.session import Session
from mqadmin.command.store.damage_report import Damages
from mqadmin.command.store.inspect import INSPECT_MESSAGES
from mqadmin.command.store.noun import NOUN, BodyForm, Limit, Path, Queue, Raw, Topic, stored_id
from mqadmin.command.values import whole
from mqadmin.command.window import Begin, End, Time, window
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.inspector.timeline import MAX_SEEDS, Search, find_places
from mqadmin.output.stdio import write_out
from mqadmin.output.view import Outcome, View

FIND = View("store.find", INSPECT_MESSAGES.columns)
PLACES = View(
    "store.find.places",
    ("storeTime", "place", "role", "topic", "queueId", "queueOffset", "physicalOffset", "detail"),
)


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
