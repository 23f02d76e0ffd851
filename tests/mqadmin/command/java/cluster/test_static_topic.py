import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_the_mapping_before_and_after_is_written_and_a_refusal_named(
    java: Run, tmp_path: Path
) -> None:
    done = java("updateStaticTopic -t Static -c DefaultCluster -qn 2")
    assert done.status in (0, 4)
    (after,) = tmp_path.glob("Static-*.after")
    state = {"totalQueues": 2, "queue0": "broker-a/0", "queue1": "broker-a/1"}
    assert json.loads(after.read_text()) == {"broker-a": state}
    (before,) = tmp_path.glob("Static-*.before")
    assert json.loads(before.read_text()) == {}
    assert f"written to file {before}" in done.out
    assert done.status == 0 or "UPDATE_AND_CREATE_STATIC_TOPIC" in done.err


def test_options_without_effect_and_ordinary_topics_are_refused(java: Run, topic: str) -> None:
    assert java("updateStaticTopic -t S -b broker-a -qn 2 -mf x").status == 2
    assert java("updateStaticTopic -t S -b broker-a -qn 0").status == 2
    assert java(f"updateStaticTopic -t {topic} -b broker-a -qn 8").status == 1


def test_a_static_topic_is_extended_with_its_queues_in_place(java: Run, tmp_path: Path) -> None:
    assert java("updateStaticTopic -t Wider -c DefaultCluster -qn 2").status == 0
    for path in tmp_path.glob("Wider-*"):
        path.unlink()
    assert java("updateStaticTopic -t Wider -c DefaultCluster -qn 3").status == 0
    (before,) = tmp_path.glob("Wider-*.before")
    (after,) = tmp_path.glob("Wider-*.after")
    assert json.loads(before.read_text())["broker-a"]["mappingDetail"]["totalQueues"] == 2
    queues = {f"queue{number}": f"broker-a/{number}" for number in range(3)}
    assert json.loads(after.read_text()) == {"broker-a": {"totalQueues": 3, **queues}}


def test_a_remapping_to_the_same_broker_moves_nothing_and_writes_both_files(
    java: Run, tmp_path: Path
) -> None:
    assert java("updateStaticTopic -t Remapped -c DefaultCluster -qn 2").status == 0
    for path in tmp_path.glob("Remapped-*"):
        path.unlink()
    done = java("remappingStaticTopic -t Remapped -c DefaultCluster")
    assert done.status == 0, done.err
    (before,) = tmp_path.glob("Remapped-*.before")
    (after,) = tmp_path.glob("Remapped-*.after")
    assert done.out.splitlines() == [
        f"The old mapping data is written to file {before}",
        f"The old mapping data is written to file {after}",
    ]
    first, second = (
        json.loads(path.read_text())["broker-a"]["mappingDetail"] for path in (before, after)
    )
    assert second["hostedQueues"] == first["hostedQueues"]
    assert second["epoch"] > first["epoch"]


def test_a_remapping_without_target_or_topic_is_refused(java: Run) -> None:
    assert java("remappingStaticTopic -t NoSuchStatic -b broker-a").status == 1
    assert java("remappingStaticTopic -t S").status == 2
    assert java("remappingStaticTopic -t S -b broker-a -c DefaultCluster").status == 2
    assert java("remappingStaticTopic -t S -b broker-a -fr true").status == 2
