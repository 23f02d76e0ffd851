"""``--columns``, ``--no-headers`` and ``--sort``: where they apply, and their results."""

from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.result import Listing
from mqadmin.admin.topic import TopicRecord

Run = Callable[..., Any]


@pytest.fixture
def topics(admin: Any) -> None:
    admin.answers["topic.list"] = Listing(
        items=[
            TopicRecord(topic="b", broker_name="x", read_queue_nums=1),
            TopicRecord(topic="a", broker_name="y", read_queue_nums=4),
        ]
    )


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(
    ("words", "out"),
    [
        (("--columns", "topic,BROKER-NAME"), "TOPIC  BROKER-NAME\nb      x\na      y\n"),
        (("--columns", "topic", "--sort", "topic"), "TOPIC\na\nb\n"),
        (("--columns", "topic", "--sort", "readQueueNums:desc", "--no-headers"), "a\nb\n"),
        (("--columns", "topic,perm", "--no-headers", "-o", "csv"), "b,\na,\n"),
        (("--columns", "topic", "--sort", "topic", "-o", "csv"), "topic\na\nb\n"),
        (
            ("--columns", "topic", "-o", "markdown"),
            "| TOPIC   |\n|:--------|\n| b       |\n| a       |\n",
        ),
    ],
)
def test_a_list_has_the_chosen_fields_order_and_headings(
    mqadmin: Run, words: tuple[str, ...], out: str
) -> None:
    done = mqadmin("topic", "list", *words)
    assert (done.status, done.out) == (0, out), done.err
    assert mqadmin(*words, "topic", "list").out == out


@pytest.mark.usefixtures("topics")
def test_json_is_sorted_and_complete(mqadmin: Run) -> None:
    lines = mqadmin("topic", "list", "--sort", "topic", "-o", "ndjson").out.splitlines()
    assert [line[:12] for line in lines] == ['{"topic":"a"', '{"topic":"b"']


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(
    "line",
    [
        "topic list --columns nosuch",
        "topic list --sort nosuch",
        "topic list --sort topic:up",
        "topic list --columns topic -o json",
        "topic list --no-headers -o yaml",
        "topic route orders --columns topic",
        "topic create orders --columns topic --yes",
        "msg tail orders --sort topic",
    ],
)
def test_an_option_that_does_not_apply_is_refused(mqadmin: Run, admin: Any, line: str) -> None:
    admin.answers["message.tail"] = lambda *_, **__: iter(())
    done = mqadmin(*line.split())
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(("error: ", '{"error"'))
