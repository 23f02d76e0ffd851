"""dlq purge on a running broker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
DLQ = "%DLQ%pg"


def items(done: Any) -> list[dict[str, Any]]:
    assert done.out, done.err
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


@pytest.fixture
def dead(online: Run) -> Run:
    """Three dead letters of the group pg; the group pg-reader has consumed the first."""
    online("topic", "delete", DLQ, "--yes")
    online("topic", "create", DLQ, "--queues", "1", "--yes")
    for group in ("pg-reader", "pg-other"):
        online("group", "delete", group, "--remove-offset", "--yes")
        online("group", "create", group, "--yes", "--if-not-exists")
    for key in "123":
        assert online("msg", "send", DLQ, "--body", f"m{key}", "--key", key).status == 0
    assert committed(online, "pg-reader", "1").status == 0
    return online


def committed(run: Run, group: str, offset: str) -> Any:
    return run("offset", "reset", group, "--topic", DLQ, "--to", offset, "--yes")


def consumer_offset(run: Run, group: str) -> int | None:
    (row,) = items(run("offset", "show", group, "-o", "json"))
    return row["consumerOffset"]  # type: ignore[no-any-return]


def test_the_skipped_dead_letters_are_exported_before_the_offset_moves(
    dead: Run, tmp_path: Path
) -> None:
    words = ("dlq", "purge", "pg", "--export", "dead.ndjson", "-o", "json")
    dry = dead(*words, "--dry-run")
    assert (dry.status, [row["skipped"] for row in items(dry)]) == (0, [2])
    assert not (tmp_path / "dead.ndjson").exists()
    assert dead(*words).status == 2  # a change without --yes where no terminal is
    assert consumer_offset(dead, "pg-reader") == 1

    done = dead(*words, "--yes", "--undo-file", "undo.json")
    assert done.status == 0, done.err
    assert "2 dead letters of group pg are in dead.ndjson" in done.err
    (row,) = items(done)
    assert (row["group"], row["currentOffset"], row["readBack"]) == ("pg-reader", 1, 3)
    keys = [
        json.loads(line)["keys"] for line in (tmp_path / "dead.ndjson").read_text().splitlines()
    ]
    assert keys == [["2"], ["3"]]
    replay = dead("dlq", "replay", "--from", "dead.ndjson", "--to", DLQ, "--dry-run", "-o", "json")
    assert len(items(replay)) == 2

    assert "nothing to do" in dead("dlq", "purge", "pg", "--no-export", "--yes").err
    assert dead("offset", "undo", "undo.json", "--yes").status == 0
    assert consumer_offset(dead, "pg-reader") == 1


def test_nothing_moves_when_the_export_cannot_be_written(dead: Run, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("kept")
    done = dead("dlq", "purge", "pg", "--export", "taken", "--yes")
    assert (done.status, (tmp_path / "taken").read_text()) == (2, "kept")
    assert consumer_offset(dead, "pg-reader") == 1


def test_an_export_is_asked_for_or_refused_in_words(dead: Run) -> None:
    assert dead("dlq", "purge", "pg", "--yes").status == 2
    assert dead("dlq", "purge", "pg", "--export", "f", "--no-export", "--yes").status == 2
    assert dead("dlq", "purge", "pg", "--no-export", "--yes").status == 0
    assert consumer_offset(dead, "pg-reader") == 3


def test_one_of_several_readers_must_be_named(dead: Run) -> None:
    assert committed(dead, "pg-other", "earliest").status == 0
    done = dead("dlq", "purge", "pg", "--no-export", "--yes")
    assert done.status == 2
    assert "2 groups read the DLQ of pg: pg-other, pg-reader" in done.err
    words = ("--reader", "pg-other", "--no-export", "--yes")
    assert dead("dlq", "purge", "pg", *words).status == 0
    assert (consumer_offset(dead, "pg-other"), consumer_offset(dead, "pg-reader")) == (3, 1)


def test_a_dlq_that_no_group_reads_is_status_1(dead: Run) -> None:
    dead("group", "delete", "pg-reader", "--remove-offset", "--yes")
    done = dead("dlq", "purge", "pg", "--no-export", "--yes")
    assert done.status == 1
    assert "no group reads %DLQ%pg" in done.err
    assert "mqadmin topic delete %DLQ%pg" in done.err
    assert dead("dlq", "purge", "nosuch", "--no-export", "--yes").status == 1
    assert dead("dlq", "purge", "pg", "--reader", "nosuch", "--no-export", "--yes").status == 1


def test_a_hung_broker_is_status_3(dead: Run, hung: list[str]) -> None:
    done = dead("dlq", "purge", "pg", "--no-export", "--yes", *hung)
    assert done.status == 3, done.err


def test_a_closed_pipe_is_not_an_error(dead: Run, closed_pipe: Run) -> None:
    assert closed_pipe("dlq", "purge", "pg", "--no-export", "--dry-run", "-o", "json")[0] == 0
