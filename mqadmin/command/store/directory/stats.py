"""``mqadmin store stats``."""

from itertools import islice
from typing import Annotated, Literal

from mqadmin.command.execution.session import Session
from mqadmin.command.execution.window import Begin, End, Time, window
from mqadmin.command.framework.declare import Option, Options
from mqadmin.command.store.damage_report import DamageReport
from mqadmin.command.store.noun import NOUN, Limit, Path, Queue, Topic
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.statistics import Statistics, statistics
from mqadmin.inspector.query import Query
from mqadmin.output.view import Outcome, View

STATS = View(
    "store.stats",
    ("value", "messages", "bytes", "share", "averageBytes"),
    keep=("value",),
    texts={"share": lambda share: f"{share:.2%}"},
)
DEFAULT_ROWS = 100


class StatsOptions(Options):
    """Options of ``mqadmin store stats``."""

    path: Path
    by: Annotated[
        Literal["topic", "tag", "key", "host", "size"],
        Option("--by", help="Attribute by which messages are counted."),
    ] = "topic"
    topic: Topic = None
    queue: Queue = None
    begin: Begin = None
    end: End = None
    time: Time = None
    limit: Limit = None
    crc: Annotated[bool, Option("--crc/--no-crc", help="Verify the checksum of each body.")] = False


@NOUN.verb(
    "stats",
    view=STATS,
    examples=[
        "mqadmin store stats /data/store",
        "mqadmin store stats /data/store --by tag --topic orders --since -1d",
        "mqadmin store stats /data/store --by key --limit 20",
        "mqadmin store stats /data/store --by size -o json",
    ],
)
def stats(session: Session, given: StatsOptions) -> None:
    """Count the messages and bytes of a store by topic, tag, key, producer host, or size.

    One scan of the log; rows with the most bytes are first, sizes in powers of two in ascending
    order. Bytes are those of the stored records; share is the part of all counted bytes. A dash is
    for messages without the attribute; a message with several keys is counted under each. Damaged
    regions are reported and skipped, the status is then 7.

    At most 100 rows are shown unless --limit is given. Memory is bounded: beyond some 200,000
    different values the rarest are dropped, which is reported (status 5), and maxMissed is the
    greatest number of messages that a row can lack.
    """
    store = StoreDirectory(given.path)
    begin, end = window(session, given.begin, given.end, given.time)
    query = Query(
        topic=given.topic, queue_id=given.queue, begin_ms=begin, end_ms=end, check_crc=given.crc
    )
    found = statistics(store, given.by, query)
    with DamageReport(session, _outcome(found, given.limit)) as damage:
        for row in found.damaged_regions:
            damage.add(row)
        session.emit(
            STATS,
            islice(found.rows, given.limit or DEFAULT_ROWS),
            damage.outcome,
            nothing=f"nothing in {given.path} matches",
        )
    if session.is_machine:
        return
    if found.damaged_count > len(found.damaged_regions):
        session.note(f"{found.damaged_count} damaged regions in total")
    session.note(f"{found.messages} messages, {found.bytes} bytes, {len(found.rows)} rows")


def _outcome(found: Statistics, limit: int | None) -> Outcome:
    outcome = Outcome()
    if found.dropped_messages:
        outcome.truncated = True
        outcome.reason = (
            f"{found.dropped_messages} messages with rare values are in no row: too many different"
            " values; --topic, --queue or --time selects fewer"
        )
    elif len(found.rows) > (limit or DEFAULT_ROWS):
        outcome.truncated = True
        outcome.asked = limit is not None
        outcome.reason = f"only the first {limit or DEFAULT_ROWS} rows are shown (--limit)"
    return outcome
