"""A check against brokers in memory: command line in, status and line out."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_brokers import FakeCluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster with one name server and broker-a, to which commands connect."""
    made = FakeCluster()
    made.add("broker-a").runtime |= {"commitLogDiskRatio": "0.5", "consumeQueueDiskRatio": "0.5"}
    monkeypatch.setattr(
        "mqadmin.command.execution.session.connect", lambda settings, trace: made.admin()
    )
    return made


@pytest.fixture
def check(mqadmin: Callable[..., Any], cluster: FakeCluster) -> Callable[..., Any]:
    """Run ``mqadmin check WORDS``."""
    return lambda *words: mqadmin("check", *words)
