"""Findings to output and status."""

from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.doctor.finding import Finding
from mqadmin.command.doctor import cluster as module
from tests.support.fake_brokers import FakeCluster


@pytest.mark.parametrize(("severity", "status"), [("critical", 1), ("warning", 1), ("notice", 0)])
def test_a_finding_that_requires_an_action_is_status_1(
    mqadmin: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, severity: str, status: int
) -> None:
    monkeypatch.setattr(
        "mqadmin.command.execution.session.connect", lambda *_: FakeCluster().admin()
    )
    finding = Finding(
        severity=severity, kind="disk", target="a", message="full", cause="much", fix="delete"
    )
    monkeypatch.setattr(module, "examine_cluster", lambda *_, **__: [finding])
    done = mqadmin("cluster", "doctor")
    assert done.status == status
    assert done.out.split("\n")[1].split() == [severity, "disk", "a", "full", "much", "delete"]
    assert f"{status} findings that require an action" in done.err
