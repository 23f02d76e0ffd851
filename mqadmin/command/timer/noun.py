"""``mqadmin timer``: list, recall."""

from typing import Annotated

from mqadmin.admin.delayed import timers as library
from mqadmin.command.execution.each import run_each
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.command.framework.values import count, time_ms
from mqadmin.command.offline import OneBroker, OneCluster, StoreDir, bounded, refuse_online_options
from mqadmin.inspector.delayed.timers import pending_timers
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.output.view import View
from mqadmin.system_topics.timers import TimerFilter

NOUN = Noun(
    "timer",
    """List and recall timer messages that wait for their time.

    A message with TIMER_DELAY_SEC, TIMER_DELAY_MS or TIMER_DELIVER_MS (5.x) waits in
    rmq_sys_wheel_timer; the broker keeps its time in timerwheel and timerlog. Until then a producer
    or this command can recall it (5.3.2 and later, recallMessageEnable).
    """,
)

DEFAULT_LIMIT = library.DEFAULT_LIMIT
DEFAULT_SCAN = library.DEFAULT_SCAN

TIMER_LIST = View(
    "timer.list",
    (
        *("topic", "brokerName", "queueId", "dueTime", "dueInMs", "keys", "uniqKey"),
        *("rollTimes", "queueOffset", "recallHandle"),
    ),
)
TIMER_RECALL = View(
    "timer.recall", ("uniqKey", "topic", "brokerName", "address", "dueTime", "status", "note")
)


@NOUN.verb(
    "list",
    view=TIMER_LIST,
    examples=[
        "mqadmin timer list --topic orders",
        "mqadmin timer list --store /data/store -o json",
    ],
)
def list_timers(
    session: Session,
    topic: Annotated[
        str | None,
        Option("--topic", "-t", metavar="TOPIC", help="Only messages for this topic."),
    ] = None,
    key: Annotated[
        str | None,
        Option("--key", "-k", metavar="KEY", help="Only this key, uniqKey or offsetMsgId."),
    ] = None,
    system: Annotated[
        bool, Option("--system", help="Include check points and acknowledgements of POP.")
    ] = False,
    cluster: OneCluster = None,
    broker: OneBroker = None,
    store: StoreDir = None,
    scan: Annotated[
        int | None,
        Option(
            "--scan",
            metavar="N",
            help=f"Of running brokers: records read of each, default {DEFAULT_SCAN}.",
            parse=count,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        Option("--limit", metavar="N", help=f"Default {DEFAULT_LIMIT}.", parse=count),
    ] = None,
) -> None:
    """List timer messages that wait, by due time.

    With --store the wheel and the timer log of a store directory are read, of a Java broker 5.x
    too; running brokers are asked for the newest records of rmq_sys_wheel_timer.
    """
    wanted = TimerFilter(topic=topic, key=key, system=system)
    if store is not None:
        refuse_online_options(scan=scan, cluster=cluster, broker=broker)
        found = pending_timers(StoreDirectory(store), now_ms=time_ms("now"))
        rows = (row for row in found if wanted.accepts(row))
        bounded(session, TIMER_LIST, rows, limit, DEFAULT_LIMIT)
        return
    listing = library.TimerAdmin(session.admin).list(
        wanted,
        cluster=cluster,
        broker=broker,
        limit=limit or DEFAULT_LIMIT,
        scan=scan or DEFAULT_SCAN,
    )
    session.emit_listing(TIMER_LIST, listing, limit=limit)


@NOUN.verb(
    "recall",
    view=TIMER_RECALL,
    changes=True,
    examples=["mqadmin timer recall C0A8000100002A9F0000000000000000 --yes"],
)
def recall(
    session: Session,
    words: Annotated[
        list[str],
        Argument(
            "HANDLE|ID", help="Recall handles, or ids or keys of messages that timer list shows."
        ),
    ],
) -> None:
    """Recall timer messages: they are not delivered.

    The broker must have recallMessageEnable=true, and the message must not be due yet. A message
    that was delivered in the meantime stays delivered: brokers do not report that.
    """
    session.require_consent()
    timers = library.TimerAdmin(session.admin)
    items = timers.plan_recall(words)
    run_each(session, TIMER_RECALL, items, timers.recall, f"recall {len(items)} messages?")
