"""Read values of a broker's runtime information (GET_BROKER_RUNTIME_INFO), of 4.9, 5.x and ours.

Values are texts that Java formats for people; a value that is missing or not a number is None.

**Source:** RocketMQ ``AdminBrokerProcessor#prepareRuntimeInfo``,
``StoreStatsService#getRuntimeInfo``; rocketmq-exporter for the names of samples.
"""

import math
import re
from collections.abc import Mapping

from mqadmin.admin.broker import BrokerStatus
from mqadmin.admin.checks.report import Sample

_PREFIX = "rocketmq_brokeruntime_"
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50}
_RUNTIME = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")


def label_of(status: BrokerStatus) -> str:
    """Return the broker name, with the id of a slave: ``broker-a``, ``broker-a:1``."""
    if status.broker_name is None:
        return status.address
    return f"{status.broker_name}:{status.broker_id}" if status.broker_id else status.broker_name


def sample_of(status: BrokerStatus, name: str, factor: float = 1) -> Sample:
    """Return the exporter's name and labels of a value of the runtime information."""
    runtime = status.runtime
    return Sample(
        name=_PREFIX + name,
        labels={
            "cluster": status.cluster_name or "",
            "brokerIP": status.address,
            "brokerHost": status.broker_name or status.address,
            "des": runtime.get("brokerVersionDesc", ""),
            "boottime": runtime.get("bootTimestamp", ""),
            "broker_version": runtime.get("brokerVersion", ""),
        },
        factor=factor,
    )


def number(runtime: Mapping[str, str], *keys: str) -> float | None:
    """Return the first number of the first of the keys that is present."""
    text = next((runtime[key] for key in keys if key in runtime), "")
    try:
        value = float(text.split()[0])
    except (IndexError, ValueError):
        return None
    return value if math.isfinite(value) else None


def rate_60s(runtime: Mapping[str, str], *keys: str) -> float | None:
    """Return the average of the last 60 s: the second of three numbers."""
    text = next((runtime[key] for key in keys if key in runtime), "")
    words = text.split()
    return number({"rate": words[1]}, "rate") if len(words) == 3 else None


def millis(runtime: Mapping[str, str], key: str) -> float | None:
    """Return a time in seconds that the broker reports in ms."""
    value = number(runtime, key)
    return None if value is None else value / 1000


def size_bytes(text: str | None) -> int | None:
    """Return the bytes of a size for people: ``1.5 KiB``, ``12 B``."""
    words = (text or "").split()
    value = number({"size": words[0]}, "size") if words else None
    if value is None or len(words) < 2 or words[1] not in _UNITS:
        return None
    return int(value * _UNITS[words[1]])


def capacity_bytes(runtime: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return total and free bytes of the CommitLog's file system."""
    found = re.fullmatch(
        r"Total : (.*), Free : (.*?)\.?", runtime.get("commitLogDirCapacity", "").strip()
    )
    return (None, None) if found is None else (size_bytes(found[1]), size_bytes(found[2]))


def uptime_s(runtime: Mapping[str, str]) -> int | None:
    """Return the whole seconds since the start of the broker, by its own clock."""
    found = _RUNTIME.fullmatch(runtime.get("runtime", "").strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(word) for word in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
