import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin

Run = Callable[..., Any]
Topics = Callable[..., str]
Child = Callable[..., subprocess.Popen[bytes]]


def stored(namesrv: str, topic: str) -> int:
    with AdminSession([namesrv], timeout_ms=30_000) as admin:
        return sum(one.max_offset for one in TopicAdmin(admin).status(topic).items)


def test_a_topic_is_piped_into_another(mqadmin: Run, new_topic: Topics, namesrv: str) -> None:
    source, target = new_topic("PipeA", messages=30), new_topic("PipeB")
    rows = mqadmin("msg", "consume", source, "--start", "earliest", "--idle", "1s", "-o", "ndjson")
    assert rows.status == 0
    done = mqadmin("msg", "produce", target, "-o", "json", stdin=rows.out)
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["sent"] == 30
    copy = mqadmin("msg", "consume", target, "--start", "earliest", "--idle", "1s", "-o", "ndjson")
    fields = ("body", "tags", "keys")

    def kept(text: str) -> list[Any]:
        return sorted([json.loads(line)[name] for name in fields] for line in text.splitlines())

    assert kept(copy.out) == kept(rows.out)


def test_failed_lines_are_named_and_the_others_sent(
    mqadmin: Run, new_topic: Topics, namesrv: str
) -> None:
    topic = new_topic("BulkPartly")
    done = mqadmin("msg", "produce", topic, stdin='{"body":"1"}\nbad\n{"body":"3"}\n')
    assert done.status == 5
    assert done.err.startswith("error: stdin line 2: the line is not JSON: bad\nhint: ")
    assert stored(namesrv, topic) == 2


def test_failures_are_rows_of_the_json_result(mqadmin: Run, new_topic: Topics) -> None:
    topic = new_topic("BulkJson")
    done = mqadmin("msg", "produce", topic, "-o", "json", stdin='{"body":"1"}\n{"tags":"x"}\n')
    result = json.loads(done.out)
    assert (result["sent"], result["failed"]) == (1, 1)
    assert [(one["line"], one["kind"]) for one in result["failures"]] == [(2, "input")]
    assert json.loads(done.err)["error"]["message"] == "stdin line 2: the line has no body"


@pytest.mark.parametrize(
    ("data", "status"), [("bad\n", 2), ("", 0), ('{"body":"x","topic":"NoSuch"}\n', 1)]
)
def test_without_a_sent_message_the_status_is_that_of_the_failure(
    mqadmin: Run, namesrv: str, data: str, status: int
) -> None:
    assert mqadmin("msg", "produce", stdin=data).status == status


@pytest.mark.parametrize(
    "words",
    [
        "a --topic b",
        "t --delay 1s --delay-level 2",
        "t --ordered-by keys --delay 1s",
        "t --results --dry-run",
        "t --rate 0",
        "t --batch 0",
        "t --from-line 0",
    ],
)
def test_options_that_cannot_be_applied_are_refused(mqadmin: Run, words: str) -> None:
    assert mqadmin("msg", "produce", *words.split()).status == 2


def test_a_dry_run_sends_nothing(mqadmin: Run, new_topic: Topics, namesrv: str) -> None:
    topic = new_topic("BulkDry")
    done = mqadmin("msg", "produce", topic, "--dry-run", "-f", "lines", stdin="a\nb\n")
    assert done.status == 0
    assert done.out.endswith("dry run: nothing was changed\n")
    assert stored(namesrv, topic) == 0


def test_files_are_read_and_csv_is_known_by_its_name(
    mqadmin: Run, new_topic: Topics, namesrv: str, tmp_path: Path
) -> None:
    topic = new_topic("BulkCsv")
    (tmp_path / "a.csv").write_text("body,region\nx,eu\ny,us\n")
    done = mqadmin("msg", "produce", topic, "--from", str(tmp_path / "a.csv"), "-o", "json")
    assert (done.status, json.loads(done.out)["sent"]) == (0, 2)
    rows = mqadmin("msg", "consume", topic, "--start", "earliest", "--limit", "2", "-o", "ndjson")
    found = [json.loads(line) for line in rows.out.splitlines()]
    assert {(one["body"], one["properties"]["region"]) for one in found} == {
        ("x", "eu"),
        ("y", "us"),
    }


def test_a_file_that_cannot_be_read_is_an_error(mqadmin: Run, namesrv: str) -> None:
    assert mqadmin("msg", "produce", "t", "--from", "/no/such/file").status != 0


def test_an_interrupt_prints_the_line_to_resume_at(
    child: Child, new_topic: Topics, namesrv: str
) -> None:
    topic = new_topic("BulkInterrupt")
    process = child("msg", "produce", topic, "-f", "lines", "--results", "-o", "ndjson")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"one\ntwo\nthree\n")
    process.stdin.flush()
    assert {json.loads(process.stdout.readline())["line"] for _ in range(3)} == {1, 2, 3}
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"3 sent; resume with --from-line 4" in err
    assert stored(namesrv, topic) == 3


def test_a_slow_input_is_sent_as_it_arrives(child: Child, new_topic: Topics) -> None:
    topic = new_topic("BulkSlow")
    process = child(
        "msg", "produce", topic, "-f", "lines", "--batch", "64", "--results", "-o", "ndjson"
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(1, 4):  # each line is sent while the input stays open
        process.stdin.write(b"line\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["line"] == number


def test_a_closed_pipe_is_not_an_error(child: Child, new_topic: Topics, namesrv: str) -> None:
    topic = new_topic("BulkPipe")
    process = child("msg", "produce", topic, "-f", "lines", "--results", "-o", "ndjson")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    process.stdin.write(b"two\n" * 10)
    process.stdin.close()
    assert process.wait(60) == 0
    assert stored(namesrv, topic) >= 2
