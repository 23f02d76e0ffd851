"""Measure the replication of masters: gap in bytes and seconds, slaves in sync.

The gap in bytes is reported by the master (GET_BROKER_HA_STATUS); Java brokers from 5.0 on answer
it. The gap in seconds is the age of the first record that the slave has not acknowledged: it is
read from the master at the acknowledged offset, and unknown if no record starts there (a Java slave
acknowledges parts of records) or if the clocks of the two hosts differ.
"""

import time
from collections.abc import Callable, Sequence

import msgspec

from broker.errors import RocketMQError
from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.broker import BrokerAdmin, ReplicationRecord
from mqadmin.admin.checks.report import CheckRow, Metric, Sample, Status, failed_rows, worst
from mqadmin.admin.session import AdminSession

MASTER = "MASTER"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds; ``in_sync``: the number of slaves that must be in sync (fewer is critical)."""

    warn_bytes: int | None = None
    crit_bytes: int | None = None
    warn_seconds: float | None = None
    crit_seconds: float | None = None
    in_sync: int = 1


def check_replication(
    admin: AdminSession,
    limits: Limits,
    *,
    broker: str | None = None,
    cluster: str | None = None,
    now: Callable[[], float] = time.time,
) -> list[CheckRow]:
    """Return one row per broker name: its master with all its slaves."""
    listing = BrokerAdmin(admin).ha(broker=broker, cluster=cluster)
    groups: dict[str, list[ReplicationRecord]] = {}
    for item in listing.items:
        groups.setdefault(item.broker_name or item.address, []).append(item)
    rows = [_row(admin, name, items, limits, now) for name, items in sorted(groups.items())]
    rows += failed_rows(listing.errors, Status.UNKNOWN)
    return rows


def _row(
    admin: AdminSession,
    name: str,
    items: Sequence[ReplicationRecord],
    limits: Limits,
    now: Callable[[], float],
) -> CheckRow:
    masters = [item for item in items if item.role == MASTER]
    if not masters:
        return CheckRow(
            name=name, status=Status.CRITICAL.name, message=f"{name}: no master answers"
        )
    slaves = [item for item in masters if item.peer is not None]
    in_sync = sum(item.in_sync is True for item in slaves)
    gap_bytes = max((item.gap_bytes or 0 for item in slaves), default=None)
    ages = [_gap_seconds(admin, item, now) for item in slaves]
    known = [age for age in ages if age is not None]
    metrics = [
        Metric(name="inSyncSlaves", value=in_sync),
        Metric(
            name="gap",
            value=gap_bytes,
            unit="B",
            warn=limits.warn_bytes,
            crit=limits.crit_bytes,
            sample=Sample(
                name="rocketmq_broker_commitlog_diff",
                labels={
                    "cluster": masters[0].cluster_name or "",
                    "brokerIP": masters[0].address,
                    "broker": name,
                },
            ),
        ),
        Metric(
            name="gapTime",
            value=max(known) if known and len(known) == len(ages) else None,
            unit="s",
            warn=limits.warn_seconds,
            crit=limits.crit_seconds,
        ),
    ]
    status = worst(metric.status for metric in metrics)
    if in_sync < limits.in_sync:
        status = Status.CRITICAL
    lost = [item.address for item in items if item.role != MASTER and item.in_sync is False]
    if lost and status is Status.OK:
        status = Status.WARNING
    return CheckRow(
        name=name,
        status=status.name,
        message=_message(name, len(slaves), metrics, lost, limits),
        metrics=metrics,
    )


def _message(
    name: str, slaves: int, metrics: Sequence[Metric], lost: Sequence[str], limits: Limits
) -> str:
    in_sync, size, age = (metric.value for metric in metrics)
    parts = [f"{name}: {in_sync:g} of {slaves} connected slaves in sync (needed: {limits.in_sync})"]
    if size is not None:
        parts.append(f"gap {size:g} bytes")
        parts.append("gap in seconds unknown" if age is None else f"{age:.1f} s")
    if lost:
        parts.append(f"not connected to the master: {', '.join(lost)}")
    return ", ".join(parts)


def _gap_seconds(
    admin: AdminSession, item: ReplicationRecord, now: Callable[[], float]
) -> float | None:
    """Return the age of the first record that the slave lacks; 0 without a gap; None unknown."""
    if not item.gap_bytes:
        return 0.0
    if item.ack_offset is None:
        return None
    try:
        reply = admin.call(item.address, RequestCode.VIEW_MESSAGE_BY_ID, offset=item.ack_offset)
        message = decode_record(reply.body, read_body=False)
    except RocketMQError:
        return None
    return max(0.0, now() - message.store_timestamp / 1000)
