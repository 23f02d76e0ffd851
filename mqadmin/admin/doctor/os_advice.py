"""Operating-system advice for a broker of this host: scheduler, disks, limits, virtual memory.

CommitLog reads of lagging consumers are random: a rotating disk or a scheduler that sorts by
process slows them. Each file of the store is mapped: ``vm.max_map_count`` limits their number.

**Source:** RocketMQ ``os.sh``, whose scheduler ``deadline`` is ``mq-deadline`` today.
"""

import os
import socket
from pathlib import Path

from broker.common.address import parse_address
from broker.errors import RocketMQError
from mqadmin.admin.doctor.finding import CRITICAL, NOTICE, WARNING, Finding

GOOD_SCHEDULERS = ("none", "mq-deadline", "deadline", "noop")
#: Share of vm.max_map_count above which the mappings of a store leave too few for the rest.
MAP_SHARE = 0.8
MIN_MAP_COUNT = 65_530
MIN_OPEN_FILES = 65_535
FEW_OPEN_FILES = 10_000
MAX_SWAPPINESS = 10


def is_this_host(address: str) -> bool:
    """Whether an address ``host:port`` is of this host: whether a socket can be bound to it."""
    try:
        host, _ = parse_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except (OSError, RocketMQError):
        return False
    return True


def advice(
    target: str, store: Path, *, proc: Path = Path("/proc"), sys: Path = Path("/sys")
) -> list[Finding]:
    """Return the findings of the host for a broker ``target`` with the directory ``store``.

    Files of ``proc`` and ``sys`` that do not exist (another system, a container) give no finding.
    """
    return [
        *_disk(target, store, sys),
        *_mappings(target, store, proc),
        *_memory(target, proc),
        *_open_files(target, store, proc),
    ]


def _disk(target: str, store: Path, sys: Path) -> list[Finding]:
    try:
        device = os.stat(store).st_dev
    except OSError:
        return []
    block = sys / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}"
    # a partition has its queue in the folder of its disk
    queue = next((one for one in (block / "queue", block / ".." / "queue") if one.is_dir()), None)
    if queue is None:
        return []
    findings = []
    words = _text(queue / "scheduler").split()
    scheduler = next((word.strip("[]") for word in words if word.startswith("[")), "")
    disk = _text(block / "uevent").partition("DEVNAME=")[2].split("\n")[0] or "DISK"
    if scheduler and scheduler not in GOOD_SCHEDULERS:
        findings.append(
            Finding(
                severity=NOTICE,
                kind="osScheduler",
                target=target,
                message=f"I/O scheduler {scheduler}",
                cause="reads of lagging consumers are random; this scheduler delays them",
                fix=f"echo mq-deadline > /sys/block/{disk}/queue/scheduler",
            )
        )
    if _text(queue / "rotational") == "1":
        findings.append(
            Finding(
                severity=NOTICE,
                kind="osRotational",
                target=target,
                message="the store is on a rotating disk",
                cause="reads of lagging consumers are random and move its heads",
                fix=f"move {store} to an SSD",
            )
        )
    return findings


def _mappings(target: str, store: Path, proc: Path) -> list[Finding]:
    limit = _number(proc / "sys" / "vm" / "max_map_count")
    if limit is None:
        return []
    files = sum(len(names) for _, _, names in os.walk(store))
    if files <= limit * MAP_SHARE and limit >= MIN_MAP_COUNT:
        return []
    return [
        Finding(
            severity=CRITICAL if files > limit * MAP_SHARE else NOTICE,
            kind="osMaxMapCount",
            target=target,
            message=f"vm.max_map_count={limit}, the store has {files} files",
            cause="each file of the store is mapped; the broker stops at the limit",
            fix="sysctl -w vm.max_map_count=655360",
        )
    ]


def _memory(target: str, proc: Path) -> list[Finding]:
    findings = []
    swappiness = _number(proc / "sys" / "vm" / "swappiness")
    if swappiness is not None and swappiness > MAX_SWAPPINESS:
        findings.append(
            Finding(
                severity=NOTICE,
                kind="osSwappiness",
                target=target,
                message=f"vm.swappiness={swappiness}",
                cause="the kernel swaps out the broker in favour of the page cache",
                fix="sysctl -w vm.swappiness=1",
            )
        )
    writeback = _number(proc / "sys" / "vm" / "dirty_writeback_centisecs")
    ratio = _number(proc / "sys" / "vm" / "dirty_ratio")
    if writeback is not None and writeback > 6000:
        findings.append(
            Finding(
                severity=NOTICE,
                kind="osWriteback",
                target=target,
                message=f"vm.dirty_writeback_centisecs={writeback}, vm.dirty_ratio={ratio}",
                cause="with ASYNC_FLUSH a power cut loses more messages; os.sh sets it",
                fix="sysctl -w vm.dirty_writeback_centisecs=500",
            )
        )
    return findings


def _open_files(target: str, store: Path, proc: Path) -> list[Finding]:
    """Check the limit of the process that has files of the store open, if it can be read."""
    log = os.path.realpath(store / "lock")
    for folder in proc.glob("[0-9]*"):
        try:
            if not any(os.readlink(one) == log for one in (folder / "fd").iterdir()):
                continue
            lines = (folder / "limits").read_text().splitlines()
        except OSError:
            continue
        soft = next((line.split()[3] for line in lines if line.startswith("Max open files")), "")
        if not soft.isdigit() or int(soft) >= MIN_OPEN_FILES:
            return []
        return [
            Finding(
                severity=WARNING if int(soft) < FEW_OPEN_FILES else NOTICE,
                kind="osOpenFiles",
                target=target,
                message=f"the limit of open files is {soft}",
                cause="connections and files of the store count; the broker refuses clients at it",
                fix="ulimit -n 655350 (LimitNOFILE= of the service), then restart the broker",
            )
        ]
    return []


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None
