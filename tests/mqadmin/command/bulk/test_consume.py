import json
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.offset.library import OffsetAdmin
from mqadmin.admin.session import AdminSession

Run = Callable[..., Any]
Topics = Callable[..., str]
Child = Callable[..., subprocess.Popen[bytes]]


def committed(namesrv: str, group: str) -> int:
    with AdminSession([namesrv], timeout_ms=30_000) as admin:
        return sum(one.consumer_offset or 0 for one in OffsetAdmin(admin).show(group).items)


def bodies(text: str | bytes) -> list[str]:
    return sorted(json.loads(line)["body"] for line in text.splitlines())


def test_a_group_continues_after_the_last_printed_message(
    mqadmin: Run, new_topic: Topics, namesrv: str
) -> None:
    topic = new_topic("GroupContinues", messages=20)
    words = ("msg", "consume", topic, "-g", "cont", "--start", "earliest", "-o", "ndjson")
    first = mqadmin(*words, "--limit", "6")
    assert (first.status, len(bodies(first.out))) == (0, 6)
    assert committed(namesrv, "cont") == 6
    second = mqadmin(*words, "--idle", "2s")
    assert sorted(bodies(first.out) + bodies(second.out)) == sorted(map(str, range(20)))


def test_no_commit_leaves_the_offsets_of_the_group(
    mqadmin: Run, new_topic: Topics, namesrv: str
) -> None:
    topic = new_topic("GroupPeek", messages=10)
    words = ("msg", "consume", topic, "-g", "peek", "--start", "earliest", "-o", "ndjson")
    mqadmin(*words, "--limit", "4")
    for _ in range(2):
        found = mqadmin(*words, "--no-commit", "--idle", "1s")
        assert len(bodies(found.out)) == 6
    assert committed(namesrv, "peek") == 4


def test_without_a_group_the_brokers_know_no_group(
    mqadmin: Run, new_topic: Topics, namesrv: str
) -> None:
    topic = new_topic("GroupNone", messages=5)
    before = mqadmin("group", "list", "-o", "json").out
    topics = mqadmin("topic", "list", "-o", "json").out
    found = mqadmin("msg", "consume", topic, "--start", "earliest", "--limit", "5", "-o", "json")
    assert len(json.loads(found.out)["items"]) == 5
    assert mqadmin("group", "list", "-o", "json").out == before
    assert mqadmin("topic", "list", "-o", "json").out == topics


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_document_must_have_an_end(mqadmin: Run, namesrv: str, form: str) -> None:
    done = mqadmin("msg", "consume", "t", "-o", form)
    assert done.status == 2
    assert "--idle" in done.err


def test_a_document_is_committed_at_its_end(mqadmin: Run, new_topic: Topics, namesrv: str) -> None:
    topic = new_topic("GroupDocument", messages=8)
    done = mqadmin(
        *("msg", "consume", topic, "-g", "doc", "--start", "earliest", "--limit", "5"),
        *("-o", "json"),
    )
    assert len(json.loads(done.out)["items"]) == 5
    assert committed(namesrv, "doc") == 5


@pytest.mark.parametrize("words", ["t --no-commit", "t --tag a --sql b", "t --start never", ""])
def test_options_that_cannot_be_applied_are_refused(mqadmin: Run, words: str) -> None:
    assert mqadmin("msg", "consume", *words.split()).status == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_commits_exactly_the_printed_messages(
    child: Child, new_topic: Topics, namesrv: str, number: signal.Signals
) -> None:
    group = f"sig{number.value}"
    topic = new_topic(f"GroupSignal{number.value}", queues=1, messages=30)
    process = child("msg", "consume", topic, "-g", group, "--start", "earliest", "-o", "ndjson")
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(30)]
    process.send_signal(number)
    rest, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    printed = [line for line in first if line] + rest.splitlines()
    assert committed(namesrv, group) == len(printed) == 30


def test_a_closed_pipe_commits_no_more_than_was_written(
    child: Child, mqadmin: Run, new_topic: Topics, namesrv: str
) -> None:
    topic = new_topic("GroupPipe", queues=1, messages=5)
    words = ("msg", "consume", topic, "-g", "pipe", "--start", "earliest", "-o", "ndjson")
    process = child(*words)
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(5)]
    process.stdout.close()
    mqadmin("msg", "send", topic, "--body", "after")
    assert process.wait(60) == 0
    assert len(seen) == committed(namesrv, "pipe") == 5
    again = mqadmin(*words, "--idle", "2s")
    assert bodies(again.out) == ["after"]


def test_an_unknown_topic_ends_the_command(mqadmin: Run, namesrv: str) -> None:
    for words in ((), ("-g", "g1")):
        assert mqadmin("msg", "consume", "NoSuchTopic", *words).status == 1


def test_a_name_server_that_does_not_respond_has_status_3(mqadmin: Run) -> None:
    for words in ((), ("-g", "g1"), ("-g", "g1", "--no-commit")):
        done = mqadmin("msg", "consume", "t", *words, "-n", "127.0.0.1:1", "--timeout", "2s")
        assert done.status == 3
