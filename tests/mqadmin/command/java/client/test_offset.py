"""Resets and copies of offsets under Java's names; offset 0 can be set."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.remoting.protocol.codes import RequestCode
from tests.support.live_broker import call, send

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # undo files are written there


@pytest.fixture
def group(java: Run, embedded: Any, topic: str) -> str:
    """A group named after the topic with offset 1 in queue 0, which has two messages."""
    name = f"g-{topic}"
    assert java(f"updateSubGroup -b $B -g {name}").status == 0
    for key in ("a", "b"):
        send(embedded, topic, key)
    fields = {"consumerGroup": name, "topic": topic, "queueId": 0, "commitOffset": 1}
    call(embedded, RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    return name


def offsets(java: Run, group: str, topic: str) -> list[str]:
    lines = java(f"consumerProgress -g {group} -t {topic}").out.splitlines()
    return [line.split()[4] for line in lines[1:5]]


def test_a_topic_is_reset_to_a_time(java: Run, topic: str, group: str) -> None:
    done = java(f"resetOffsetByTime -g {group} -t {topic} -s 1600000000000")
    assert done.status == 0, done.err
    first, header, *rows = done.out.splitlines()
    assert first == (
        f"start reset consumer offset by specified, group[{group}], topic[{topic}], force[true], "
        "timestamp(string)[1600000000000], timestamp(long)[1600000000000]"
    )
    assert header.split() == ["#brokerName", "#queueId", "#offset"]
    assert rows[0].split() == ["broker-a", "0", "0"]
    assert "undo: mqadmin offset reset" in done.err


@pytest.mark.parametrize("when", ["-1", "now"])
def test_the_end_is_reached_by_now_and_by_negative_times(
    java: Run, topic: str, group: str, when: str
) -> None:
    assert java(f"resetOffsetByTime -g {group} -t {topic} -s {when}").status == 0
    assert offsets(java, group, topic)[0] == "2"


def test_skipping_the_accumulation_prints_the_new_offsets(
    java: Run, topic: str, group: str
) -> None:
    done = java(f"skipAccumulatedMessage -g {group} -t {topic}")
    assert done.out.splitlines()[1].split() == ["broker-a", "0", "2"]


def test_one_queue_is_reset_even_to_0(java: Run, topic: str, group: str) -> None:
    done = java(f"resetOffsetByTime -g {group} -t {topic} -s -1 -b $B -q 0 -o 0")
    assert done.status == 0, done.err
    assert done.out.splitlines()[1] == "reset consumer offset to 0"
    assert offsets(java, group, topic)[0] == "0"


def test_offsets_are_cloned_for_one_topic(java: Run, topic: str, group: str) -> None:
    target = f"copy-{group}"
    assert java(f"updateSubGroup -b $B -g {target}").status == 0
    done = java(f"cloneGroupOffset -s {group} -d {target} -t {topic}")
    assert done.out == (
        f"clone group offset success. srcGroup[{group}], destGroup=[{target}], topic[{topic}]\n"
    )
    assert offsets(java, target, topic) == ["1", "-", "-", "-"]
    assert java(f"cloneGroupOffset -s {group} -d {group} -t {topic}").status == 1


def test_options_without_an_effect_are_refused(java: Run, topic: str) -> None:
    for words in ("-f false", "-q 0", "-o 1", "--cplus", "-b $B"):
        assert java(f"resetOffsetByTime -g g -t {topic} -s now {words}").status == 2, words
