"""``mqadmin cluster top``."""

from mqadmin.command.cluster import NOUN
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import Interval, Once, OnlyCluster
from mqadmin.command.framework.nouns import live_run
from mqadmin.output.values import rate_text, seconds_text, share_text, size_text
from mqadmin.output.view import View

CLUSTER_TOP = View(
    "cluster.top",
    (
        "brokerName",
        "brokerId",
        "state",
        "inTps",
        "outTps",
        "commitLogDiskRatio",
        "diskFree",
        "pageCacheLock",
        "sendQueueWait",
        "sendQueueSize",
        "putLatency99",
        "dispatchBehind",
        "flushBehind",
        "address",
    ),
    texts={
        "inTps": rate_text,
        "outTps": rate_text,
        "commitLogDiskRatio": share_text,
        "diskFree": size_text,
        "pageCacheLock": seconds_text,
        "sendQueueWait": seconds_text,
        "dispatchBehind": size_text,
        "flushBehind": size_text,
    },
)


@NOUN.verb(
    "top",
    view=CLUSTER_TOP,
    examples=["mqadmin cluster top", "mqadmin cluster top --once --sort outTps:desc -o json"],
)
def top(
    session: Session,
    cluster: OnlyCluster = None,
    interval: Interval = 2000,
    once: Once = False,
) -> None:
    """Show the load of brokers on a live screen: rates, disks, brokers that are slow or down.

    Keys: q quits, s sorts by the next column, r reverses the order, f freezes the screen. With
    --once or another output than a table it prints one measurement. mqadmin topic top shows
    topics and the lag of their groups.
    """
    live_run().cluster_top(session, CLUSTER_TOP, cluster, once=once, interval_ms=interval)
