"""metadata export, diff and apply on running brokers."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.server.standalone import BlockingEmbeddedBroker
from tests.support.live_broker import SMALL

Run = Callable[..., Any]


def items(done: Any) -> list[dict[str, Any]]:
    assert done.out, done.err
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


@pytest.fixture
def source(online: Run) -> Run:
    """The topic MA (FIFO, read only), the group ma and an order configuration."""
    online("topic", "delete", "MA", "--yes")
    words = ("--queues", "3", "--attribute", "+message.type=FIFO")
    assert online("topic", "create", "MA", *words, "--yes").status == 0
    online("group", "create", "ma", "--retry-max", "3", "--yes", "--if-not-exists")
    online("namesrv", "kv", "put", "ORDER_TOPIC_CONFIG", "MA", "broker-a:3", "--yes")
    return online


@pytest.fixture(scope="module")
def empty_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEmbeddedBroker]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("other") / "store"), SMALL) as running:
        yield running


def test_a_file_goes_from_one_cluster_to_another(
    source: Run, tmp_path: Path, empty_cluster: BlockingEmbeddedBroker
) -> None:
    done = source("metadata", "export", "--out", "f.json")
    assert (done.status, done.out) == (0, "")
    assert "objects of cluster DefaultCluster are in f.json" in done.err
    assert source("metadata", "export", "--out", "f.json").status == 2  # never overwritten
    assert source("metadata", "diff", "f.json", "--settings").status == 0

    there = ("-n", empty_cluster.namesrv_address)
    done = source("metadata", "diff", "f.json", "-o", "json", *there)
    assert done.status == 1
    found = {(row["kind"], row["name"]): row["status"] for row in items(done)}
    assert found["topic", "MA"] == found["group", "ma"] == "missing"
    assert found["kv", "ORDER_TOPIC_CONFIG/MA"] == "missing"

    words = ("metadata", "apply", "f.json", *there)
    assert source(*words).status == 2  # a change without --yes where no terminal is
    dry = source(*words, "--dry-run")
    assert (dry.status, dry.out.splitlines()[-1]) == (0, "dry run: nothing was changed")
    assert source("metadata", "diff", "f.json", *there).status == 1
    done = source(*words, "--yes", "-o", "json")
    assert done.status == 0, done.err
    assert {row["status"] for row in items(done)} == {"done"}
    assert source("metadata", "diff", "f.json", "--ignore-extra", *there).status == 0
    assert "nothing to do" in source(*words, "--yes").err
    (row,) = items(source("topic", "show", "MA", "-o", "json", *there))
    assert (row["readQueueNums"], row["attributes"]) == (3, {"message.type": "FIFO"})


def test_an_ignored_field_does_not_differ(source: Run) -> None:
    source("metadata", "export", "--out", "f.json", "--only", "topic")
    source("topic", "perm", "MA", "r", "--yes")
    (row,) = items(source("metadata", "diff", "f.json", "--only", "topic", "-o", "json"))
    assert (row["file"], row["cluster"]) == ({"perm": 6}, {"perm": 4})
    ignoring = ("--only", "topic", "--ignore", "perm")
    assert source("metadata", "diff", "f.json", *ignoring).status == 0
    assert "nothing to do" in source("metadata", "apply", "f.json", *ignoring, "--yes").err


def test_a_plan_is_applied_exactly_or_not_at_all(source: Run) -> None:
    source("metadata", "export", "--out", "f.json")
    source("topic", "perm", "MA", "r", "--yes")
    done = source("metadata", "apply", "f.json", "--plan", "m.plan")
    assert done.status == 0
    assert source("apply", "m.plan", "--yes").status == 0
    assert source("metadata", "diff", "f.json", "--only", "topic", "--ignore-extra").status == 0
    source("topic", "perm", "MA", "w", "--yes")
    assert source("apply", "m.plan", "--yes").status == 8


def test_options_that_exclude_each_other_and_bad_files_are_status_2(
    source: Run, tmp_path: Path
) -> None:
    source("metadata", "export", "--out", "f.json")
    assert source("metadata", "diff", "f.json", "--settings", "--only", "topic").status == 2
    assert source("metadata", "diff", "f.json", "--only", "broker").status == 2
    assert source("metadata", "diff", "none.json").status == 2
    (tmp_path / "bad.json").write_text("{}")
    assert source("metadata", "apply", "bad.json", "--yes").status == 2
    assert source("metadata", "export", "--cluster", "nosuch").status == 1


def test_an_export_that_would_be_incomplete_is_not_written(
    source: Run, tmp_path: Path, hung: list[str]
) -> None:
    source("metadata", "export", "--out", "f.json")
    done = source("metadata", "export", "--out", "g.json", *hung)
    assert done.status in (3, 5), done.err
    assert "g.json was not written" in done.err
    assert not (tmp_path / "g.json").exists()
    assert source("metadata", "diff", "f.json", *hung).status in (3, 5)
    assert source("metadata", "apply", "f.json", "--yes", *hung).status in (3, 5)


def test_a_user_of_the_file_needs_a_password_and_is_named(source: Run, tmp_path: Path) -> None:
    """The broker of this test has no ACL 2.0, so a password is the only thing that is missing."""
    source("metadata", "export", "--out", "f.json")
    content = json.loads((tmp_path / "f.json").read_text())
    fields = {"userType": "Normal", "userStatus": "enable"}
    content["items"] = [{"kind": "user", "name": "alice", "brokerName": None, "fields": fields}]
    (tmp_path / "users.json").write_text(json.dumps(content))
    done = source("metadata", "apply", "users.json", "--yes")
    assert done.status == 1
    assert "user alice does not exist, and no password is given for it" in done.err
    assert "--secrets-file, or set MQADMIN_USER_PASSWORD_ALICE" in done.err
    (tmp_path / "secrets").write_text("alice=topsecret\n")
    dry = source("metadata", "apply", "users.json", "--secrets-file", "secrets", "--dry-run")
    assert (dry.status, "topsecret" in dry.out + dry.err) == (0, False)
    refused = ("--secrets-file", "secrets", "--plan", "x.plan")
    assert source("metadata", "apply", "users.json", *refused).status == 2
    planned = source("metadata", "apply", "users.json", "--plan", "x.plan")
    assert "a plan file contains no passwords" in planned.err


def test_a_closed_pipe_is_not_an_error(source: Run, closed_pipe: Run) -> None:
    assert closed_pipe("metadata", "export", "-o", "json")[0] == 0
