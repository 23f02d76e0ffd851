"""``mqadmin cluster doctor``: findings, a sound cluster, a dead name server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_brokers import FakeCluster


def test_statuses_of_a_sound_a_faulty_and_an_unreachable_cluster(
    mqadmin: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    broker = cluster.add("broker-a")
    monkeypatch.setattr("mqadmin.command.execution.session.connect", lambda *_: cluster.admin())
    assert mqadmin("cluster", "doctor").status == 0
    broker.silent = True
    done = mqadmin("cluster", "doctor", "-c", "DefaultCluster", "-o", "json")
    assert done.status == 1
    assert [one["kind"] for one in json.loads(done.out)["items"]] == ["brokerUnreachable"]
    assert mqadmin("cluster", "doctor", "-c", "none", "-o", "json").out == ""
    cluster.namesrvs[0].down = True
    assert mqadmin("cluster", "doctor").status == 3
