"""``lag-history`` agrees with lags computed from the messages of the log."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipeline_store import NOW, MakeLog


def snapshot(folder: Path, at_ms: int, offsets: dict[str, dict[int, int]]) -> Path:
    """Write a copy of consumerOffset.json with its time in the name."""
    name = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("offsets-%Y%m%dT%H%M%S.json")
    table = {key: {str(queue): o for queue, o in own.items()} for key, own in offsets.items()}
    path = folder / name
    path.write_text(json.dumps({"offsetTable": table}))
    return path


@pytest.fixture
def history(make_log: MakeLog, tmp_path: Path) -> tuple[Any, str]:
    """Two queues with a message every two seconds, and three snapshots of a slow group."""
    log = make_log(file_size=1 << 16)
    for _ in range(60):
        log.put("orders", 0)
        log.put("orders", 1)
    # The queues alternate: message n of a queue is stored at NOW + (2 n + queue) s.
    for at, progress in ((10, 5), (60, 10), (119, 60)):
        snapshot(
            tmp_path,
            NOW + at * 1000,
            {
                "orders@billing": {0: progress, 1: 0},
                "orders@ahead": {0: 1000},
                "gone@billing": {0: 7},
            },
        )
    return log, f"{tmp_path}/offsets-*.json"


def test_lag_in_messages_and_seconds_at_each_snapshot(run_job: Any, history: Any) -> None:
    log, paths = history
    rows = run_job("lag-history", log.root, offsets=paths).rows
    found = {
        ((row["snapshotTimestamp"] - NOW) // 1000, row["group"], row["topic"], row["queueId"]): row
        for row in rows
    }
    assert len(found) == len(rows) == 12
    for at, progress in ((10, 5), (60, 10), (119, 60)):
        for queue, own in ((0, progress), (1, 0)):
            row = found[at, "billing", "orders", queue]
            stored = [n for n in range(60) if 2 * n + queue <= at]
            assert row["maxOffset"] == len(stored)
            assert row["lag"] == max(len(stored) - own, 0)
            expected = at - (2 * own + queue) if len(stored) > own else 0
            assert row["lagSeconds"] == pytest.approx(expected)
            assert row["state"] == "ok"
        row = found[at, "ahead", "orders", 0]
        assert (row["state"], row["lag"]) == ("ahead", 0)
        row = found[at, "billing", "gone", 0]
        assert (row["state"], row["lag"], row["maxOffset"]) == ("unknown", None, None)


def test_groups_aggregate_their_queues(run_job: Any, history: Any) -> None:
    log, paths = history
    lag = run_job("lag-history", log.root, offsets=paths, group="billing", topic="orders").rows
    groups = run_job(
        "lag-history", log.root, offsets=paths, group="billing", topic="orders", table="groups"
    ).rows
    assert len(groups) == 3
    for row in groups:
        own = [one for one in lag if one["snapshotTimestamp"] == row["snapshotTimestamp"]]
        assert (row["queues"], row["lag"]) == (2, sum(one["lag"] for one in own))
        assert row["lagSeconds"] == max(one["lagSeconds"] for one in own)


def test_messages_removed_before_consumption_are_below_min(
    run_job: Any, make_log: MakeLog, tmp_path: Path
) -> None:
    log = make_log(file_size=4096)
    places = [log.put("orders", 0) for _ in range(40)]
    log.file(0).unlink()
    kept = [number for number, place in enumerate(places) if place >= 4096]
    snapshot(tmp_path, NOW + 100_000, {"orders@slow": {0: 2}})
    (row,) = run_job("lag-history", log.root, offsets=f"{tmp_path}/offsets-*").rows
    assert (row["state"], row["maxOffset"], row["lag"]) == ("belowMin", 40, 38)
    assert row["lagSeconds"] == pytest.approx(100 - kept[0])


def test_since_and_until_select_snapshots_not_messages(run_job: Any, history: Any) -> None:
    log, paths = history
    limits = {"since_ms": NOW + 60_000, "until_ms": NOW + 119_000}
    every = run_job("lag-history", log.root, offsets=paths).rows
    rows = run_job("lag-history", log.root, offsets=paths, **limits).rows
    assert rows == [row for row in every if row["snapshotTimestamp"] == NOW + 60_000]


@pytest.mark.parametrize("name", ["retry-dlq-533", "normal-stop-498"])
def test_the_offsets_of_a_store_yield_the_lag_reported_by_java(
    run_job: Any, store_roots: dict[str, Path], golden_expect: Any, name: str
) -> None:
    rows = run_job("lag-history", store_roots[name]).rows
    found = {(row["group"], row["topic"], row["queueId"]): row for row in rows}
    checked = 0
    for group in golden_expect(name)["groups"]:
        for queue in group.get("queues", ()):
            row = found.get((group["group"], queue["topic"], queue["queueId"]))
            if row is None or "consumerOffset" not in queue:
                continue
            assert row["consumerOffset"] == queue["consumerOffset"]
            if row["state"] == "unknown":  # the log has no message of the queue
                assert queue["brokerOffset"] == 0
            else:
                assert (row["maxOffset"], row["lag"]) == (queue["brokerOffset"], queue["lag"])
            checked += 1
    assert checked > len(found) // 2  # the recorder listed most of the queues


def test_light_queues_end_at_the_messages_dispatched_to_them(
    run_job: Any, make_log: MakeLog, tmp_path: Path
) -> None:
    """Their messages are in the log under another topic."""
    log = make_log(file_size=1 << 16)
    for number in range(6):
        both = {"INNER_MULTI_DISPATCH": "%LMQ%b,%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": f"7,{number}"}
        log.put("orders", number % 2, properties=both)
    log.put("%RETRY%g", properties={**both, "INNER_MULTI_QUEUE_OFFSET": "9,9"})
    offsets = {"%LMQ%a@%LMQ%g": {0: 2}, "orders@g": {0: 1}}
    snapshot(tmp_path, NOW + 100_000, offsets)
    for limits in ({}, {"topic": "%LMQ%a"}):
        rows = run_job("lag-history", log.root, offsets=f"{tmp_path}/offsets-*", **limits).rows
        found = {row["topic"]: row for row in rows}
        assert found.keys() == ({"%LMQ%a"} if limits else {"%LMQ%a", "orders"})
        row = found["%LMQ%a"]
        assert (row["maxOffset"], row["lag"], row["state"]) == (6, 4, "ok")
        assert row["lagSeconds"] == pytest.approx(98)
    assert (found["%LMQ%a"]["group"], found["%LMQ%a"]["queueId"]) == ("%LMQ%g", 0)


def test_system_groups_are_left_out_unless_named(
    run_job: Any, make_log: MakeLog, tmp_path: Path
) -> None:
    """The offset of the revive group is that of its last check point, not of the next one."""
    log = make_log(file_size=1 << 16)
    revive = "rmq_sys_REVIVE_LOG_DefaultCluster"
    for topic in (revive, revive, "orders"):
        log.put(topic)
    own = "CID_RMQ_SYS_REVIVE_GROUP"
    snapshot(tmp_path, NOW + 100_000, {f"{revive}@{own}": {0: 1}, "orders@g": {0: 0}})
    paths = f"{tmp_path}/offsets-*"
    (row,) = run_job("lag-history", log.root, offsets=paths).rows
    assert row["group"] == "g"
    (row,) = run_job("lag-history", log.root, offsets=paths, group=own).rows
    assert (row["maxOffset"], row["consumerOffset"]) == (2, 1)
    assert (row["lag"], row["lagSeconds"], row["state"]) == (0, 0, "ok")
