"""``mqadmin store``: queue, index, config, each about one kind of file."""

from collections.abc import Iterator
from typing import Annotated, Any

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import whole
from mqadmin.command.store.damage_report import DamageReport
from mqadmin.command.store.inspect import CONFIG_LINES, INSPECT_INDEX, INSPECT_QUEUE, config_lines
from mqadmin.command.store.noun import NOUN, Limit, Path, Queue, Topic
from mqadmin.inspector.configs import config_rows
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.index import index_rows
from mqadmin.inspector.queries.queues import queue_rows, unit_rows
from mqadmin.inspector.query import Query
from mqadmin.output.view import View

QUEUES = View(
    "store.queue",
    (
        *("topic", "queueId", "minOffset", "maxOffset", "units"),
        *("firstPhysicalOffset", "lastPhysicalOffset", "kind"),
    ),
)
CONFIG = View("store.config", keep=("value",))


@NOUN.verb(
    "queue",
    view=(QUEUES, INSPECT_QUEUE),
    examples=[
        "mqadmin store queue /data/store",
        "mqadmin store queue /data/store --topic orders",
        "mqadmin store queue /data/store --topic orders --queue 3 --units --from 1000 --limit 20",
    ],
)
def queue(
    session: Session,
    path: Path,
    topic: Topic = None,
    queue: Queue = None,
    units: Annotated[bool, Option("--units", help="Show the units.")] = False,
    from_offset: Annotated[
        int | None,
        Option("--from", metavar="N", help="With --units: from this queue offset.", parse=whole),
    ] = None,
    to_offset: Annotated[
        int | None,
        Option("--to", metavar="N", help="With --units: before this queue offset.", parse=whole),
    ] = None,
    limit: Limit = None,
) -> None:
    """Show message queues with their bounds, or their units.

    minOffset is the first unit whose record is in the log, maxOffset the queue offset of the next
    message.
    """
    bounds = {"--from": from_offset, "--to": to_offset}
    stray = [name for name, value in bounds.items() if value is not None]
    if stray and not units:
        raise UsageFault(
            f"store queue: {', '.join(stray)} cannot be applied without --units", "add --units"
        )
    store = StoreDirectory(path)
    nothing = f"nothing in {path} matches"
    if units:
        query = Query(topic=topic, queue_id=queue, from_offset=from_offset, to_offset=to_offset)
        _show(session, INSPECT_QUEUE, unit_rows(store, query), limit, nothing)
        return
    rows = (row for row in queue_rows(store, topic) if queue in (None, row.queue_id))
    _show(session, QUEUES, rows, limit, nothing)


@NOUN.verb(
    "index",
    view=INSPECT_INDEX,
    examples=[
        "mqadmin store index /data/store",
        "mqadmin store index /data/store --entries --key 42 --topic orders",
    ],
)
def index(
    session: Session,
    path: Path,
    entries: Annotated[bool, Option("--entries", help="Show the entries.")] = False,
    key: Annotated[
        str | None, Option("--key", "-k", metavar="KEY", help="Only entries of this key.")
    ] = None,
    topic: Topic = None,
    limit: Limit = None,
) -> None:
    """Show IndexFiles: range, number of entries, and the entries.

    Entries of a key may belong to another key with the same hash; 'store find' compares them with
    the records.
    """
    if topic is not None and key is None:
        raise UsageFault(
            "store index: --topic cannot be applied without --key",
            "an entry has no topic, only a hash of topic and key",
        )
    rows: Iterator[Any] = index_rows(StoreDirectory(path), Query(topic=topic, key=key))
    if not entries and key is None:
        rows = (row for row in rows if getattr(row, "record", "file") == "file")
    nothing = f"no IndexFile in {path}" if key is None else f"nothing in {path} matches"
    _show(session, INSPECT_INDEX, rows, limit, nothing)


@NOUN.verb(
    "config",
    view=CONFIG,
    examples=[
        "mqadmin store config /data/store",
        "mqadmin store config /data/store --topic orders -o json",
    ],
)
def config(session: Session, path: Path, topic: Topic = None) -> None:
    """Show the files of config/: topics, groups, offsets; from a backup if a file is unreadable."""
    rows: Iterator[Any] = config_rows(StoreDirectory(path), Query(topic=topic))
    view = CONFIG
    if session.is_flat:
        view, rows = CONFIG_LINES, config_lines(rows)
    _show(session, view, rows, None, f"no configuration in {path}")


def _show(
    session: Session, view: View, rows: Iterator[Any], limit: int | None, nothing: str
) -> None:
    """Print rows, and report the damage records among them."""
    with DamageReport(session) as damage:
        session.emit(view, damage.apart(rows, limit), damage.outcome, nothing=nothing)
