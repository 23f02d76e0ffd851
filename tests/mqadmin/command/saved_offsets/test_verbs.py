"""offset export, import, clone, undo and at on a running broker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def items(done: Any) -> list[dict[str, Any]]:
    assert done.out, done.err
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


def offsets(online: Run, group: str) -> dict[tuple[str, int], int | None]:
    rows = items(online("offset", "show", group, "-o", "json"))
    return {(row["topic"], row["queueId"]): row["consumerOffset"] for row in rows}


@pytest.fixture
def filled(online: Run) -> Run:
    """Topics XA (two queues, five messages in queue 0) and XB (one queue), groups x1 and x2."""
    online("topic", "create", "XA", "--queues", "2", "--yes", "--if-not-exists")
    online("topic", "create", "XB", "--queues", "1", "--yes", "--if-not-exists")
    for group in ("x1", "x2"):
        online("group", "delete", group, "--remove-offset", "--yes")
        online("group", "create", group, "--yes", "--if-not-exists")
    for _ in range(5):
        assert online("msg", "send", "XA", "--queue", "0", "--body", "x").status == 0
    online("msg", "send", "XB", "--body", "x")
    reset = ("offset", "reset", "x1", "--yes", "--to")
    assert online(*reset, "2", "--topic", "XA", "--queue", "0").status == 0
    assert online(*reset, "earliest", "--topic", "XB").status == 0
    return online


def test_a_csv_file_goes_to_another_group_and_back(filled: Run, tmp_path: Path) -> None:
    done = filled("offset", "export", "x1", "--out", "x1.csv")
    assert (done.status, done.out) == (0, "")
    assert (tmp_path / "x1.csv").read_text() == "XA,0,2,broker-a\nXA,1,,broker-a\nXB,0,0,broker-a\n"
    assert filled("offset", "export", "x1", "--out", "x1.csv").status == 2  # never overwritten

    words = ("offset", "import", "x2", "x1.csv")
    dry = filled(*words, "--dry-run", "-o", "json")
    assert (dry.status, len(items(dry))) == (0, 3)
    assert filled("offset", "show", "x2").status == 1
    assert filled(*words).status == 2  # a change without --yes where no terminal is
    done = filled(*words, "--yes", "--undo-file", "undo.json", "-o", "json")
    assert done.status == 0
    assert [row["readBack"] for row in items(done)] == [2, None, 0]
    assert filled(*words, "--yes").err.count("nothing to do") == 1

    assert filled("offset", "undo", "undo.json", "--yes").status == 0
    assert filled("offset", "show", "x2").status == 1  # absent, as before


@pytest.mark.parametrize("form", ["json", "csv"])
def test_the_printed_export_is_an_offsets_file(filled: Run, tmp_path: Path, form: str) -> None:
    (tmp_path / "f").write_text(filled("offset", "export", "x1", "-o", form).out)
    assert filled("offset", "import", "x2", "f", "--topic", "XA", "--yes").status == 0
    assert offsets(filled, "x2") == {("XA", 0): 2, ("XA", 1): None}


def test_a_clone_of_all_topics(filled: Run) -> None:
    done = filled("offset", "clone", "x1", "x2", "--yes", "--undo-file", "undo.json")
    assert done.status == 0, done.err
    assert "undo: mqadmin offset undo undo.json" in done.err
    assert offsets(filled, "x2") == offsets(filled, "x1")
    assert filled("offset", "clone", "nosuch", "x2", "--yes").status == 1
    assert filled("offset", "clone", "x1", "nosuch", "--yes").status == 1
    assert filled("offset", "clone", "x1", "x1", "--yes").status == 1


def test_a_moved_offset_is_never_overwritten_by_an_undo_without_a_plan(filled: Run) -> None:
    filled("offset", "clone", "x1", "x2", "--yes", "--undo-file", "undo.json")
    dry = filled("offset", "undo", "undo.json", "--dry-run", "-o", "json")
    assert {(row["currentOffset"], row["newOffset"]) for row in items(dry)} == {
        (2, None),
        (0, None),
    }


def test_the_offset_at_a_time(filled: Run) -> None:
    rows = items(filled("offset", "at", "XA", "--since", "-1h", "-o", "json"))
    assert [(row["queueId"], row["offset"]) for row in rows] == [(0, 0), (1, 0)]
    done = filled("offset", "at", "XA", "--since", "now", "-o", "json")
    assert [row["messages"] for row in items(done)] == [0, 0]
    assert done.err.startswith("at 20")
    assert filled("offset", "at", "nosuch", "--since", "now").status == 1
    assert filled("offset", "at", "XA", "--since", "soon").status == 2


def test_a_part_of_a_file_is_status_5(filled: Run, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("XA,0,3\nXA,9,3\n")
    done = filled("offset", "import", "x2", "f.csv", "--yes", "--undo-file", "u", "-o", "json")
    assert done.status == 5
    assert "XA broker-a/9: the topic has no such queue" in done.err
    assert [row["status"] for row in items(done)] == ["done"]


def test_a_file_that_cannot_be_used_is_status_2(filled: Run, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("XA;0;3\n")
    for words in (("import", "x2", "f.csv"), ("import", "x2", "none"), ("undo", "f.csv")):
        done = filled("offset", *words, "--yes")
        assert done.status == 2, words
        assert done.err.startswith("error: offsets file ")


def test_a_hung_broker_is_status_3(filled: Run, tmp_path: Path, hung: list[str]) -> None:
    (tmp_path / "f.csv").write_text("XA,0,3\n")
    for words in (
        ("export", "x1"),
        ("import", "x1", "f.csv", "--yes"),
        ("clone", "x1", "x2", "--yes"),
        ("at", "XA", "--since", "now"),
    ):
        done = filled("offset", *words, *hung)
        assert done.status in (1, 3), (words, done.err)
        assert "within" in done.err, (words, done.err)


def test_a_closed_pipe_is_not_an_error(filled: Run, closed_pipe: Run) -> None:
    assert closed_pipe("offset", "export", "x1", "-o", "json")[0] == 0
