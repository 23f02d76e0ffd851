"""Statuses, performance data, and the text format of Prometheus."""

import pytest

from mqadmin.admin.checks.report import (
    CheckRow,
    Metric,
    Status,
    prometheus,
    status_line,
    worst,
)

ROWS = [
    CheckRow(
        name="broker-a",
        status="OK",
        message="broker-a: fine",
        metrics=[Metric(name="gap", value=5, unit="B", warn=10, crit=20)],
    ),
    CheckRow(
        name="broker-b",
        status="WARNING",
        message="broker-b: behind | far",
        metrics=[Metric(name="gapTime", value=1.5, unit="s"), Metric(name="gap", value=None)],
    ),
]


@pytest.mark.parametrize(
    ("value", "status"),
    [(None, Status.OK), (10, Status.OK), (11, Status.WARNING), (21, Status.CRITICAL)],
)
def test_a_value_above_a_limit_has_its_status(value: float | None, status: Status) -> None:
    assert Metric(name="gap", value=value, warn=10, crit=20).status is status


def test_critical_is_worse_than_unknown_and_unknown_worse_than_warning() -> None:
    assert worst([Status.OK, Status.WARNING, Status.UNKNOWN]) is Status.UNKNOWN
    assert worst([Status.UNKNOWN, Status.CRITICAL]) is Status.CRITICAL
    assert worst([]) is Status.OK


def test_the_line_has_the_worst_messages_and_every_known_value() -> None:
    assert status_line("replication", ROWS) == (
        "REPLICATION WARNING - broker-b: behind / far | 'broker-a_gap'=5B;10;20;0"
        " 'broker-b_gapTime'=1.500s;;;0"
    )
    assert status_line("replication", []) == "REPLICATION OK - nothing to check"


def test_prometheus_has_a_status_per_row_and_a_sample_per_known_value() -> None:
    text = prometheus("replication", ROWS)
    assert 'mqadmin_check_replication_status{name="broker-b"} 1\n' in text
    assert 'mqadmin_replication_gap_bytes{name="broker-a"} 5\n' in text
    assert 'mqadmin_replication_gap_time_seconds{name="broker-b"} 1.5\n' in text
    assert text.count("# TYPE mqadmin_replication_gap_bytes gauge") == 1
