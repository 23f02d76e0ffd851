"""Compare the clocks of brokers with the clock of this host.

No request asks a broker for its time. The runtime information has the start in ms and the time
since then in whole seconds, both by the broker's clock: their sum is its time, at most 1 s early.

**Source:** RocketMQ ``StoreStatsService#getFormatRuntime``.
"""

import time
from collections.abc import Callable

from mqadmin.admin.broker import BrokerAdmin, BrokerStatus
from mqadmin.admin.checks.report import CheckRow, Metric, Status, failed_rows, row_of
from mqadmin.admin.checks.runtime import label_of, number, uptime_s
from mqadmin.admin.session import AdminSession


def check_clock(
    admin: AdminSession,
    warn: float,
    crit: float,
    *,
    broker: str | None = None,
    cluster: str | None = None,
    now: Callable[[], float] = time.time,
) -> list[CheckRow]:
    """Return one row per broker process: how far its clock differs from this host's, in seconds.

    A difference below the precision of the measurement (about 1 s) is 0.
    """
    brokers = BrokerAdmin(admin)
    _ = admin.topology  # its request is not part of the measured time
    sent = now()
    listing = brokers.status(broker=broker, cluster=cluster)
    received = now()
    rows = [
        row_of_skew(label_of(status), skew_s(status, sent, received), warn, crit)
        for status in listing.items
    ]
    return rows + failed_rows(listing.errors, Status.UNKNOWN)


def skew_s(status: BrokerStatus, sent: float, received: float) -> float | None:
    """Return the seconds by which a broker is ahead (negative: late), 0 within the precision.

    The broker's time was read between ``sent`` and ``received`` (s since the epoch).
    """
    boot_ms, uptime = number(status.runtime, "bootTimestamp"), uptime_s(status.runtime)
    if boot_ms is None or uptime is None:
        return None
    least = boot_ms / 1000 + uptime  # its clock showed at least this, and less than 1 s more
    if least > received:
        return least - received
    if least + 1 < sent:
        return least + 1 - sent
    return 0.0


def row_of_skew(name: str, skew: float | None, warn: float, crit: float) -> CheckRow:
    """Return the row of one clock; unknown without a measurement."""
    metric = Metric(
        name="skew", value=None if skew is None else abs(skew), unit="s", warn=warn, crit=crit
    )
    if skew is None:
        return row_of(name, [metric], least=Status.UNKNOWN, text="no start time is reported")
    if not skew:
        return row_of(name, [metric])
    return row_of(name, [metric], text=f"the clock is {'ahead' if skew > 0 else 'late'}")
