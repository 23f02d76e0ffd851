"""``mqadmin check replication``: options to limits, rows to statuses and formats."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from broker.errors import ConnectError
from mqadmin.admin.checks.replication import Limits
from mqadmin.admin.checks.report import CheckRow, Metric
from mqadmin.command.check import replication

Run = Callable[..., Any]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, admin: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": []}

    def check(session: object, limits: Limits, **fields: object) -> list[CheckRow]:
        found.update(limits=limits, fields=fields)
        if isinstance(found["rows"], Exception):
            raise found["rows"]
        return list(found["rows"])

    monkeypatch.setattr(replication, "check_replication", check)
    return found


@pytest.mark.parametrize(
    ("status", "code"), [("OK", 0), ("WARNING", 1), ("CRITICAL", 2), ("UNKNOWN", 3)]
)
def test_the_exit_status_is_that_of_the_worst_row(
    mqadmin: Run, measured: dict[str, Any], status: str, code: int
) -> None:
    gap = Metric(name="gap", value=3, unit="B")
    measured["rows"] = [
        CheckRow(name="a", status="OK", message="a: fine", metrics=[gap]),
        CheckRow(name="b", status=status, message="b: text"),
    ]
    result = mqadmin("check", "replication")
    assert result.status == code
    assert result.out.startswith(f"REPLICATION {status} - ")
    assert result.out.endswith("| 'a_gap'=3B;;;0\n")
    rows = json.loads(mqadmin("check", "replication", "-o", "json").out)["items"]
    assert [row["status"] for row in rows] == ["OK", status]
    assert mqadmin("check", "replication", "-o", "prometheus").status == code


def test_thresholds_and_targets_reach_the_measurement(
    mqadmin: Run, measured: dict[str, Any]
) -> None:
    measured["rows"] = [CheckRow(name="broker-a", status="OK", message="fine")]
    words = ("--warn", "1MiB", "--crit", "2MiB,1m", "--in-sync", "2", "-c", "C")
    assert mqadmin("check", "replication", "broker-a", *words).status == 0
    assert measured["limits"] == Limits(
        warn_bytes=1 << 20, crit_bytes=2 << 20, crit_seconds=60.0, in_sync=2
    )
    assert measured["fields"] == {"broker": "broker-a", "cluster": "C"}


def test_an_unreachable_cluster_is_unknown(mqadmin: Run, measured: dict[str, Any]) -> None:
    measured["rows"] = ConnectError("127.0.0.1:9876: refused", address="127.0.0.1:9876")
    result = mqadmin("check", "replication")
    assert result.status == 3
    assert result.out == "REPLICATION UNKNOWN - 127.0.0.1:9876: refused\n"


def test_prometheus_is_a_format_of_checks_only(mqadmin: Run, admin: Any) -> None:
    assert mqadmin("broker", "ha", "-o", "prometheus").status == 2
