"""Measure brokers by their runtime information: queues, page cache, dispatch, disk.

A registered broker that does not answer is critical in :func:`check_broker`, whose question is the
broker itself, and unknown in the other checks.
"""

from collections.abc import Mapping

import msgspec

from mqadmin.admin.broker import BrokerAdmin, BrokerStatus
from mqadmin.admin.checks.report import CheckRow, Metric, Status, failed_rows, row_of
from mqadmin.admin.checks.runtime import (
    capacity_bytes,
    label_of,
    millis,
    number,
    rate_60s,
    sample_of,
    size_bytes,
)
from mqadmin.admin.session import AdminSession

#: Metric of check_broker → (unit, default of warning, default of critical). A broker refuses sends
#: when the page cache is locked for 1 s or a send waits for 200 ms.
LIMITS: Mapping[str, tuple[str, float, float]] = {
    "pageCacheLock": ("s", 0.5, 1.0),
    "sendQueueWait": ("s", 0.1, 0.2),
    "pullQueueWait": ("s", 1.0, 5.0),
    "dispatchBehind": ("B", 16 << 20, 256 << 20),
    "flushBehind": ("B", 256 << 20, 2 << 30),
}


class BrokerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds by metric name, None for a metric without one; defaults are in ``LIMITS``."""

    warn: Mapping[str, float | None] = {}
    crit: Mapping[str, float | None] = {}


def check_broker(
    admin: AdminSession,
    limits: BrokerLimits,
    *,
    broker: str | None = None,
    cluster: str | None = None,
) -> list[CheckRow]:
    """Return one row per broker process: registered, answering, and not overloaded."""
    listing = BrokerAdmin(admin).status(broker=broker, cluster=cluster)
    rows = [_broker_row(status, limits) for status in listing.items]
    rows += failed_rows(listing.errors, Status.CRITICAL)
    if not rows:
        rows.append(
            CheckRow(
                name="brokers",
                status=Status.CRITICAL.name,
                message="no broker is registered at the name server",
            )
        )
    return rows


def _broker_row(status: BrokerStatus, limits: BrokerLimits) -> CheckRow:
    runtime = status.runtime
    values = {
        "pageCacheLock": (
            millis(runtime, "pageCacheLockTimeMills"),
            sample_of(status, "pagecache_lock_time_mills", 1000),
        ),
        "sendQueueWait": (
            millis(runtime, "sendThreadPoolQueueHeadWaitTimeMills"),
            sample_of(status, "send_threadpoolqueue_headwait_timemills", 1000),
        ),
        "pullQueueWait": (
            millis(runtime, "pullThreadPoolQueueHeadWaitTimeMills"),
            sample_of(status, "pull_threadpoolqueue_headwait_timemills", 1000),
        ),
        "dispatchBehind": (
            number(runtime, "dispatchBehindBytes"),
            sample_of(status, "dispatch_behind_bytes"),
        ),
        "flushBehind": (size_bytes(runtime.get("remainHowManyDataToFlush")), None),
    }
    metrics = [
        Metric(
            name=name,
            value=value,
            unit=LIMITS[name][0],
            warn=limits.warn.get(name, LIMITS[name][1]),
            crit=limits.crit.get(name, LIMITS[name][2]),
            sample=sample,
        )
        for name, (value, sample) in values.items()
    ]
    metrics += [
        Metric(
            name="putTps",
            value=rate_60s(runtime, "putTps"),
            sample=sample_of(status, "put_tps60"),
        ),
        Metric(
            name="getTps",
            value=rate_60s(runtime, "getTransferredTps", "getTransferedTps"),
            sample=sample_of(status, "gettransfered_tps60"),
        ),
    ]
    # a slave without its master is not active until it may serve in its place
    inactive = runtime.get("brokerActive") == "false" and status.broker_id == 0
    return row_of(
        label_of(status),
        metrics,
        least=Status.WARNING if inactive else Status.OK,
        text="the broker is not active" if inactive else "",
    )


def check_disk(
    admin: AdminSession,
    warn: float,
    crit: float,
    *,
    broker: str | None = None,
    cluster: str | None = None,
) -> list[CheckRow]:
    """Return one row per broker process: the used share, in percent, of the store's file systems.

    A broker deletes old files from 75 % on (``diskMaxUsedSpaceRatio``) and refuses sends at 90 %.
    """
    listing = BrokerAdmin(admin).status(broker=broker, cluster=cluster)
    rows = [_disk_row(status, warn, crit) for status in listing.items]
    return rows + failed_rows(listing.errors, Status.UNKNOWN)


_DISKS = {
    "commitLogDisk": ("commitLogDiskRatio", "commitlog_disk_ratio"),
    "consumeQueueDisk": ("consumeQueueDiskRatio", "consumequeue_disk_ratio"),
}


def _disk_row(status: BrokerStatus, warn: float, crit: float) -> CheckRow:
    metrics = []
    for name, (key, sample) in _DISKS.items():
        ratio = number(status.runtime, key)
        # Java reports -1 for a directory that does not exist
        known = ratio is not None and ratio >= 0
        metrics.append(
            Metric(
                name=name,
                value=ratio * 100 if known and ratio is not None else None,
                unit="%",
                warn=warn,
                crit=crit,
                sample=sample_of(status, sample, 0.01),
            )
        )
    total, free = capacity_bytes(status.runtime)
    metrics += [
        Metric(
            name="free",
            value=free,
            unit="B",
            sample=sample_of(status, "commitlogdir_capacity_free"),
        ),
        Metric(
            name="total",
            value=total,
            unit="B",
            sample=sample_of(status, "commitlogdir_capacity_total"),
        ),
    ]
    unknown = metrics[0].value is None
    return row_of(
        label_of(status),
        metrics,
        least=Status.UNKNOWN if unknown else Status.OK,
        text="commitLogDiskRatio is not reported" if unknown else "",
    )
