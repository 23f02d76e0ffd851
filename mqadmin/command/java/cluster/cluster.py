"""Java's queries of clusters: clusterList."""

from collections.abc import Mapping

from mqadmin.admin.broker import BrokerAdmin
from mqadmin.admin.cluster import first_number, whole_number
from mqadmin.admin.topology import Target
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

ROW = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %11s  %-12s  %-8s  %10s"
MORE_ROW = "%-16s  %-32s %14s %14s %14s %14s"

HEADER = (
    *("#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)"),
    *("#OutTPS(LOAD)", "#Timer(Progress)", "#PCWait(ms)", "#Hour", "#SPACE", "#ACTIVATED"),
)
MORE_HEADER = (
    *("#Cluster Name", "#Broker Name", "#InTotalYest", "#OutTotalYest"),
    *("#InTotalToday", "#OutTotalToday"),
)

HOUR_MS = 3_600_000
TEN_THOUSAND = 10_000


@java_command("clusterList")
def cluster_list(call: JavaCall) -> None:
    """Print one row per broker process: rates, load, timer progress, disk use.

    **Source:** RocketMQ ``ClusterListSubCommand``. A broker that does not respond has dashes
    instead of Java's zeros.
    """
    call.repeat("i", lambda: _print(call))


def _print(call: JavaCall) -> None:
    more = call.flag("m")
    targets = call.admin.topology.all(cluster=call.get("c"))
    listing = BrokerAdmin(call.admin).status(cluster=call.get("c"))
    found = {item.address: item.runtime for item in listing.items}
    call.line((MORE_ROW % MORE_HEADER) if more else (ROW % HEADER))
    for target in targets:
        runtime = found.get(target.address)
        if more:
            call.line(MORE_ROW % (target.cluster_name, target.broker_name, *_totals(runtime)))
        else:
            call.line(ROW % (*_place(target), *_state(runtime, call.now_ms())))
    call.errors(listing.errors, some_worked=bool(found))


def _place(target: Target) -> tuple[object, ...]:
    return (target.cluster_name, target.broker_name, target.broker_id, target.address)


def _totals(runtime: Mapping[str, str] | None) -> tuple[object, ...]:
    """Return messages in and out of yesterday and today."""
    if runtime is None:
        return ("-",) * 4

    def between(kind: str, begin: str, end: str) -> object:
        first = whole_number(runtime.get(f"msg{kind}Total{begin}"))
        last = whole_number(runtime.get(f"msg{kind}Total{end}"))
        return "-" if first is None or last is None else last - first

    return (
        between("Put", "YesterdayMorning", "TodayMorning"),
        between("Get", "YesterdayMorning", "TodayMorning"),
        between("Put", "TodayMorning", "TodayNow"),
        between("Get", "TodayMorning", "TodayNow"),
    )


def _state(runtime: Mapping[str, str] | None, now_ms: int) -> tuple[object, ...]:
    if runtime is None:
        return ("-",) * 8
    get = runtime.get
    in_tps = first_number(get("putTps")) or 0.0
    out_tps = first_number(get("getTransferredTps", get("getTransferedTps"))) or 0.0
    earliest = whole_number(get("earliestMessageTimeStamp")) or 0
    hours = (now_ms - earliest) / HOUR_MS if earliest > 0 else 0.0
    congested = (whole_number(get("timerCongestNum")) or 0) / TEN_THOUSAND
    timer = (
        f"{whole_number(get('timerReadBehind')) or 0}-{whole_number(get('timerOffsetBehind')) or 0}"
        f"({congested:.1f}w, {first_number(get('timerEnqueueTps')) or 0.0:.1f}, "
        f"{first_number(get('timerDequeueTps')) or 0.0:.1f})"
    )
    return (
        get("brokerVersionDesc", ""),
        f"{in_tps:.2f}({_load(runtime, 'send')})",
        f"{out_tps:.2f}({_load(runtime, 'pull')}|{_load(runtime, 'ack')})",
        timer,
        get("pageCacheLockTimeMills", "-"),
        f"{hours:.2f}",
        f"{first_number(get('commitLogDiskRatio')) or 0.0:.4f}",
        get("brokerActive", "-"),
    )


def _load(runtime: Mapping[str, str], lane: str) -> str:
    """Return the length of a queue of requests and the age of its oldest: ``0,0ms``."""
    size = runtime.get(f"{lane}ThreadPoolQueueSize", "N")
    return f"{size},{runtime.get(f'{lane}ThreadPoolQueueHeadWaitTimeMills', 'N')}ms"
