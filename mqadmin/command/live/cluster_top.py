"""``mqadmin cluster top``."""

from typing import Annotated

from mqadmin.admin.load.brokers import broker_loads
from mqadmin.command.cluster import NOUN
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import OnlyCluster
from mqadmin.command.framework.declare import Option
from mqadmin.command.live.top import Interval, Once, run_top
from mqadmin.output.units import rate_text, seconds_text, share_text, size_text
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
    examples=["mqadmin cluster top", "mqadmin cluster top --once --sort outTps -o json"],
)
def top(
    session: Session,
    cluster: OnlyCluster = None,
    sort: Annotated[
        str, Option("--sort", metavar="FIELD", help="Field of the first order.")
    ] = "inTps",
    interval: Interval = 2000,
    once: Once = False,
) -> None:
    """Show the load of brokers on a live screen: rates, disks, brokers that are slow or down.

    Keys: q quits, s sorts by the next column, r reverses the order, f freezes the screen. With
    --once or another output than a table it prints one measurement. mqadmin topic top shows
    topics and the lag of their groups.
    """
    run_top(
        session,
        CLUSTER_TOP,
        lambda admin: broker_loads(admin, cluster=cluster),
        sort=sort,
        once=once,
        interval_ms=interval,
        nothing="no broker is registered at the name server",
    )
