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
    assert json.loads(after.read_text()) == {"broker-a": {"queues": [0, 1]}}
    (before,) = tmp_path.glob("Static-*.before")
    assert json.loads(before.read_text()) == {}
    assert f"written to file {before}" in done.out
    assert done.status == 0 or "UPDATE_AND_CREATE_STATIC_TOPIC" in done.err


def test_options_without_effect_and_ordinary_topics_are_refused(java: Run, topic: str) -> None:
    assert java("updateStaticTopic -t S -b broker-a -qn 2 -mf x").status == 2
    assert java("updateStaticTopic -t S -b broker-a -qn 0").status == 2
    assert java(f"updateStaticTopic -t {topic} -b broker-a -qn 8").status == 1
