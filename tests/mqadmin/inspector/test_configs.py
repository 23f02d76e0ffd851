"""Configuration files, and their backups."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from broker.store.format.timer import TimerCheckpoint, encode_timer_checkpoint
from mqadmin.inspector.configs import (
    config_rows,
    consumer_offset_file,
    decode_file,
    keep_valid_entries,
    read_topics,
)
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import ConfigRow, DamageRow


@pytest.fixture
def root(tmp_path: Path, vectors: dict) -> Path:
    folder = tmp_path / "store" / "config"
    folder.mkdir(parents=True)
    (tmp_path / "store" / "commitlog").mkdir()
    for title, text in vectors["config_json"].items():
        name, _, dialect = title.partition(" ")
        if "4.9" not in dialect and "compact" not in dialect:
            (folder / name).write_text(text)
            (folder / f"{name}.bak").write_text(text)
    (folder / "timercheck").write_bytes(encode_timer_checkpoint(TimerCheckpoint(1, 2, 3)))
    (folder / "topics.json.tmp").write_text("half a fi")
    return folder.parent


def look(root: Path, **conditions: Any) -> tuple[dict[str, ConfigRow], list[DamageRow]]:
    rows = list(config_rows(StoreDirectory(root), Query(**conditions)))
    found = {row.name: row for row in rows if isinstance(row, ConfigRow)}
    return found, [row for row in rows if isinstance(row, DamageRow)]


def test_each_file_is_shown_once(root: Path) -> None:
    found, damage_rows = look(root)
    assert not damage_rows
    assert "topics.json" in found
    assert not [name for name in found if name.endswith((".bak", ".tmp"))]
    assert found["consumerOffset.json"].value["offsetTable"]["TopicA@GroupB"] == {0: 3, 1: 5}
    assert found["timercheck"].value["lastTimerQueueOffset"] == 3
    assert not any(row.from_backup for row in found.values())


def test_one_file_can_be_given(root: Path) -> None:
    (row,) = config_rows(StoreDirectory(root / "config" / "delayOffset.json"))
    assert row.value["offsetTable"] == {1: 5, 3: 12}


def test_a_broken_file_is_reported_and_read_from_its_backup(root: Path) -> None:
    path = root / "config" / "topics.json"
    for broken in ("", '{"dataVersion":{', "[]", "\x00\x01"):
        path.write_text(broken)
        found, (damage,) = look(root)
        assert (damage.kind, damage.path, damage.severity) == ("config", str(path), "error")
        assert found["topics.json"].from_backup
        assert found["topics.json"].path.endswith(".bak")
        assert "TopicA" in read_topics(StoreDirectory(root))
    path.unlink()
    found, damage_rows = look(root)
    assert not damage_rows
    assert found["topics.json"].from_backup


def test_two_corrupt_files_are_two_findings(root: Path) -> None:
    for name in ("topics.json", "topics.json.bak"):
        (root / "config" / name).write_text("{")
    found, damage_rows = look(root)
    assert [damage.severity for damage in damage_rows] == ["error", "warning"]
    assert "topics.json" not in found
    assert read_topics(StoreDirectory(root)) == []


def test_a_topic_narrows_the_tables(root: Path) -> None:
    found, _ = look(root, topic="TopicA")
    assert list(found["topics.json"].value["topicConfigTable"]) == ["TopicA"]
    assert list(found["consumerOffset.json"].value["offsetTable"]) == ["TopicA@GroupB"]


def test_a_store_without_config_has_none(made: Any) -> None:
    assert list(config_rows(StoreDirectory(made.root))) == []
    assert read_topics(StoreDirectory(made.root)) == []


@pytest.mark.parametrize(
    ("name", "content", "kept", "invalid"),
    [
        (
            "delayOffset.json",
            {"offsetTable": {"1": 5, "x": 6, "2": "y", "3": "7"}},
            {"offsetTable": {"1": 5, "3": "7"}},
            ["x", "2"],
        ),
        (
            "lmqConsumerOffset.json",
            {"offsetTable": {"%LMQ%a@g": {"0": 3, "1": None}, "b": 1}, "lmqOffsetTable": {"c": {}}},
            {"offsetTable": {"%LMQ%a@g": {"0": 3}}, "lmqOffsetTable": {}},
            ["b", "c"],
        ),
        (
            "topics.json",
            {
                "topicConfigTable": {
                    "A": {"perm": 4},
                    "B": {"perm": "x"},
                    "C": 7,
                    "D": {"attributes": {"a": "\ud800"}},
                }
            },
            {"topicConfigTable": {"A": {"perm": 4}}},
            ["B", "C", "D"],
        ),
        (
            "subscriptionGroup.json",
            {
                "subscriptionGroupTable": {"G": {"retryMaxTimes": 3}, "H": {"retryMaxTimes": []}},
                "forbiddenTable": {"G": {"A": 1}, "H": {"A": "x"}},
            },
            {
                "subscriptionGroupTable": {"G": {"retryMaxTimes": 3}},
                "forbiddenTable": {"G": {"A": 1}},
            },
            ["H", "H"],
        ),
    ],
)
def test_valid_entries_are_kept_and_others_left_out(
    name: str, content: object, kept: dict[str, object], invalid: list[str]
) -> None:
    found = keep_valid_entries(name, json.dumps(content).encode())
    assert found is not None
    assert decode_file(name, found.text.encode()) == kept
    assert found.invalid == invalid


@pytest.mark.parametrize("name", ["topics.json", "consumerOffset.json", "timercheck"])
def test_a_file_without_its_table_is_not_reduced(name: str) -> None:
    assert keep_valid_entries(name, b"{}") is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"offsetTable":7}', b'{"dataVersion":[]}'])
def test_a_file_that_has_another_defect_is_not_reduced(data: bytes) -> None:
    assert keep_valid_entries("consumerOffset.json", data) is None


def test_the_offsets_file_in_use_is_the_one_written_last(tmp_path: Path) -> None:
    plain, light = tmp_path / "consumerOffset.json", tmp_path / "lmqConsumerOffset.json"
    assert consumer_offset_file(tmp_path) == plain
    light.touch()
    assert consumer_offset_file(tmp_path) == light
    plain.touch()
    for times, used in (((1000, 2000), light), ((2000, 1000), plain)):
        os.utime(plain, (0, times[0]))
        os.utime(light, (0, times[1]))
        assert consumer_offset_file(tmp_path) == used


@pytest.mark.parametrize("name", ["topics.json", "consumerFilter.json", "timermetrics"])
def test_an_unpaired_surrogate_is_reported(root: Path, name: str) -> None:
    (root / "config" / name).write_text(r'{"x":{"a":"\ud800"}}')
    found, (damage,) = look(root)
    assert "x.a: an unpaired surrogate" in damage.detail
    assert found[name].from_backup


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("consumerFilter.json", '{"filterDataByTopic":1}'),
        ("consumerOrderInfo.json", '{"table":[]}'),
        ("topicQueueMapping.json", '{"topicQueueMappingInfoMap":1}'),
        ("topicQueueMapping.json", '{"topicQueueMappingInfoMap":{"S":{"hostedQueues":{"0":[7]}}}}'),
        ("messageRequestMode.json", '{"messageRequestModeMap":1}'),
        ("consumerOrderInfo.json", '{"table":{"T@G":{"0":{"o":7}}}}'),
        ("messageRequestMode.json", '{"messageRequestModeMap":{"T":{"G":{"mode":"PUSH"}}}}'),
    ],
)
def test_a_table_that_brokers_refuse_is_reported(root: Path, name: str, text: str) -> None:
    (root / "config" / name).write_text(text)
    _, (damage, *_) = look(root)
    assert (damage.path, damage.severity) == (str(root / "config" / name), "error")
