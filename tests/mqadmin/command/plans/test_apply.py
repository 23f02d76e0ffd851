"""--plan writes, apply executes exactly that: topics, groups and offsets on a running broker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.server.standalone import BlockingEmbeddedBroker

Run = Callable[..., Any]


def items(done: Any) -> list[dict[str, Any]]:
    assert done.out, done.err
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


@pytest.fixture
def clean(online: Run) -> Run:
    """No topic PA and no group pa."""
    online("topic", "delete", "PA", "--yes")
    online("group", "delete", "pa", "--remove-offset", "--yes")
    return online


def test_a_plan_is_written_without_a_question_and_applied(clean: Run, tmp_path: Path) -> None:
    done = clean("topic", "create", "PA", "--queues", "3", "--plan", "t.plan", "-o", "json")
    assert (done.status, items(done)[0]["status"]) == (0, "planned")
    assert done.err.endswith("nothing was changed; apply the plan with: mqadmin apply t.plan\n")
    assert clean("topic", "show", "PA").status == 1
    dry = clean("apply", "t.plan", "--dry-run")
    assert (dry.status, dry.out.splitlines()[-1]) == (0, "dry run: nothing was changed")
    assert "plan of 'mqadmin topic create' from 20" in dry.err
    assert clean("topic", "show", "PA").status == 1
    assert clean("apply", "t.plan").status == 2  # a change without --yes where no terminal is
    done = clean("apply", "t.plan", "--yes", "-o", "json")
    assert (done.status, items(done)[0]["readBack"]["readQueueNums"]) == (0, 3)
    assert clean("apply", "t.plan", "--yes").status == 0  # everything is as planned
    assert clean("topic", "create", "PB", "--plan", "t.plan").status == 2  # never overwritten


def test_a_moved_topic_is_status_8_and_stays(clean: Run) -> None:
    clean("topic", "create", "PA", "--queues", "3", "--plan", "t.plan")
    clean("topic", "create", "PA", "--queues", "5", "--yes")
    done = clean("apply", "t.plan", "--yes", "-o", "json")
    assert (done.status, items(done)[0]["status"]) == (8, "moved")
    assert items(clean("topic", "show", "PA", "-o", "json"))[0]["readQueueNums"] == 5


def test_a_plan_of_offsets_is_applied_once(clean: Run) -> None:
    clean("topic", "create", "PA", "--queues", "1", "--yes")
    clean("group", "create", "pa", "--plan", "g.plan")
    assert clean("apply", "g.plan", "--yes").status == 0
    for _ in range(3):
        clean("msg", "send", "PA", "--body", "x")
    reset = ("offset", "reset", "pa", "--topic", "PA", "--to", "2", "--plan", "o.plan")
    assert clean(*reset).status == 0
    done = clean("apply", "o.plan", "--yes", "--undo-file", "undo.json", "-o", "json")
    assert (done.status, items(done)[0]["readBack"]) == (0, 2)
    assert "undo: mqadmin offset undo undo.json" in done.err
    done = clean("apply", "o.plan", "--yes", "-o", "json")
    assert (done.status, items(done)[0]["status"]) == (8, "moved")  # 2 is not the plan's "none"


def test_a_plan_for_another_cluster_is_status_8(clean: Run, tmp_path: Path) -> None:
    """The accident: the same broker address, another cluster."""
    clean("topic", "create", "PA", "--plan", "t.plan")
    other = {"brokerClusterName": "Other", "mappedFileSizeCommitLog": "1048576"}
    with BlockingEmbeddedBroker(str(tmp_path / "store"), other) as broker:
        done = clean("apply", "t.plan", "--yes", "-n", broker.namesrv_address)
        assert done.status == 8
        assert "of the plan is not registered at" in done.err
        path = tmp_path / "t.plan"
        content = json.loads(path.read_text())
        content["brokers"] = {broker.address: "broker-a"}
        content["change"]["changes"][0]["address"] = broker.address
        path.write_text(json.dumps(content))
        done = clean("apply", "t.plan", "--yes", "-n", broker.namesrv_address)
        assert done.status == 8
        assert "cluster DefaultCluster of the plan is Other" in done.err
    assert clean("topic", "show", "PA").status == 1


def test_a_command_without_such_a_plan_refuses_the_option(clean: Run) -> None:
    for words in (("topic", "list"), ("msg", "send", "PA", "--body", "x"), ("apply", "t.plan")):
        assert clean(*words, "--plan", "p").status == 2, words
    assert clean("topic", "create", "PA", "--plan", "p", "--dry-run").status == 2


def test_other_files_are_status_2(clean: Run, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("{}")
    for name in ("p", "none"):
        done = clean("apply", name, "--yes", "-o", "json")
        assert (done.status, json.loads(done.err)["error"]["kind"]) == (2, "usage")
    assert clean("apply").status == 2
    assert "Apply exactly the plan" in clean("apply", "--help").out


def test_a_hung_broker_is_status_3(clean: Run, hung: list[str]) -> None:
    clean("topic", "create", "PA", "--plan", "t.plan")
    done = clean("apply", "t.plan", "--yes", *hung)
    assert done.status == 3, done.err


def test_a_closed_pipe_is_not_an_error(clean: Run, closed_pipe: Run) -> None:
    clean("topic", "create", "PA", "--plan", "t.plan")
    assert closed_pipe("apply", "t.plan", "--dry-run", "-o", "json")[0] == 0
    assert closed_pipe("topic", "create", "PA", "--plan", "u.plan", "-o", "json")[0] == 0
