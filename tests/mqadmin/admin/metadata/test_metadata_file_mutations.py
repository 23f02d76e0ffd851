"""Metadata files with one value of another type: read, or refused with their path."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from mqadmin.admin.metadata.metadata_file import (
    KINDS,
    METADATA_SCHEMA,
    MetadataFile,
    load_metadata,
    save_metadata,
)
from tests.support.json_mutations import failures

ITEMS: list[dict[str, Any]] = [
    {"kind": "topic", "name": "T", "brokerName": "b", "fields": {"perm": 6, "order": False}},
    {"kind": "group", "name": "G", "brokerName": "b", "fields": {"retryMaxTimes": 3}},
    {"kind": "kv", "name": "N/k", "brokerName": None, "fields": {"value": "x"}},
    {"kind": "user", "name": "u", "brokerName": None, "fields": {}},
    {
        "kind": "acl",
        "name": "User:u",
        "brokerName": None,
        "fields": {"Topic:*": {"actions": ["Pub"], "sourceIps": [], "decision": "Allow"}},
    },
    {"kind": "setting", "name": "settings", "brokerName": "b", "fields": {"traceOn": "true"}},
]
DOCUMENT = {
    "schema": METADATA_SCHEMA,
    "cluster": "C",
    "exportedTimestamp": 1_700_000_000_000,
    "items": ITEMS,
}


def load(path: Path, document: Any) -> MetadataFile:
    path.write_text(json.dumps(document))
    return load_metadata(str(path))


def test_each_kind_of_object_is_in_the_document() -> None:
    assert {item["kind"] for item in ITEMS} == set(KINDS)


def test_a_value_of_another_type_is_accepted_or_refused_but_raises_nothing_else(
    tmp_path: Path,
) -> None:
    """A file is edited by hand before it is applied to another cluster."""
    path = tmp_path / "metadata.json"

    def read(changed: Any) -> None:
        for item in load(path, changed).items:
            assert item.kind in KINDS
            assert isinstance(item.name, str)
            assert item.name

    accepted, wrong = failures(read, DOCUMENT, ConfigError)
    assert wrong == []
    assert accepted > 0


def test_a_file_that_was_read_is_written_to_the_same_content(tmp_path: Path) -> None:
    content = load(tmp_path / "metadata.json", DOCUMENT)
    save_metadata(str(tmp_path / "again.json"), content)
    assert load_metadata(str(tmp_path / "again.json")) == content


@pytest.mark.parametrize("schema", ["", "mqadmin.metadata/2", "mqadmin.plan/1"])
def test_a_file_of_another_schema_is_refused(tmp_path: Path, schema: str) -> None:
    with pytest.raises(ConfigError, match=METADATA_SCHEMA):
        load(tmp_path / "metadata.json", {**DOCUMENT, "schema": schema})


@pytest.mark.parametrize("kind", ["", "queue", "Topic"])
def test_an_object_of_an_unknown_kind_is_refused(tmp_path: Path, kind: str) -> None:
    item = {**ITEMS[0], "kind": kind}
    with pytest.raises(ConfigError, match=r"metadata\.json"):
        load(tmp_path / "metadata.json", {**DOCUMENT, "items": [item]})


@pytest.mark.parametrize(
    ("kind", "name"),
    [("topic", ""), ("group", ""), ("kv", "N"), ("kv", "N/"), ("kv", "/k"), ("kv", "")],
)
def test_an_object_without_a_name_is_refused_before_anything_is_changed(
    tmp_path: Path, kind: str, name: str
) -> None:
    fields = {"value": "x"} if kind == "kv" else {}
    item = {"kind": kind, "name": name, "brokerName": None, "fields": fields}
    with pytest.raises(ConfigError, match="is not a name"):
        load(tmp_path / "metadata.json", {**DOCUMENT, "items": [item]})
