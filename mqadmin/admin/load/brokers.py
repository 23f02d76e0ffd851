"""The load of each broker process, and the groups with the largest lag."""

import msgspec

from mqadmin.admin.broker import BrokerAdmin, BrokerStatus
from mqadmin.admin.checks.runtime import capacity_bytes, millis, number, size_bytes
from mqadmin.admin.result import Listing
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

SLOW_LOCK_S = 0.5
SLOW_WAIT_S = 0.1
FULL_DISK = 0.85


class BrokerLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One broker process. None: not reported by the broker.

    ``state``: ``ok``, ``slow`` (sends wait for threads or the page cache), ``full`` (the disk),
    ``down`` (no answer). Rates are messages per second over the last 10 s, ``commitLogDiskRatio``
    is 0 to 1, ``pageCacheLock`` and ``sendQueueWait`` are seconds, the rest bytes or counts.
    """

    cluster_name: str | None
    broker_name: str | None
    broker_id: int | None
    address: str
    version: str | None
    state: str
    in_tps: float | None
    out_tps: float | None
    commit_log_disk_ratio: float | None
    disk_free: int | None
    page_cache_lock: float | None
    send_queue_wait: float | None
    send_queue_size: int | None
    put_latency99: float | None
    dispatch_behind: int | None
    flush_behind: int | None


def broker_loads(admin: AdminSession, *, cluster: str | None = None) -> Listing[BrokerLoad]:
    """Return the load of each registered broker; one that fails is a row with state ``down``."""
    targets = admin.topology.all(cluster=cluster)
    listing = BrokerAdmin(admin).status(cluster=cluster)
    found = {status.address: status for status in listing.items}
    return Listing(
        items=[_load(target, found.get(target.address)) for target in targets],
        errors=listing.errors,
    )


def _load(target: Target, status: BrokerStatus | None) -> BrokerLoad:
    runtime = {} if status is None else status.runtime
    lock = millis(runtime, "pageCacheLockTimeMills")
    wait = millis(runtime, "sendThreadPoolQueueHeadWaitTimeMills")
    ratio = number(runtime, "commitLogDiskRatio")
    state = "ok"
    if status is None:
        state = "down"
    elif ratio is not None and ratio > FULL_DISK:
        state = "full"
    elif (lock or 0) > SLOW_LOCK_S or (wait or 0) > SLOW_WAIT_S:
        state = "slow"
    return BrokerLoad(
        cluster_name=target.cluster_name,
        broker_name=target.broker_name,
        broker_id=target.broker_id,
        address=target.address,
        version=runtime.get("brokerVersionDesc"),
        state=state,
        in_tps=number(runtime, "putTps"),
        out_tps=number(runtime, "getTransferredTps", "getTransferedTps"),
        commit_log_disk_ratio=ratio,
        disk_free=capacity_bytes(runtime)[1],
        page_cache_lock=lock,
        send_queue_wait=wait,
        send_queue_size=_whole(number(runtime, "sendThreadPoolQueueSize")),
        put_latency99=number(runtime, "putLatency99"),
        dispatch_behind=_whole(number(runtime, "dispatchBehindBytes")),
        flush_behind=size_bytes(runtime.get("remainHowManyDataToFlush")),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
