"""Names for completion come from the cluster with a short deadline."""

from pathlib import Path
from typing import Any

import pytest

from mqadmin.command.framework.live_names import TIMEOUT_MS, live_names

ENVIRON = {"HOME": "/nonexistent"}


class Item:
    def __init__(self, **fields: str) -> None:
        self.__dict__.update(fields)


class Items:
    def __init__(self, *items: Item) -> None:
        self.items = items


@pytest.mark.parametrize(
    ("source", "call", "items", "names"),
    [
        ("topic", "topic.list", [Item(topic="a"), Item(topic="b")], {"a", "b"}),
        ("group", "group.list", [Item(group="g"), Item(group="g")], {"g"}),
        ("broker", "cluster.list", [Item(broker_name="x"), Item(broker_name="x")], {"x"}),
        ("cluster", None, [], set()),
    ],
)
def test_each_source_has_its_own_names(
    admin: Any, source: str, call: str | None, items: list[Item], names: set[str]
) -> None:
    if call is not None:
        admin.answers[call] = Items(*items)
    assert live_names(source, {}, ENVIRON) == names
    assert [name for name, _, _ in admin.calls] == ([] if call is None else [call])


def test_the_deadline_is_short_whatever_is_configured(admin: Any) -> None:
    admin.answers["topic.list"] = Items()
    live_names("topic", {"timeout": "60s", "namesrv": "h:1"}, ENVIRON)
    assert admin.settings.timeout_ms == TIMEOUT_MS
    assert admin.settings.namesrv == ["h:1"]
    assert admin.closed


def test_the_session_is_closed_after_an_error(admin: Any) -> None:
    admin.answers["topic.list"] = OSError("no route")
    with pytest.raises(OSError, match="no route"):
        live_names("topic", {}, ENVIRON)
    assert admin.closed


def test_contexts_need_no_cluster(admin: Any, tmp_path: Path) -> None:
    environ = {**ENVIRON, "XDG_CONFIG_HOME": str(tmp_path)}
    assert live_names("context", {}, environ) == set()
    assert admin.settings is None
