"""topic create, update and delete with --file, and topic list PATTERN, on a running broker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def items(done: Any) -> list[dict[str, Any]]:
    assert done.out, done.err
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


@pytest.fixture
def listed(online: Run, tmp_path: Path) -> Run:
    """A file topics.csv with two topics that do not exist."""
    (tmp_path / "names").write_text("bulk-a\nbulk-b\n")
    online("topic", "delete", "--file", "names", "--yes")
    (tmp_path / "topics.csv").write_text("topic,queues,perm\nbulk-a,3,\nbulk-b,,r\n")
    return online


def test_a_list_is_created_listed_updated_and_deleted_as_one_plan(
    listed: Run, tmp_path: Path
) -> None:
    create = ("topic", "create", "--file", "topics.csv", "--queues", "2")
    dry = listed(*create, "--dry-run", "-o", "json")
    assert [row["target"] for row in items(dry)] == ["bulk-a broker-a", "bulk-b broker-a"]
    assert listed("topic", "list", "bulk-*").status == 1
    assert listed(*create).status == 2  # a change without --yes where no terminal is
    assert listed(*create, "--yes").status == 0
    assert listed(*create, "--yes").status == 1  # they exist
    assert listed(*create, "--yes", "--if-not-exists").status == 0
    rows = items(listed("topic", "list", "bulk-?", "-o", "json"))
    assert [(r["topic"], r["readQueueNums"], r["perm"]) for r in rows] == [
        ("bulk-a", 3, 6),
        ("bulk-b", 2, 4),
    ]
    (tmp_path / "listed.json").write_text(listed("topic", "list", "bulk-*", "-o", "json").out)
    assert listed("topic", "update", "--file", "listed.json", "--perm", "rw", "--yes").status == 0
    done = listed("topic", "update", "--file", "names", "--perm", "w", "--yes", "-o", "json")
    assert (done.status, {row["after"]["perm"] for row in items(done)}) == (0, {2})

    assert listed("topic", "delete", "--file", "names", "--plan", "delete.plan").status == 0
    assert listed("topic", "update", "bulk-a", "--queues", "9", "--yes").status == 0
    moved = listed("apply", "delete.plan", "--yes", "-o", "json")
    assert moved.status == 8
    assert {row["status"] for row in items(moved)} == {"moved", "skipped"}
    assert len(items(listed("topic", "list", "bulk-*", "-o", "json"))) == 2
    assert listed("topic", "delete", "--file", "names", "--plan", "second.plan").status == 0
    assert listed("apply", "second.plan", "--yes").status == 0
    assert listed("topic", "list", "bulk-*").status == 1


def test_a_cluster_of_the_list_is_not_replaced_by_the_option(listed: Run, tmp_path: Path) -> None:
    (tmp_path / "named.csv").write_text("topic,clusterName\nbulk-a,DefaultCluster\nbulk-b,\n")
    create = ("topic", "create", "--file", "named.csv", "--dry-run")
    done = listed(*create, "--cluster", "Other")
    assert (done.status, done.out) == (2, "")
    assert "error: topic bulk-a: the list names cluster DefaultCluster, --cluster is Other" in (
        done.err
    )
    assert "hint: " in done.err
    assert listed(*create, "--cluster", "DefaultCluster").status == 0


def test_a_topic_is_deleted_in_the_cluster_of_the_list_only(listed: Run, tmp_path: Path) -> None:
    assert listed("topic", "create", "--file", "topics.csv", "--queues", "2", "--yes").status == 0
    (tmp_path / "other.csv").write_text("topic,clusterName\nbulk-a,Other\n")
    done = listed("topic", "delete", "--file", "other.csv", "--yes")
    assert done.status == 1
    assert "no cluster is named Other" in done.err
    assert len(items(listed("topic", "list", "bulk-*", "-o", "json"))) == 2
    (tmp_path / "listed.json").write_text(listed("topic", "list", "bulk-*", "-o", "json").out)
    delete = ("topic", "delete", "--file", "listed.json", "--yes")
    assert listed(*delete, "--cluster", "Other").status == 2
    assert listed(*delete).status == 0
    assert listed("topic", "list", "bulk-*").status == 1


def test_a_topic_or_a_list_one_of_them(listed: Run) -> None:
    for verb in ("create", "update", "delete"):
        assert listed("topic", verb, "--yes").status == 2
        assert listed("topic", verb, "T", "--file", "names", "--yes").status == 2
        assert listed("topic", verb, "--file", "none", "--yes").status == 2


def test_a_hung_broker_is_status_3(listed: Run, hung: list[str]) -> None:
    done = listed("topic", "create", "--file", "topics.csv", "--yes", *hung)
    assert done.status == 3, done.err


def test_a_closed_pipe_is_not_an_error(listed: Run, closed_pipe: Run) -> None:
    words = ("topic", "create", "--file", "topics.csv", "--dry-run", "-o", "json")
    assert closed_pipe(*words)[0] == 0


def test_a_list_that_is_not_text_is_refused_with_file_and_line(listed: Run, tmp_path: Path) -> None:
    (tmp_path / "names").write_bytes(b"bulk-a\nbulk-\xff\n")
    done = listed("topic", "delete", "--file", "names", "--yes")
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == [
        "error: names: line 2: not UTF-8: byte 0xff",
        "hint: write the file as UTF-8 text",
    ]
