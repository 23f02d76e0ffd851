"""Operating-system advice for a broker of this host: scheduler, disks, limits, virtual memory.

CommitLog reads of lagging consumers are random: a rotating disk or a scheduler that sorts by
process slows them. Each file of the store is mapped: ``vm.max_map_count`` limits their number.

**Source:** RocketMQ ``os.sh``, whose scheduler ``deadline`` is ``mq-deadline`` today.
"""

import os
import socket
from pathlib import Path
from typing import NamedTuple

from broker.common.address import parse_address
from broker.errors import RocketMQError
from mqadmin.admin.doctor.finding import CRITICAL, NOTICE, WARNING, Finding

GOOD_SCHEDULERS = ("none", "mq-deadline", "deadline", "noop")
#: Share of vm.max_map_count above which the mappings of a store leave too few for the rest.
MAP_SHARE = 0.8
MIN_MAP_COUNT = 65_530
MIN_OPEN_FILES = 65_535
FEW_OPEN_FILES = 10_000


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


class _MemorySetting(NamedTuple):
    """A setting of virtual memory, its largest advised value, and the finding above it."""

    name: str
    largest: int
    kind: str
    cause: str
    advised: int
    shown_with: str = ""


_MEMORY_SETTINGS = (
    _MemorySetting(
        "swappiness",
        10,
        "osSwappiness",
        "the kernel swaps out the broker in favour of the page cache",
        advised=1,
    ),
    _MemorySetting(
        "dirty_writeback_centisecs",
        6000,
        "osWriteback",
        "with ASYNC_FLUSH a power cut loses more messages; os.sh sets it",
        advised=500,
        shown_with="dirty_ratio",
    ),
)


def _memory(target: str, proc: Path) -> list[Finding]:
    folder = proc / "sys" / "vm"
    findings = []
    for setting in _MEMORY_SETTINGS:
        value = _number(folder / setting.name)
        if value is None or value <= setting.largest:
            continue
        other = setting.shown_with
        findings.append(
            Finding(
                severity=NOTICE,
                kind=setting.kind,
                target=target,
                message=f"vm.{setting.name}={value}"
                + (f", vm.{other}={_number(folder / other)}" if other else ""),
                cause=setting.cause,
                fix=f"sysctl -w vm.{setting.name}={setting.advised}",
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
        if not soft.isdecimal() or int(soft) >= MIN_OPEN_FILES:
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
    return int(text) if text.isdecimal() else None
