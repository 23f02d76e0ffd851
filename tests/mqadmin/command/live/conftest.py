"""A cluster in memory to which commands connect."""

import pytest

from tests.support.fake_brokers import FakeCluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    made.add("broker-a")
    made.add("broker-b").runtime["putTps"] = "9 9 9"
    monkeypatch.setattr("mqadmin.command.execution.session.connect", lambda *_: made.admin())
    return made
