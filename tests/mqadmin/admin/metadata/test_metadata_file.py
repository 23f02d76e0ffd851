"""The metadata file: merged objects, and files that are refused."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from mqadmin.admin.metadata.metadata_file import (
    SECRET,
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


def item(**fields: Any) -> dict[str, Any]:
    return {"kind": "topic", "name": "t", "brokerName": None, "fields": {}, **fields}


def written(tmp_path: Path, *items: dict[str, Any]) -> str:
    whole = {"schema": "mqadmin.metadata/1", "cluster": "c", "exportedTimestamp": 1}
    path = tmp_path / "f.json"
    path.write_text(json.dumps({**whole, "items": list(items)}))
    return str(path)


@pytest.mark.parametrize(
    "good",
    [
        item(),
        item(kind="group", name="g", fields={"anything": [1, {"a": None}]}),
        item(kind="kv", name="n/k/l", fields={"value": ""}),
        item(kind="user", name="u", fields={"userType": "Super", "userStatus": None}),
        item(kind="user", name="u", fields={}),
        item(kind="acl", name="User:u", fields={}),
        item(
            kind="acl",
            name="User:u",
            fields={"Topic:t": {"actions": ["Pub"], "sourceIps": [], "decision": None}},
        ),
        item(kind="setting", name="settings", brokerName="a", fields={"k": "v"}),
    ],
)
def test_every_kind_of_object_is_read(tmp_path: Path, good: dict[str, Any]) -> None:
    (found,) = load_metadata(written(tmp_path, good)).items
    assert (found.kind, found.name, found.broker_name) == (
        good["kind"],
        good["name"],
        good["brokerName"],
    )


@pytest.mark.parametrize("name", ["", "n", "n/", "/k", "/"])
def test_the_name_of_a_kv_entry_has_a_namespace_and_a_key(tmp_path: Path, name: str) -> None:
    bad = item(kind="kv", name=name, fields={"value": "v"})
    with pytest.raises(ConfigError, match="is not a name") as caught:
        load_metadata(written(tmp_path, item(), bad))
    assert caught.value.hint == "the name of a KV entry is NAMESPACE/KEY"


def test_an_unknown_kind_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'broker' is not a kind of object") as caught:
        load_metadata(written(tmp_path, item(kind="broker")))
    assert caught.value.hint == "kinds: topic, group, kv, user, acl, setting"


@pytest.mark.parametrize(
    ("kind", "fields", "place"),
    [
        ("kv", {"value": "v", "more": "x"}, "kv n/k"),
        ("user", {"password": "x"}, "user n/k"),
        ("acl", {"Topic:t": {"actions": "Pub", "sourceIps": [], "decision": None}}, "acl n/k"),
        ("setting", {"a": None}, "setting n/k"),
    ],
)
def test_fields_of_another_kind_name_the_object(
    tmp_path: Path, kind: str, fields: dict[str, Any], place: str
) -> None:
    with pytest.raises(ConfigError, match=f"metadata file .*: {place}: "):
        load_metadata(written(tmp_path, item(kind=kind, name="n/k", fields=fields)))


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("brokerPassword", True),
        ("SecretKey", True),
        ("innerClientAuthenticationCredentials", True),
        ("initAuthenticationUser", True),
        ("flushDiskType", False),
        ("brokerName", False),
    ],
)
def test_settings_with_secrets_are_known_by_their_names(name: str, secret: bool) -> None:
    assert bool(SECRET.search(name)) is secret


def test_settings_of_which_one_broker_has_none_are_not_merged() -> None:
    found = merged_items("setting", "settings", {"a": {"x": "1"}}, BROKERS)
    assert [(one.broker_name, one.fields) for one in found] == [("a", {"x": "1"})]


def test_an_object_that_no_broker_has_in_common_is_one_item_each_in_order_of_name() -> None:
    found = merged_items("setting", "settings", {"b": {"x": "1"}, "a": {"x": "2"}}, BROKERS)
    assert [(one.broker_name, one.fields) for one in found] == [
        ("a", {"x": "2"}),
        ("b", {"x": "1"}),
    ]


def test_merged_settings_are_those_of_every_broker(rng: random.Random) -> None:
    for _ in range(100):
        states = {
            broker: {
                f"k{number}": str(rng.randrange(2)) for number in range(5) if rng.random() < 0.8
            }
            for broker in BROKERS
        }
        if not all(states.values()):
            continue
        found = merged_items("setting", "settings", states, BROKERS)
        for broker in BROKERS:
            rebuilt: dict[str, Any] = {}
            for one in found:
                if one.broker_name in (None, broker):
                    assert not rebuilt.keys() & one.fields.keys()
                    rebuilt |= one.fields
            assert rebuilt == states[broker]
