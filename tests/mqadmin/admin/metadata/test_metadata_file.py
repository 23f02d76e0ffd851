"""The metadata file: merged objects, and files that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from mqadmin.admin.metadata.metadata_file import (
    MetadataFile,
    MetadataItem,
    load_metadata,
    merged_items,
    save_metadata,
)

BROKERS = ("a", "b")


def test_an_object_that_is_the_same_on_every_broker_is_one_item() -> None:
    same = {"a": {"perm": 6}, "b": {"perm": 6}}
    assert merged_items("topic", "t", same, BROKERS) == [
        MetadataItem(kind="topic", name="t", broker_name=None, fields={"perm": 6})
    ]
    for states in ({"a": {"perm": 6}}, {"a": {"perm": 6}, "b": {"perm": 4}}):
        found = merged_items("topic", "t", states, BROKERS)
        assert {one.broker_name: one.fields for one in found} == states


def test_settings_are_merged_one_by_one() -> None:
    states = {"a": {"x": "1", "y": "2"}, "b": {"x": "1", "y": "3"}}
    found = merged_items("setting", "settings", states, BROKERS)
    assert {one.broker_name: one.fields for one in found} == {
        None: {"x": "1"},
        "a": {"y": "2"},
        "b": {"y": "3"},
    }


def test_a_file_is_read_as_it_was_written_and_never_overwritten(tmp_path: Path) -> None:
    item = MetadataItem(kind="kv", name="n/k", broker_name=None, fields={"value": "v"})
    content = MetadataFile(cluster="c", exported_timestamp=1, items=[item])
    path = str(tmp_path / "f.json")
    save_metadata(path, content)
    assert load_metadata(path) == content
    with pytest.raises(ConfigError):
        save_metadata(path, content)


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema": "mqadmin.metadata/9"},
        {"items": [{"kind": "broker", "name": "x", "brokerName": None, "fields": {}}]},
        {"items": [{"kind": "kv", "name": "n/k", "brokerName": None, "fields": {"value": 1}}]},
        {"items": [{"kind": "acl", "name": "User:a", "brokerName": None, "fields": {"T": {}}}]},
        {"items": [{"kind": "user", "name": "a", "brokerName": None, "fields": {"password": "x"}}]},
        {"items": [{"kind": "setting", "name": "s", "brokerName": None, "fields": {"a": 1}}]},
        {"items": [{"kind": "topic"}]},
        {"cluster": None},
    ],
)
def test_a_file_with_other_content_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    whole = {"schema": "mqadmin.metadata/1", "cluster": "c", "exportedTimestamp": 1, "items": []}
    path = tmp_path / "f.json"
    path.write_text(json.dumps(whole | wrong))
    with pytest.raises(ConfigError, match=r"f\.json"):
        load_metadata(str(path))


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    item = MetadataItem(kind="topic", name="t", broker_name=None, fields={"perm": 6})
    path = tmp_path / "whole.json"
    save_metadata(str(path), MetadataFile(cluster="c", exported_timestamp=1, items=[item]))
    data = path.read_bytes().rstrip()
    for length in range(len(data)):
        (tmp_path / "cut").write_bytes(data[:length])
        with pytest.raises(ConfigError):
            load_metadata(str(tmp_path / "cut"))
