"""Printed queues: every message, tags counted, times and limits."""

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def filled(java: Run, topic: str) -> str:
    """The topic of the test with three messages in queue 0."""
    for body, tag in (("one", "A"), ("two", "B"), ("three", "A")):
        assert java(f"sendMessage -t {topic} -p {body} -c {tag} -b broker-a -i 0").status == 0
    return topic


def bodies(text: str) -> list[str]:
    return [line.rpartition("BODY: ")[2] for line in text.splitlines() if "MSGID: " in line]


def test_every_queue_is_printed_with_its_range(java: Run, filled: str) -> None:
    lines = java(f"printMsg -t {filled}").out.splitlines()
    queue = f"MessageQueue [topic={filled}, brokerName=broker-a, queueId=0]"
    assert lines[0] == f"minOffset=0, maxOffset=3, {queue}"
    assert lines.count("-" * 56) == 4
    assert bodies("\n".join(lines)) == ["one", "two", "three"]


def test_tags_times_and_bodies_are_selected(java: Run, filled: str) -> None:
    assert bodies(java(f"printMsg -t {filled} -s A").out) == ["one", "three"]
    assert bodies(java(f"printMsg -t {filled} -e 1600000000000").out) == []
    assert len(bodies(java(f"printMsg -t {filled} -b 1600000000000").out)) == 3
    assert bodies(java(f"printMsg -t {filled} -d false").out) == ["NOT PRINT BODY"] * 3


def test_one_queue_is_printed_and_counted_by_tag(java: Run, filled: str) -> None:
    line = f"printMsgByQueue -t {filled} -a broker-a -i 0"
    lines = java(f"{line} -p true -d true -f true").out.splitlines()
    assert bodies("\n".join(lines)) == ["one", "two", "three"]
    assert lines[-2:] == [
        "Tag: A                              Count: 2",
        "Tag: B                              Count: 1",
    ]
    assert java(line).status == 2


def test_messages_are_consumed_up_to_a_number(java: Run, filled: str) -> None:
    line = f"consumeMessage -t {filled} -b broker-a -i 0"
    assert bodies(java(f"{line} -c 2").out) == ["one", "two"]
    lines = java(f"{line} -o 2").out.splitlines()
    assert lines[0] == "Consume ok"
    assert bodies(lines[1]) == ["three"]
    assert lines[2].endswith("queueId=0] print msg finished. status=NO_NEW_MSG, offset=3")


def test_invalid_options_are_usage_errors(java: Run, topic: str) -> None:
    for line in (
        f"printMsg -t {topic} -b yesterdayish",
        f"printMsg -t {topic} -c NOCHARSET",
        f"printMsg -t {topic} -l parent",
        f"consumeMessage -t {topic} -b broker-a",
        f"consumeMessage -t {topic} -i 0",
        f"consumeMessage -t {topic} -o 0",
        f"consumeMessage -t {topic} -c 0",
    ):
        assert java(line).status == 2, line


def test_an_unknown_topic_has_status_1(java: Run) -> None:
    assert java("printMsg -t NoSuch").status == 1
