"""Rows, thresholds and performance data at their limits."""

import random

import pytest

from mqadmin.admin.checks.report import (
    CheckRow,
    Metric,
    Sample,
    Status,
    failed_rows,
    prometheus,
    row_of,
    status_line,
    worst,
)
from mqadmin.admin.result import TargetError


def gap(value: float | None, **fields: object) -> Metric:
    return Metric(name="gap", value=value, unit="B", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "status"),
    [(30, Status.OK), (29.9, Status.WARNING), (10, Status.WARNING), (9, Status.CRITICAL)],
)
def test_with_a_minimum_a_smaller_value_is_worse(value: float, status: Status) -> None:
    metric = gap(value, warn=30, crit=10, minimum=True)
    assert metric.status is status
    assert ("limit" in metric.text) is (status is not Status.OK)


def test_a_limit_of_zero_is_a_limit() -> None:
    assert gap(1, warn=0).status is Status.WARNING
    assert gap(0, warn=0, crit=0).status is Status.OK
    assert gap(-1, crit=0, minimum=True).status is Status.CRITICAL


def test_a_critical_limit_below_the_warning_limit_still_decides() -> None:
    assert gap(15, warn=20, crit=10).status is Status.CRITICAL


def test_the_text_names_the_limit_that_was_exceeded() -> None:
    assert gap(15, warn=10, crit=20).text == "gap 15B (limit 10B)"
    assert gap(25.5, warn=10, crit=20).text == "gap 25.500B (limit 20B)"
    assert gap(5, warn=10, crit=20).text == "gap 5B"
    assert gap(None, warn=10).text == "gap unknown"


def test_a_row_shows_the_exceeded_metrics_only() -> None:
    row = row_of("b", [gap(15, warn=10), Metric(name="age", value=1, warn=5)])
    assert (row.status, row.message) == ("WARNING", "b: gap 15B (limit 10B)")


def test_a_sound_row_shows_the_metrics_that_have_limits() -> None:
    row = row_of("b", [gap(5, warn=10), Metric(name="rate", value=3)])
    assert (row.status, row.message) == ("OK", "b: gap 5B")
    assert row_of("b", [Metric(name="rate", value=3)]).message == "b: rate 3"


def test_a_fact_raises_the_status_and_never_lowers_it() -> None:
    row = row_of("b", [gap(5, warn=10)], least=Status.UNKNOWN, text="no answer")
    assert (row.status, row.message) == ("UNKNOWN", "b: no answer")
    row = row_of("b", [gap(25, crit=20)], least=Status.WARNING, text="not active")
    assert (row.status, row.message) == ("CRITICAL", "b: not active, gap 25B (limit 20B)")


def test_a_failed_target_is_one_row_with_its_error() -> None:
    errors = [
        TargetError(kind="unreachable", message="no answer", target="broker-a", address="h:1"),
        TargetError(kind="unreachable", message="no answer", address="h:2"),
        TargetError(kind="unreachable", message="no answer"),
    ]
    rows = failed_rows(errors, Status.UNKNOWN)
    assert [row.name for row in rows] == ["broker-a", "h:2", "target"]
    assert {row.status for row in rows} == {"UNKNOWN"}
    assert rows[0].message == "broker-a: no answer"


def test_the_worst_status_does_not_depend_on_the_order(rng: random.Random) -> None:
    order = [Status.OK, Status.WARNING, Status.UNKNOWN, Status.CRITICAL]
    for _ in range(50):
        chosen = rng.choices(order, k=rng.randint(1, 6))
        assert worst(chosen) is max(chosen, key=order.index)


@pytest.mark.parametrize("name", ["t|x", "it's", "a=b", "two\nlines", "a b"])
def test_a_name_cannot_end_the_label_or_the_text_of_the_line(name: str) -> None:
    """A topic may contain '|', which separates text and performance data."""
    row = CheckRow(name=name, status="OK", message=f"{name}: fine", metrics=[gap(5)])
    line = status_line("lag", [row])
    text, _, data = line.partition(" | ")
    assert "|" not in text
    assert "|" not in data
    assert "\n" not in line
    label, _, value = data.rpartition("=")
    assert (label[0], label[-1], value) == ("'", "'", "5B;;;0")
    assert not set("'=|\n") & set(label[1:-1])


def test_limits_of_a_minimum_are_ranges_in_performance_data() -> None:
    row = row_of("b", [gap(50, warn=30, crit=10, minimum=True)])
    assert status_line("certificate", [row]).endswith("| 'b_gap'=50B;30:;10:;0")


def test_labels_of_prometheus_are_escaped() -> None:
    row = CheckRow(name='a"b\\c\nd', status="CRITICAL", message="", metrics=[gap(5)])
    text = prometheus("lag", [row])
    assert 'mqadmin_check_lag_status{name="a\\"b\\\\c d"} 2\n' in text
    assert text.count("\n") == len(text.splitlines())


def test_a_sample_of_the_exporter_replaces_name_labels_and_unit() -> None:
    sample = Sample(name="rocketmq_gap", labels={"cluster": "C"}, factor=1000)
    rows = [
        CheckRow(name=name, status="OK", message="", metrics=[gap(1.5, sample=sample)])
        for name in ("a", "b")
    ]
    lines = prometheus("lag", rows).splitlines()
    assert lines[-2:] == ["# TYPE rocketmq_gap gauge", 'rocketmq_gap{cluster="C"} 1500']


def test_an_unknown_value_has_no_sample_and_no_performance_data() -> None:
    row = CheckRow(name="b", status="UNKNOWN", message="b: no answer", metrics=[gap(None)])
    assert "mqadmin_lag_gap" not in prometheus("lag", [row])
    assert status_line("lag", [row]) == "LAG UNKNOWN - b: no answer"
