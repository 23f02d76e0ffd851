"""topic static show, create, update and remap on two running brokers."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.live_broker import until

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The masters broker-a and broker-b; yields the address of their name server."""
    folder = tmp_path_factory.mktemp("static")
    first = BrokerProcess(folder / "a", {"brokerName": "broker-a"})
    namesrv = first.namesrv_address
    second = BrokerProcess(
        folder / "b", {"brokerName": "broker-b"}, standalone=False, options=["-n", namesrv]
    )
    with first, second:
        yield namesrv


@pytest.fixture
def static(mqadmin: Run, brokers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """``static("show", "T", …)`` runs ``mqadmin topic static`` on the two brokers."""
    monkeypatch.setenv("NAMESRV_ADDR", brokers)
    monkeypatch.chdir(tmp_path)
    until(lambda: "broker-b" in mqadmin("cluster", "list").out)
    return lambda *words: mqadmin("topic", "static", *words)


def items(done: Any) -> list[dict[str, Any]]:
    assert done.out, done.err
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


def places(static: Run, topic: str) -> list[tuple[int, str, int | None]]:
    rows = items(static("show", topic, "-o", "json"))
    return [(row["queueId"], row["brokerName"], row["logicOffset"]) for row in rows]


def test_a_static_topic_is_created_extended_moved_and_shown(static: Run) -> None:
    create = ("create", "Fixed", "--queues", "2", "--broker", "broker-a")
    assert static(*create).status == 2  # a change without --yes where no terminal is
    dry = static(*create, "--dry-run", "-o", "json")
    assert [row["status"] for row in items(dry)] == ["planned"]
    assert static("show", "Fixed").status == 1
    assert static(*create, "--yes").status == 0
    assert static(*create, "--yes").status == 1  # it exists
    assert static(*create, "--yes", "--if-not-exists").status == 0
    assert places(static, "Fixed") == [(0, "broker-a", 0), (1, "broker-a", 0)]
    assert static("update", "Fixed", "--queues", "3", "-b", "broker-b", "-y").status == 0
    assert static("update", "Fixed", "--queues", "2", "-y").status == 1
    assert static("remap", "Fixed", "--broker", "broker-b", "--dry-run").status == 0
    done = static("remap", "Fixed", "--broker", "broker-b", "--yes", "-o", "json")
    assert (done.status, {row["status"] for row in items(done)}) == (0, {"done"})
    assert places(static, "Fixed") == [
        (0, "broker-a", 0), (0, "broker-b", 10_000),
        (1, "broker-a", 0), (1, "broker-b", 10_000),
        (2, "broker-b", 0),
    ]  # fmt: skip
    table = static("show", "Fixed").out.splitlines()
    assert table[1].split()[:6] == ["Fixed", "0", "0", "broker-a", "0", "0"]


def test_a_plan_file_is_applied_once_and_refused_after_a_change(
    static: Run, mqadmin: Run, tmp_path: Path
) -> None:
    assert static("create", "Planned", "--queues", "2", "--plan", "create.plan").status == 0
    assert static("show", "Planned").status == 1
    assert mqadmin("apply", "create.plan", "--yes").status == 0
    assert static("remap", "Planned", "-b", "broker-a", "--plan", "move.plan").status == 0
    assert mqadmin("apply", "move.plan", "--yes").status == 0
    assert (1, "broker-a", 10_000) in places(static, "Planned")
    assert mqadmin("apply", "move.plan", "--yes").status == 0
    assert static("remap", "Planned", "-b", "broker-b", "--plan", "stale.plan").status == 0
    assert static("update", "Planned", "--queues", "4", "-y").status == 0
    stale = mqadmin("apply", "stale.plan", "--yes", "-o", "json")
    assert stale.status == 8
    assert {row["status"] for row in items(stale)} <= {"moved", "skipped"}


def test_a_read_only_context_refuses_every_change(
    static: Run, mqadmin: Run, brokers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("context", "set", "watch", "--namesrv", brokers, "--read-only")
    assert mqadmin(*words).status == 0
    for change in (
        ("create", "No", "--queues", "2"),
        ("update", "Fixed", "--queues", "9"),
        ("remap", "Fixed", "--broker", "broker-a"),
    ):
        assert static(*change, "--yes", "--context", "watch").status == 6, change


def test_an_ordinary_topic_is_status_1(static: Run, mqadmin: Run) -> None:
    assert mqadmin("topic", "create", "Plain", "--broker", "broker-a", "--yes").status == 0
    for words in (("show", "Plain"), ("remap", "Plain", "-b", "broker-b", "--yes")):
        done = static(*words)
        assert done.status == 1
        assert "is not a static topic" in done.err
