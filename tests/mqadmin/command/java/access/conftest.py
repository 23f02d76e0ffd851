"""Commands with a Java name on two brokers in memory that have ACL 2.0."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.access_broker import AccessTable
from tests.support.fake_brokers import FakeCluster

Run = Callable[..., Any]


@pytest.fixture
def tables() -> list[AccessTable]:
    return [AccessTable(), AccessTable()]


@pytest.fixture
def secured(mqadmin: Run, tables: list[AccessTable], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a line; ``$A`` and ``$B`` are the addresses of the brokers."""
    cluster = FakeCluster()
    places = {}
    for name, table, place in zip(("broker-a", "broker-b"), tables, ("$A", "$B"), strict=True):
        broker = cluster.add(name)
        table.serve(broker)
        places[place] = broker.address
    monkeypatch.setattr(
        "mqadmin.command.execution.session.connect", lambda settings, trace: cluster.admin()
    )

    def run(line: str, *words: str, stdin: str = "") -> Any:
        return mqadmin(*[places.get(word, word) for word in line.split()], *words, stdin=stdin)

    return run
