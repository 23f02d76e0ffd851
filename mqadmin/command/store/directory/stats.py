"""``mqadmin store stats``."""

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from msgspec import to_builtins

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.window import Begin, End, Time, window
from mqadmin.command.framework.declare import Option, Options
from mqadmin.command.store.damage_report import DamageReport
from mqadmin.command.store.noun import NOUN, Limit, Path, Queue, Topic
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.statistics import Statistics, StatsRow, statistics
from mqadmin.inspector.query import Query
from mqadmin.output.bars import bar
from mqadmin.output.view import Outcome, View
from mqadmin.pipeline.sinks.plot import check_plot_path, draw_statistics

STATS = View(
    "store.stats",
    ("value", "messages", "bytes", "share", "averageBytes"),
    keep=("value",),
    texts={"share": lambda share: f"{share:.2%}"},
)
BARS = View(
    "store.stats",
    ("value", "messages", "bytes", "share", "bar"),
    keep=("value", "bar"),
    texts=STATS.texts,
)
BAR_CELLS = 30
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
    bars: Annotated[
        bool, Option("--bars", help="Draw a bar per row in the table: messages by size, bytes.")
    ] = False
    plot: Annotated[
        str | None,
        Option(
            "--plot",
            metavar="FILE",
            help="Draw a chart to FILE (.png, .svg, .html; extra plot).",
            complete="file",
        ),
    ] = None
    crc: Annotated[bool, Option("--crc/--no-crc", help="Verify the checksum of each body.")] = False


@NOUN.verb(
    "stats",
    view=STATS,
    examples=[
        "mqadmin store stats /data/store",
        "mqadmin store stats /data/store --by tag --topic orders --since -1d",
        "mqadmin store stats /data/store --by key --limit 20",
        "mqadmin store stats /data/store --by size --bars",
        "mqadmin store stats /data/store --by size --plot sizes.svg -o json",
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

    --bars adds a bar to each row of the table, --plot writes a chart of the rows to a file: the
    messages by size, else the bytes.
    """
    if given.bars and not session.is_table:
        raise UsageFault(f"--bars draws in a table, not in -o {session.form}", "--plot FILE")
    if given.plot is not None:
        check_plot_path(given.plot)
    store = StoreDirectory(given.path)
    begin, end = window(session, given.begin, given.end, given.time)
    query = Query(
        topic=given.topic, queue_id=given.queue, begin_ms=begin, end_ms=end, check_crc=given.crc
    )
    found = statistics(store, given.by, query)
    with DamageReport(session, _outcome(found, given.limit)) as damage:
        for row in found.damaged_regions:
            damage.add(row)
        rows = list(islice(found.rows, given.limit or DEFAULT_ROWS))
        session.emit(
            BARS if given.bars else STATS,
            with_bars(given.by, rows) if given.bars else rows,
            damage.outcome,
            nothing=f"nothing in {given.path} matches",
        )
        if given.plot is not None and rows:
            draw_statistics(given.by, [to_builtins(row) for row in rows], given.plot)
            session.note(f"plot written to {given.plot}")
    if session.is_machine:
        return
    if found.damaged_count > len(found.damaged_regions):
        session.note(f"{found.damaged_count} damaged regions in total")
    session.note(f"{found.messages} messages, {found.bytes} bytes, {len(found.rows)} rows")


def with_bars(by: str, rows: Sequence[StatsRow]) -> list[dict[str, Any]]:
    """Return the rows with a bar of their messages (sizes) or bytes."""
    counts = [row.messages if by == "size" else row.bytes for row in rows]
    most = max(counts, default=0)
    return [
        {**to_builtins(row), "bar": bar(count, most, width=BAR_CELLS)}
        for row, count in zip(rows, counts, strict=True)
    ]


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
