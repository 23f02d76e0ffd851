"""``mqadmin consumer doctor``: findings, a sound group, a dead name server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from broker.common.group import SubscriptionGroupConfig
from tests.support.fake_brokers import FakeCluster


def test_statuses_of_a_sound_a_faulty_and_an_unreachable_group(
    mqadmin: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    broker = cluster.add("broker-a")
    monkeypatch.setattr("mqadmin.command.execution.session.connect", lambda *_: cluster.admin())
    broker.store("orders")
    broker.groups["g"] = SubscriptionGroupConfig(group_name="g")
    assert mqadmin("consumer", "doctor", "g").status == 0
    broker.offsets["orders@g"] = {0: 0}
    broker.store("orders", 1)
    broker.offsets["orders@g"] = {1: 0}
    done = mqadmin("consumer", "doctor", "-o", "json")
    assert done.status == 1
    assert [one["kind"] for one in json.loads(done.out)["items"]] == ["noClient"]
    cluster.namesrvs[0].down = True
    assert mqadmin("consumer", "doctor").status == 3
