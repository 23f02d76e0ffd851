"""``retries`` agrees with chains built record by record."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from mqadmin.inspector.configs import config_rows
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query


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
