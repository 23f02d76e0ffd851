"""All data sources are registered with a session."""

from types import SimpleNamespace
from typing import Any

from mqadmin.pipeline.sources.register import register


def test_every_source_is_registered_under_its_name() -> None:
    registered: list[Any] = []
    session: Any = SimpleNamespace(dataSource=SimpleNamespace(register=registered.append))
    register(session)
    assert {source.name() for source in registered} == {
        *("rocketmq-store", "rocketmq-queue", "rocketmq-index", "rocketmq-offsets"),
        "rocketmq-verify",
    }
