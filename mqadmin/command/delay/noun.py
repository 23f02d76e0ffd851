"""``mqadmin delay``: levels, pending."""

from typing import Annotated

from mqadmin.admin.delayed import levels as library
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Noun, Option
from mqadmin.command.framework.values import count, positive_int32, time_ms
from mqadmin.command.offline import OneBroker, OneCluster, StoreDir, bounded, refuse_online_options
from mqadmin.inspector.delayed import levels as offline
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.output.view import View
from mqadmin.system_topics.delay_levels import DelayFilter

NOUN = Noun(
    "delay",
    """Show delay levels and the messages that wait in them.

    A message with a delay level, and each retry of a failed message, waits in one queue per level
    of SCHEDULE_TOPIC_XXXX until its delay has passed. Messages with a time of delivery of their
    own are timer messages: mqadmin timer.
    """,
)

DEFAULT_LIMIT = library.DEFAULT_LIMIT

DELAY_LEVELS = View(
    "delay.levels",
    (
        *("brokerName", "level", "delayMs", "offset", "maxOffset", "backlog"),
        *("nextDueTime", "nextDueInMs"),
    ),
    keep=("backlog", "nextDueTime"),
)
DELAY_PENDING = View(
    "delay.pending",
    (
        *("level", "topic", "brokerName", "queueId", "dueTime", "dueInMs", "keys"),
        *("reconsumeTimes", "uniqKey", "queueOffset"),
    ),
)


@NOUN.verb(
    "levels",
    view=DELAY_LEVELS,
    examples=["mqadmin delay levels", "mqadmin delay levels --store /data/store -o json"],
)
def levels(
    session: Session,
    cluster: OneCluster = None,
    broker: OneBroker = None,
    store: StoreDir = None,
) -> None:
    """Show each delay level: delay, messages that wait, next delivery.

    A next delivery long in the past: the broker does not deliver the level.
    """
    if store is not None:
        refuse_online_options(cluster=cluster, broker=broker)
        session.emit(
            DELAY_LEVELS, offline.delay_levels(StoreDirectory(store), now_ms=time_ms("now"))
        )
        return
    found = library.DelayAdmin(session.admin).levels(cluster=cluster, broker=broker)
    session.emit_listing(DELAY_LEVELS, found)


@NOUN.verb(
    "pending",
    view=DELAY_PENDING,
    examples=[
        "mqadmin delay pending --level 3",
        "mqadmin delay pending --topic orders --store /data/store -o json",
    ],
)
def pending(
    session: Session,
    level: Annotated[
        int | None,
        Option("--level", metavar="N", help="Only this delay level.", parse=positive_int32),
    ] = None,
    topic: Annotated[
        str | None,
        Option("--topic", "-t", metavar="TOPIC", help="Only messages for this topic."),
    ] = None,
    cluster: OneCluster = None,
    broker: OneBroker = None,
    store: StoreDir = None,
    limit: Annotated[
        int | None,
        Option("--limit", metavar="N", help=f"Default {DEFAULT_LIMIT}.", parse=count),
    ] = None,
) -> None:
    """List messages that wait in delay levels, by time of delivery."""
    wanted = DelayFilter(level=level, topic=topic)
    if store is not None:
        refuse_online_options(cluster=cluster, broker=broker)
        rows = offline.delayed_messages(StoreDirectory(store), wanted, now_ms=time_ms("now"))
        bounded(session, DELAY_PENDING, rows, limit, DEFAULT_LIMIT)
        return
    found = library.DelayAdmin(session.admin).pending(
        wanted, cluster=cluster, broker=broker, limit=limit or DEFAULT_LIMIT
    )
    session.emit_listing(DELAY_PENDING, found, limit=limit)
