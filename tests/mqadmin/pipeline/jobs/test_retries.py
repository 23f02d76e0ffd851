"""``retries`` agrees with chains built record by record."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from mqadmin.inspector.configs import config_rows
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from tests.support.pipeline_store import LogBuilder, MakeLog


def expected_chains(root: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the chains by (group, uniqKey), built record by record."""
    store = StoreDirectory(root)
    offsets = next(
        row.value["offsetTable"]
        for row in config_rows(store, Query())
        if row.name == "consumerOffset.json"
    )
    chains: dict[tuple[str, str], dict[str, Any]] = {}
    for row in message_rows(store, Query()):
        real = row.properties.get("REAL_TOPIC", "")
        if row.topic == "SCHEDULE_TOPIC_XXXX" and real.startswith("%RETRY%"):
            kind, group = "waiting", real[7:]
        elif row.topic.startswith("%RETRY%"):
            kind, group = "delivered", row.topic[7:]
        elif row.topic.startswith("%DLQ%"):
            kind, group = "dead", row.topic[5:]
        else:
            continue
        chain = chains.setdefault(
            (group, row.uniq_key),
            {"levels": [], "deliveries": 0, "tries": 0, "times": [], "dead": None},
        )
        chain["times"].append(row.store_timestamp)
        chain["tries"] = max(chain["tries"], row.reconsume_times)
        chain["origin"] = row.properties["RETRY_TOPIC"]
        chain["outcome"] = kind
        if kind == "waiting":
            chain["levels"].append(int(row.properties["DELAY"]))
        elif kind == "delivered":
            chain["deliveries"] += 1
            progress = offsets.get(f"{row.topic}@{group}", {}).get(row.queue_id)
            if progress is None:
                chain["outcome"] = "unknown"
            else:
                chain["outcome"] = "consumed" if row.queue_offset < progress else "pending"
        else:
            chain["dead"] = row.physical_offset
    for chain in chains.values():
        if chain["dead"] is not None:
            chain["outcome"] = "dead"
    return chains


@pytest.mark.parametrize("name", ["retry-dlq-533", "retry-dlq-498"])
def test_chains_are_equal_to_the_expected_ones(
    run_job: Any, store_roots: dict[str, Path], name: str
) -> None:
    root = store_roots[name]
    expected = expected_chains(root)
    rows = run_job("retries", root, table="chains").rows
    assert {(row["group"], row["uniqKey"]) for row in rows} == set(expected)
    for row in rows:
        chain = expected[row["group"], row["uniqKey"]]
        assert row["outcome"] == chain["outcome"]
        assert row["levels"] == chain["levels"]
        assert (row["deliveries"], row["tries"]) == (chain["deliveries"], chain["tries"])
        assert row["originTopic"] == chain["origin"]
        assert row["firstStoreTimestamp"] == min(chain["times"])
        assert row["lastStoreTimestamp"] == max(chain["times"])
        seconds = (max(chain["times"]) - min(chain["times"])) / 1000
        assert row["seconds"] == pytest.approx(seconds)
        assert row["deadPhysicalOffset"] == chain["dead"]
    assert {"dead", "consumed", "waiting"} <= {row["outcome"] for row in rows}


def test_groups_aggregate_chains_most_dead_letters_first(
    run_job: Any, store_roots: dict[str, Path]
) -> None:
    root = store_roots["retry-dlq-533"]
    by_group = defaultdict(list)
    for (group, _), chain in expected_chains(root).items():
        by_group[group, chain["origin"]].append(chain)
    rows = run_job("retries", root).rows
    assert len(rows) == len(by_group)
    for row in rows:
        chains = by_group[row["group"], row["originTopic"]]
        assert row["messages"] == len(chains)
        assert row["tries"] == sum(chain["tries"] for chain in chains)
        for outcome in ("dead", "consumed", "pending", "waiting", "unknown"):
            assert row[outcome] == sum(chain["outcome"] == outcome for chain in chains)
    assert [row["dead"] for row in rows] == sorted((row["dead"] for row in rows), reverse=True)
    assert {row["group"] for row in run_job("retries", root, group="CG_some").rows} == {"CG_some"}
    assert run_job("retries", root, topic="JobsOrderlyA").rows[0]["group"] == "CG_orderly"


