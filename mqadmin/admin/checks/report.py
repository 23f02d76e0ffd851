"""CheckRow and thresholds: the statuses of monitoring plug-ins, and performance data.

**Source:** Monitoring Plugins Development Guidelines (status line, performance data, exit codes).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

import msgspec

from mqadmin.admin.result import TargetError


class Status(IntEnum):
    """Exit statuses of a check, as monitoring systems read them."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


# A failed measurement is worse than a warning and less than a known critical value.
_SEVERITY = (Status.OK, Status.WARNING, Status.UNKNOWN, Status.CRITICAL)


class Sample(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The name and labels that rocketmq-exporter gives a value, and the factor to its unit."""

    name: str
    labels: Mapping[str, str]
    factor: float = 1


class Metric(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One measured value, None if unknown; ``unit`` is B, s, % or empty, a limit None without one.

    With ``minimum`` the limits are the least good values, not the largest. ``sample`` is None for a
    value that rocketmq-exporter does not have.
    """

    name: str
    value: float | None
    unit: str = ""
    warn: float | None = None
    crit: float | None = None
    minimum: bool = False
    sample: Sample | None = None

    @property
    def status(self) -> Status:
        """OK, or the worst limit that the value exceeds; OK for an unknown value."""
        if self._exceeds(self.crit):
            return Status.CRITICAL
        if self._exceeds(self.warn):
            return Status.WARNING
        return Status.OK

    @property
    def text(self) -> str:
        """The value for people, with the limit that it exceeds."""
        if self.value is None:
            return f"{self.name} unknown"
        exceeded = next((one for one in (self.crit, self.warn) if self._exceeds(one)), None)
        bound = "" if exceeded is None else f" (limit {_number(exceeded)}{self.unit})"
        return f"{self.name} {_number(self.value)}{self.unit}{bound}"

    def _exceeds(self, limit: float | None) -> bool:
        if self.value is None or limit is None:
            return False
        return self.value < limit if self.minimum else self.value > limit


class CheckRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result for one object (a replica, a broker, a queue)."""

    name: str
    status: str
    message: str
    metrics: Sequence[Metric] = ()


def row_of(
    name: str, metrics: Sequence[Metric], *, least: Status = Status.OK, text: str = ""
) -> CheckRow:
    """Return a row whose message has the metrics past a limit, else all with a limit.

    ``least`` is the status that a fact other than a metric requires, ``text`` its reason.
    """
    status = worst([least, *(metric.status for metric in metrics)])
    shown = [metric for metric in metrics if metric.status is not Status.OK]
    if not shown and not text:
        limited = [one for one in metrics if (one.warn, one.crit) != (None, None)]
        shown = limited or list(metrics)
    parts = [text] if text else []
    message = ", ".join([*parts, *(metric.text for metric in shown)])
    return CheckRow(name=name, status=status.name, message=f"{name}: {message}", metrics=metrics)


def failed_rows(errors: Iterable[TargetError], status: Status) -> list[CheckRow]:
    """Return one row per target that failed."""
    return [
        CheckRow(
            name=error.target or error.address or "target",
            status=status.name,
            message=f"{error.target or 'target'}: {error.message}",
        )
        for error in errors
    ]


def worst(statuses: Iterable[Status]) -> Status:
    """Return the most severe status, OK without any."""
    return max(statuses, key=_SEVERITY.index, default=Status.OK)


def status_line(check: str, rows: Sequence[CheckRow]) -> str:
    """Return one line: CHECK STATUS - messages of the worst rows | performance data."""
    status = worst(Status[row.status] for row in rows)
    shown = [row for row in rows if row.status == status.name]
    text = "; ".join(row.message for row in shown) or "nothing to check"
    line = f"{check.upper()} {status.name} - {_one_line(text)}"
    data = " ".join(
        _perfdata(row.name, metric)
        for row in rows
        for metric in row.metrics
        if metric.value is not None
    )
    return f"{line} | {data}" if data else line


def _one_line(text: str) -> str:
    """Remove line ends and '|', which separates the performance data and is valid in topics."""
    return " ".join(text.split()).replace("|", "/")


def _perfdata(name: str, metric: Metric) -> str:
    # "30:" is a range: alert below 30
    end = ":" if metric.minimum else ""
    limits = ";".join(
        "" if one is None else _number(one) + end for one in (metric.warn, metric.crit)
    )
    label = _one_line(f"{name}_{metric.name}").replace("'", "").replace("=", "")
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
    series: dict[str, list[str]] = {}
    for row in rows:
        for metric in row.metrics:
            if metric.value is not None:
                name, line = _sample(check, row.name, metric)
                series.setdefault(name, []).append(line)
    for name, samples in series.items():
        lines += [f"# TYPE {name} gauge", *dict.fromkeys(samples)]
    return "\n".join(lines) + "\n"


_SUFFIXES = {"B": "_bytes", "s": "_seconds", "%": "_percent"}


def _sample(check: str, row: str, metric: Metric) -> tuple[str, str]:
    """Return the name of a metric in Prometheus and its line; rocketmq-exporter's if it has one."""
    if metric.sample is None:
        name = f"mqadmin_{check}_{_snake(metric.name)}{_SUFFIXES.get(metric.unit, '')}"
        labels: Mapping[str, str] = {"name": row}
        value = metric.value or 0
    else:
        name, labels = metric.sample.name, metric.sample.labels
        value = (metric.value or 0) * metric.sample.factor
    text = ",".join(f'{key}="{_label(word)}"' for key, word in labels.items())
    return name, f"{name}{{{text}}} {value:.10g}"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"
