"""``latency`` agrees with times computed message by message."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from broker.common.times import parse_duration_ms
from broker.errors import ConfigError
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.pipeline.jobs.latency import DELAY_LEVELS

LEVELS = [parse_duration_ms(word) for word in DELAY_LEVELS.split()]
WAITING_TOPICS = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC")


def rows_of(root: Path) -> list[Any]:
    return list(message_rows(StoreDirectory(root), Query(body="text")))


def share(values: list[int], part: float) -> int:
    return sorted(values)[math.ceil(part * len(values)) - 1]


@pytest.mark.parametrize("name", ["delay-533", "delay-498", "transaction-533", "normal-stop-533"])
def test_stored_covers_messages_as_they_were_sent(
    run_job: Any, store_roots: dict[str, Path], golden_expect: Any, name: str
) -> None:
    """Each message sent by the recorder counts once."""
    root = store_roots[name]
    seen = set()
    times = defaultdict(list)
    for row in rows_of(root):
        if row.topic.startswith(("RMQ_SYS_TRANS_OP", "%RETRY%", "%DLQ%")):
            continue
        # The first record of a message is the sent one; messages of a batch share their uniqKey.
        key = (row.uniq_key, row.queue_offset if row.topic == "BatchA" else 0)
        if row.uniq_key is None or key not in seen:
            seen.add(key)
            topic = row.properties["REAL_TOPIC"] if row.topic in WAITING_TOPICS else row.topic
            times[topic].append(row.store_timestamp - row.born_timestamp)
    rows = run_job("latency", root).rows
    assert {row["topic"]: row["messages"] for row in rows} == {
        topic: len(own) for topic, own in times.items()
    }
    for row in rows:
        own = times[row["topic"]]
        assert (row["minMs"], row["maxMs"]) == (min(own), max(own))
        assert (row["p50Ms"], row["p99Ms"]) == (share(own, 0.5), share(own, 0.99))
        assert row["negative"] == sum(time < 0 for time in own)


@pytest.mark.parametrize("name", ["delay-533", "delay-498"])
def test_delayed_messages_against_their_due_times(
    run_job: Any, store_roots: dict[str, Path], name: str
) -> None:
    root = store_roots[name]
    due: dict[tuple[str, str], int] = {}
    at: dict[tuple[str, str], int] = {}
    levels: dict[tuple[str, str], int | None] = {}
    for row in rows_of(root):
        own = row.properties
        timer = own.get("TIMER_DELIVER_MS", own.get("TIMER_OUT_MS"))
        if "TIMER_DEL_UNIQKEY" in own or not (timer or own.get("DELAY")):
            continue
        key = ("timer" if timer else "level", row.uniq_key)
        levels[key] = None if timer else int(own["DELAY"])
        if row.topic == "SCHEDULE_TOPIC_XXXX":
            due[key] = row.store_timestamp + LEVELS[int(own["DELAY"]) - 1]
        elif row.topic == "rmq_sys_wheel_timer":
            due[key] = min(due.get(key, 1 << 60), int(timer))
        else:
            at.setdefault(key, row.store_timestamp)
    expected = defaultdict(list)
    for key, time in due.items():
        expected[key[0], levels[key]].append(at[key] - time if key in at else None)
    rows = run_job("latency", root, table="delayed").rows
    assert {(row["kind"], row["level"]) for row in rows} == set(expected)
    for row in rows:
        late = expected[row["kind"], row["level"]]
        known = [time for time in late if time is not None]
        assert (row["messages"], row["delivered"]) == (len(late), len(known))
        assert row["waiting"] == len(late) - len(known)
        assert row["early"] == sum(time < 0 for time in known)
        assert row["maxMs"] == (max(known) if known else None)


@pytest.mark.parametrize("name", ["transaction-533", "transaction-498"])
def test_transactions_are_committed_rolled_back_or_open(
    run_job: Any, store_roots: dict[str, Path], name: str
) -> None:
    rows = rows_of(store_roots[name])
    half: dict[str, list[Any]] = defaultdict(list)
    commit: dict[str, int] = {}
    done: set[int] = set()
    for row in rows:
        if row.topic == "RMQ_SYS_TRANS_HALF_TOPIC":
            half[row.uniq_key].append(row)
        elif row.topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC":
            done.update(int(word) for word in row.body.split(",") if word)
        elif row.sys_flag & 0xC == 0x8:
            commit.setdefault(row.uniq_key, row.store_timestamp)
    (found,) = run_job("latency", store_roots[name], table="transactions").rows
    assert found["transactions"] == len(half)
    assert found["committed"] == len(commit)
    back = [key for key in half if key not in commit and half[key][-1].queue_offset in done]
    assert found["rolledBack"] == len(back)
    assert found["open"] == len(half) - len(commit) - len(back)
    took = [commit[key] - half[key][0].store_timestamp for key in commit]
    assert (found["p50Ms"], found["maxMs"]) == (share(took, 0.5), max(took))
    assert found["checks"] == sum(
        max(int(row.properties.get("TRANSACTION_CHECK_TIMES", 0)) for row in own)
        for own in half.values()
    )


def test_a_topic_selects_messages_by_their_target_topic(
    run_job: Any, store_roots: dict[str, Path]
) -> None:
    root = store_roots["delay-533"]
    assert {row["topic"] for row in run_job("latency", root, topic="LaterA").rows} == {"LaterA"}
    assert run_job("latency", root, topic="other").rows == []
    with pytest.raises(ConfigError, match="delayLevels"):
        run_job("latency", root, table="delayed", delayLevels="1s never")
