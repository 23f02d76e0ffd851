"""Examine a cluster: registration, name servers, versions, settings, load, clocks, slaves."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from broker.errors import RocketMQError
from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.broker import BrokerAdmin, BrokerConfigRecord, BrokerStatus
from mqadmin.admin.checks import replication
from mqadmin.admin.checks.clock import skew_s
from mqadmin.admin.checks.namesrv import missing_at, read_tables
from mqadmin.admin.checks.report import Status
from mqadmin.admin.checks.runtime import label_of, millis, number, size_bytes
from mqadmin.admin.doctor.finding import CRITICAL, NOTICE, WARNING, Finding, ordered
from mqadmin.admin.doctor.os_advice import advice, is_this_host
from mqadmin.admin.doctor.settings import permission_findings, setting_findings
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession

SKEW_WARNING_S = 2.0
SKEW_CRITICAL_S = 30.0
UNFLUSHED_WARNING_S = 30.0
UNFLUSHED_WARNING_BYTES = 256 << 20
DISPATCH_WARNING_BYTES = 16 << 20
DISK_WARNING = 0.75
DISK_CRITICAL = 0.85
LOCK_WARNING_S = 0.5
WAIT_WARNING_S = 0.1


def examine_cluster(
    admin: AdminSession,
    *,
    cluster: str | None = None,
    now: Callable[[], float] = time.time,
) -> list[Finding]:
    """Return the findings about a cluster, or all clusters of the name servers, worst first.

    RocketMQError if no name server answers. A broker that does not answer is a finding.
    """
    brokers = BrokerAdmin(admin)
    _ = admin.topology.all(cluster=cluster)
    findings = [*_namesrv_findings(admin), *_master_findings(admin, cluster)]
    sent = now()
    status = brokers.status(cluster=cluster)
    received = now()
    configs = brokers.config(cluster=cluster)
    findings += _silent_findings(status.errors)
    for one in status.items:
        findings += _skew_findings(one, sent, received)
        findings += load_findings(one)
        findings += _flush_findings(admin, one, now)
    findings += version_findings(status.items)
    findings += setting_findings(configs.items)
    findings += permission_findings(configs.items)
    findings += _single_copy_findings(admin, configs.items)
    findings += _replication_findings(admin, cluster)
    for config in configs.items:
        store = Path(config.config.get("storePathRootDir", ""))
        if config.config.get("storePathRootDir") and is_this_host(config.address):
            findings += advice(config.broker_name or config.address, store)
    return ordered(findings)


def _namesrv_findings(admin: AdminSession) -> list[Finding]:
    tables = read_tables(admin)
    findings = []
    for table in tables:
        if table.error:
            findings.append(
                Finding(
                    severity=CRITICAL,
                    kind="namesrvUnreachable",
                    target=table.address,
                    message=table.error,
                    cause="the process has stopped or hangs, or the network drops its packets",
                    fix=f"start the name server at {table.address}",
                )
            )
            continue
        brokers, topics = missing_at(table, tables)
        for lost, word in ((brokers, "brokers"), (topics, "topics")):
            if lost:
                findings.append(
                    Finding(
                        severity=WARNING,
                        kind="namesrvDiffers",
                        target=table.address,
                        message=f"lacks {len(lost)} {word}: {', '.join(lost[:3])}",
                        cause="brokers do not name it in namesrvAddr, or it has just started",
                        fix=f"add {table.address} to namesrvAddr in broker.conf of these brokers",
                    )
                )
    return findings


def _master_findings(admin: AdminSession, cluster: str | None) -> list[Finding]:
    names: dict[str, list[int]] = {}
    for target in admin.topology.all(cluster=cluster):
        names.setdefault(target.label, []).append(target.broker_id or 0)
    findings = [
        Finding(
            severity=CRITICAL,
            kind="noMaster",
            target=name,
            message=f"only slaves are registered (ids {', '.join(map(str, ids))})",
            cause="the master has stopped or cannot reach the name servers: sends to it fail",
            fix=f"start the master of {name}, or: mqadmin broker promote {name}",
        )
        for name, ids in sorted(names.items())
        if 0 not in ids
    ]
    if not names:
        findings.append(
            Finding(
                severity=CRITICAL,
                kind="noBroker",
                target=cluster or "cluster",
                message="no broker is registered",
                cause="brokers have stopped, or their namesrvAddr names other name servers",
                fix="mqbroker -n " + ";".join(admin.namesrv_addresses),
            )
        )
    return findings


def _silent_findings(errors: Sequence[TargetError]) -> list[Finding]:
    return [
        Finding(
            severity=CRITICAL,
            kind="brokerUnreachable",
            target=error.target or error.address or "broker",
            message=error.message,
            cause="the broker hangs, has stopped without notice, or is on another network",
            fix=error.hint or f"restart the broker at {error.address}",
        )
        for error in errors
    ]


def version_findings(items: Sequence[BrokerStatus]) -> list[Finding]:
    """Return one finding per cluster whose brokers have different versions."""
    clusters: dict[str, dict[str, list[str]]] = {}
    for one in items:
        version = one.runtime.get("brokerVersionDesc", "unknown")
        clusters.setdefault(one.cluster_name or "", {}).setdefault(version, []).append(
            label_of(one)
        )
    findings = []
    for cluster, versions in sorted(clusters.items()):
        if len(versions) > 1:
            newest = max(versions)
            old = sorted(
                name for word, names in versions.items() if word != newest for name in names
            )
            findings.append(
                Finding(
                    severity=WARNING,
                    kind="versionsDiffer",
                    target=cluster,
                    message="; ".join(
                        f"{word}: {', '.join(versions[word])}" for word in sorted(versions)
                    ),
                    cause="an upgrade was not completed; new request codes fail on old brokers",
                    fix=f"upgrade {', '.join(old)} to {newest}",
                )
            )
    return findings


def _skew_findings(one: BrokerStatus, sent: float, received: float) -> list[Finding]:
    skew = skew_s(one, sent, received)
    if skew is None or abs(skew) <= SKEW_WARNING_S:
        return []
    word = "ahead of" if skew > 0 else "late against"
    return [
        Finding(
            severity=CRITICAL if abs(skew) > SKEW_CRITICAL_S else WARNING,
            kind="clockSkew",
            target=label_of(one),
            message=f"its clock is {abs(skew):.0f} s {word} this host's",
            cause="no time service runs: delays, retention and queries by time are wrong",
            fix=f"chronyc makestep (on {one.address.rpartition(':')[0]})",
        )
    ]


class _LoadCheck(NamedTuple):
    """A runtime value of a broker and the finding if it is above ``limit``.

    ``message`` contains the value, ``fix`` the name of the broker. Above ``critical`` the finding
    is critical, else it is a warning.
    """

    key: str
    read: Callable[[Mapping[str, str], str], float | None]
    limit: float
    kind: str
    message: str
    cause: str
    fix: str
    critical: float = math.inf


_LOAD_CHECKS = (
    _LoadCheck(
        "commitLogDiskRatio",
        number,
        DISK_WARNING,
        "disk",
        "{:.0%} of the file system is used",
        cause="old files are deleted before fileReservedTime; at 90% sends are refused",
        fix="add disk space, or lower fileReservedTime in broker.conf of {}",
        critical=DISK_CRITICAL,
    ),
    _LoadCheck(
        "pageCacheLockTimeMills",
        millis,
        LOCK_WARNING_S,
        "pageCache",
        "an append has waited for the page cache for {:.3f} s",
        cause="the disk writes more slowly than messages arrive; from 1 s on sends fail",
        fix="use a faster disk, or transientStorePoolEnable=true with ASYNC_FLUSH",
    ),
    _LoadCheck(
        "sendThreadPoolQueueHeadWaitTimeMills",
        millis,
        WAIT_WARNING_S,
        "sendQueue",
        "a send has waited for a thread for {:.3f} s",
        cause="the broker is overloaded; from waitTimeMillsInSendQueue (200 ms) sends fail",
        fix="mqadmin cluster top shows the load; add a broker or slow down the producers",
    ),
    _LoadCheck(
        "dispatchBehindBytes",
        number,
        DISPATCH_WARNING_BYTES,
        "dispatchLag",
        "{:.0f} bytes of the log have no ConsumeQueue units",
        cause="the broker rebuilds after a start, or its disk is slow: consumers wait",
        fix="mqadmin check broker {} shows whether the number falls",
    ),
)


def load_findings(one: BrokerStatus) -> list[Finding]:
    """Return the findings of one broker about disk, page cache, waiting sends and dispatch."""
    name = label_of(one)
    values = [(check, check.read(one.runtime, check.key)) for check in _LOAD_CHECKS]
    return [
        Finding(
            severity=CRITICAL if value > check.critical else WARNING,
            kind=check.kind,
            target=name,
            message=check.message.format(value),
            cause=check.cause,
            fix=check.fix.format(name),
        )
        for check, value in values
        if value is not None and value > check.limit
    ]


def _flush_findings(
    admin: AdminSession, one: BrokerStatus, now: Callable[[], float]
) -> list[Finding]:
    """Report unflushed data that is large, or older than any flush interval."""
    size = size_bytes(one.runtime.get("remainHowManyDataToFlush"))
    end = number(one.runtime, "commitLogMaxOffset")
    if not size or end is None:
        return []
    age = _age_s(admin, one.address, int(end) - size, now) if size < 1024 else None
    if size <= UNFLUSHED_WARNING_BYTES and (age is None or age <= UNFLUSHED_WARNING_S):
        return []
    since = "" if age is None else f", the first for {age:.0f} s"
    return [
        Finding(
            severity=WARNING,
            kind="flush",
            target=label_of(one),
            message=f"{size} bytes are not flushed to disk{since}",
            cause="the disk is slower than the producers, or a flush has failed",
            fix="read the broker's log; flushDiskType=SYNC_FLUSH bounds the loss of a power cut",
        )
    ]


def _age_s(
    admin: AdminSession, address: str, offset: int, now: Callable[[], float]
) -> float | None:
    """Return the age of the record at a physical offset, None if none starts there."""
    try:
        reply = admin.call(address, RequestCode.VIEW_MESSAGE_BY_ID, offset=offset)
        return now() - decode_record(reply.body, read_body=False).store_timestamp / 1000
    except RocketMQError:
        return None


def _single_copy_findings(
    admin: AdminSession, configs: Sequence[BrokerConfigRecord]
) -> list[Finding]:
    counts: dict[str, int] = {}
    for target in admin.topology.targets:
        counts[target.label] = counts.get(target.label, 0) + 1
    return [
        Finding(
            severity=NOTICE,
            kind="singleCopy",
            target=config.broker_name or config.address,
            message="one copy of each message, ASYNC_FLUSH",
            cause="a power cut loses the messages of the last 500 ms, a lost disk all of them",
            fix="add a slave, or set flushDiskType=SYNC_FLUSH in broker.conf",
        )
        for config in configs
        if config.broker_id == 0
        and counts.get(config.broker_name or "", 1) == 1
        and config.config.get("flushDiskType") == "ASYNC_FLUSH"
    ]


def _replication_findings(admin: AdminSession, cluster: str | None) -> list[Finding]:
    limits = replication.Limits(
        warn_bytes=64 << 20, crit_bytes=256 << 20, warn_seconds=30, crit_seconds=300, in_sync=0
    )
    slaves: dict[str, int] = {}
    for target in admin.topology.all(cluster=cluster):
        slaves[target.label] = slaves.get(target.label, -1) + 1
    findings = []
    for row in replication.check_replication(admin, limits, cluster=cluster):
        connected = next((one.value for one in row.metrics if one.name == "inSyncSlaves"), None)
        registered = slaves.get(row.name, 0)
        short = connected is not None and connected < registered
        severity = {"WARNING": WARNING, "CRITICAL": CRITICAL}.get(row.status)
        # unknown: a 4.9 broker, or one that does not answer, which is another finding
        if row.status == Status.UNKNOWN.name or not (severity or short) or not row.metrics:
            continue
        findings.append(
            Finding(
                severity=severity or WARNING,
                kind="replication",
                target=row.name,
                message=row.message.removeprefix(f"{row.name}: "),
                cause="a slave is registered but not in sync: it has stopped, hangs or is slow",
                fix=f"mqadmin broker ha {row.name} shows each slave; restart the one that is late",
            )
        )
    return findings
