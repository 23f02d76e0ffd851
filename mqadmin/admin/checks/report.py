"""CheckRow and thresholds: the statuses of monitoring plug-ins, and performance data.

**Source:** Monitoring Plugins Development Guidelines (status line, performance data, exit codes).
"""

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum

import msgspec


class Status(IntEnum):
    """Exit statuses of a check, as monitoring systems read them."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


# A failed measurement is worse than a warning and less than a known critical value.
_SEVERITY = (Status.OK, Status.WARNING, Status.UNKNOWN, Status.CRITICAL)


class Metric(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One measured value, None if unknown; ``unit`` is B, s or empty, a limit None without one."""

    name: str
    value: float | None
    unit: str = ""
    warn: float | None = None
    crit: float | None = None

    @property
    def status(self) -> Status:
        """OK, or the worst limit that the value exceeds; OK for an unknown value."""
        if self.value is None:
            return Status.OK
        if self.crit is not None and self.value > self.crit:
            return Status.CRITICAL
        if self.warn is not None and self.value > self.warn:
            return Status.WARNING
        return Status.OK


class CheckRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result for one object (a replica, a broker, a queue)."""

    name: str
    status: str
    message: str
    metrics: Sequence[Metric] = ()


def worst(statuses: Iterable[Status]) -> Status:
    """Return the most severe status, OK without any."""
    return max(statuses, key=_SEVERITY.index, default=Status.OK)


def status_line(check: str, rows: Sequence[CheckRow]) -> str:
    """Return one line: CHECK STATUS - messages of the worst rows | performance data."""
    status = worst(Status[row.status] for row in rows)
    shown = [row for row in rows if row.status == status.name]
    text = "; ".join(row.message for row in shown) or "nothing to check"
    # '|' separates the performance data: a remark of a broker must not contain it.
    line = f"{check.upper()} {status.name} - {text.replace('|', '/')}"
    data = " ".join(
        _perfdata(row.name, metric)
        for row in rows
        for metric in row.metrics
        if metric.value is not None
    )
    return f"{line} | {data}" if data else line


def _perfdata(name: str, metric: Metric) -> str:
    limits = ";".join("" if one is None else _number(one) for one in (metric.warn, metric.crit))
    label = f"{name}_{metric.name}".replace("'", "").replace("=", "")
    return f"'{label}'={_number(metric.value or 0)}{metric.unit};{limits};0"


def prometheus(check: str, rows: Sequence[CheckRow]) -> str:
    """Return the rows in the text format of Prometheus, a status and one sample per metric."""
    lines = [
        f"# HELP mqadmin_check_{check}_status 0 ok, 1 warning, 2 critical, 3 unknown",
        f"# TYPE mqadmin_check_{check}_status gauge",
    ]
    lines += [
        f'mqadmin_check_{check}_status{{name="{_label(row.name)}"}} {int(Status[row.status])}'
        for row in rows
    ]
    suffixes = {"B": "_bytes", "s": "_seconds"}
    for name in dict.fromkeys(metric.name for row in rows for metric in row.metrics):
        samples = [
            (row.name, metric)
            for row in rows
            for metric in row.metrics
            if metric.name == name and metric.value is not None
        ]
        if not samples:
            continue
        full = f"mqadmin_{check}_{_snake(name)}{suffixes.get(samples[0][1].unit, '')}"
        lines.append(f"# TYPE {full} gauge")
        lines += [
            f'{full}{{name="{_label(of)}"}} {_number(metric.value or 0)}' for of, metric in samples
        ]
    return "\n".join(lines) + "\n"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"
