"""The plan file: written whole, read strictly."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from mqadmin.admin.plans.plan_file import load_plan, write_plan_file


@pytest.fixture
def written(admin: Any, tmp_path: Path) -> Path:
    path = tmp_path / "a plan"
    plan = admin.topic.plan_create("fresh", queues=2)
    word = write_plan_file(admin, plan, str(path), verb="topic create", context="prod")
    assert word == f"'{path}'"
    return path


def test_a_plan_is_read_back_as_it_was_written(admin: Any, written: Path) -> None:
    content = load_plan(str(written))
    again = admin.topic.plan_create("fresh", queues=2)
    assert content.change is not None
    assert (content.change.kind, content.change.changes) == (again.kind, again.changes)
    assert (content.verb, content.context) == ("topic create", "prod")
    assert list(content.brokers.values()) == ["broker-a", "broker-b"]
    assert content.addresses == list(content.brokers)


def test_a_plan_of_offsets_is_read_back(admin: Any, broker_a: Any, tmp_path: Path) -> None:
    broker_a.store("orders", 0)
    admin.group.apply(admin.group.plan_create("g"))
    plan = admin.offset.plan_reset("g", "orders", "earliest")
    write_plan_file(admin, plan, str(tmp_path / "p"), verb="offset reset", context="")
    content = load_plan(str(tmp_path / "p"))
    assert content.offsets is not None
    assert content.offsets.items == plan.items
    assert set(content.addresses) == {broker_a.address}


def test_a_file_is_never_overwritten(admin: Any, written: Path) -> None:
    with pytest.raises(ConfigError, match="File exists"):
        plan = admin.topic.plan_create("other")
        write_plan_file(admin, plan, str(written), verb="topic create", context="")
    assert "fresh" in written.read_text()


def test_every_cut_is_refused_with_the_path(written: Path) -> None:
    data = written.read_bytes()
    for end in range(0, len(data) - 2, 97):
        written.write_bytes(data[:end])
        with pytest.raises(ConfigError, match="plan file "):
            load_plan(str(written))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": "mqadmin.plan/2"}, "schema mqadmin.plan/2"),
        ({"change": None}, "one of them"),
        ({"change": {"kind": "broker.config", "subject": "x"}}, "not a change that can be applied"),
    ],
)
def test_other_documents_are_refused(written: Path, change: dict[str, Any], reason: str) -> None:
    document = json.loads(written.read_text()) | change
    written.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=reason):
        load_plan(str(written))


def test_a_plan_cannot_contain_requests_of_another_kind(written: Path) -> None:
    document = json.loads(written.read_text())
    document["change"]["changes"][0]["request"]["code"] = 25  # UPDATE_BROKER_CONFIG
    written.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=r"request 25 is not part of topic\.create"):
        load_plan(str(written))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nope"):
        load_plan(str(tmp_path / "nope"))