def put_retry(log: LogBuilder, topic: str, first_topic: str | None = None) -> None:
    log.put(topic, reconsume_times=1, properties={"RETRY_TOPIC": first_topic})


def write_offsets(root: Path, offsets: dict[str, int]) -> None:
    """Write a consumerOffset.json with the offset of queue 0 by ``topic@group``."""
    (root / "config").mkdir()
    table = {key: {"0": offset} for key, offset in offsets.items()}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))


def test_the_group_of_a_pop_retry_topic_is_the_one_with_offsets_in_it(
    run_job: Any, make_log: MakeLog
) -> None:
    log = make_log()
    put_retry(log, "%RETRY%a_b_Orders")
    put_retry(log, "%RETRY%a_b_Orders")
    write_offsets(log.root, {"%RETRY%a_b_Orders@a_b": 1, "Orders@a_b": 1, "b_Orders@a": 1})
    (row,) = run_job("retries", log.root).rows
    assert (row["group"], row["originTopic"]) == ("a_b", "Orders")
    assert (row["consumed"], row["pending"]) == (1, 1)
    assert len(run_job("retries", log.root, group="a_b", topic="Orders", table="chains").rows) == 2


def test_the_group_of_a_pop_retry_topic_is_found_by_its_offsets_in_the_origin_topic(
    run_job: Any, make_log: MakeLog
) -> None:
    log = make_log()
    put_retry(log, "%RETRY%a_b_Orders")
    write_offsets(log.root, {"Orders@a_b": 1, "Other@a": 1})
    (row,) = run_job("retries", log.root).rows
    assert (row["group"], row["originTopic"], row["unknown"]) == ("a_b", "Orders", 1)


def test_the_separator_of_version_2_splits_group_and_topic(run_job: Any, make_log: MakeLog) -> None:
    log = make_log()
    put_retry(log, "%RETRY%a_b+Orders_x")
    (row,) = run_job("retries", log.root).rows
    assert (row["group"], row["originTopic"]) == ("a_b", "Orders_x")


def test_two_possible_groups_of_a_pop_retry_topic_leave_its_name_whole(
    run_job: Any, make_log: MakeLog
) -> None:
    log = make_log()
    put_retry(log, "%RETRY%a_b_Orders")
    write_offsets(log.root, {"Orders@a_b": 1, "b_Orders@a": 1})
    (row,) = run_job("retries", log.root).rows
    assert (row["group"], row["originTopic"]) == ("a_b_Orders", None)


def test_messages_sent_back_by_a_group_named_like_a_pop_retry_topic_are_its_own(
    run_job: Any, make_log: MakeLog
) -> None:
    log = make_log()
    put_retry(log, "%RETRY%a_Orders", "Orders")
    put_retry(log, "%RETRY%a_Orders")
    write_offsets(log.root, {"Orders@a": 1, "Orders@a_Orders": 1})
    rows = run_job("retries", log.root, table="chains").rows
    assert [(row["group"], row["originTopic"]) for row in rows] == [
        ("a", "Orders"),
        ("a_Orders", "Orders"),
    ]


def test_a_dead_letter_of_java_that_names_the_pop_retry_topic_has_the_origin_topic(
    run_job: Any, make_log: MakeLog
) -> None:
    log = make_log()
    for separator in "_+":
        name = f"%RETRY%a_b{separator}Orders"
        log.put("%DLQ%a_b", reconsume_times=17, properties={"RETRY_TOPIC": name})
    (row,) = run_job("retries", log.root).rows
    assert (row["group"], row["originTopic"], row["dead"]) == ("a_b", "Orders", 2)
    (row,) = run_job("dlq", log.root, topic="Orders").rows
    assert (row["group"], row["originTopic"], row["messages"]) == ("a_b", "Orders", 2)
