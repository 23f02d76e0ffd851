"""``keys`` agrees with keys counted and hashed one by one."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from broker.store.format.indexfile import index_key_hash
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.index import index_rows
from mqadmin.inspector.query import Query
from tests.support.pipeline_store import MakeLog, decode_store


def test_keys_by_topic(run_job: Any, store_roots: dict[str, Path]) -> None:
    root = store_roots["normal-stop-533"]
    keys: dict[str, Counter[str]] = defaultdict(Counter)
    messages: Counter[str] = Counter()
    with_keys: Counter[str] = Counter()
    for row in decode_store(root):
        words = [word for word in (row["keys"] or "").split(" ") if word]
        messages[row["topic"]] += 1
        with_keys[row["topic"]] += bool(row["keys"])
        keys[row["topic"]].update([row["uniq_key"]] if row["uniq_key"] else [])
        keys[row["topic"]].update(words)
    rows = run_job("keys", root).rows
    assert {row["topic"] for row in rows} == set(messages)
    for row in rows:
        own = keys[row["topic"]]
        hashes = {index_key_hash(row["topic"], key) for key in own}
        assert (row["messages"], row["withKeys"]) == (
            messages[row["topic"]],
            with_keys[row["topic"]],
        )
        assert (row["keys"], row["distinctKeys"]) == (own.total(), len(own))
        assert row["distinctHashes"] == len(hashes)


def test_keys_with_equal_hashes_collide(run_job: Any, make_log: MakeLog) -> None:
    """Aa and BB have the same Java hash."""
    log = make_log(file_size=1 << 16)
    for key in ("Aa", "BB", "Aa", "plain"):
        log.put("orders", properties={"KEYS": key})
    (topic,) = run_job("keys", log.root).rows
    assert (topic["distinctKeys"], topic["distinctHashes"], topic["collisions"]) == (7, 6, 2)
    (found,) = run_job("keys", log.root, table="collisions").rows
    assert found["keyHash"] == index_key_hash("orders", "Aa")
    assert (found["keys"], found["messages"]) == (2, 3)
    assert found["examples"] == ["orders#Aa", "orders#BB"]


def test_load_of_index_files(run_job: Any, store_roots: dict[str, Path]) -> None:
    root = store_roots["normal-stop-498"]
    entries = defaultdict(list)
    headers = {}
    for row in index_rows(StoreDirectory(root), Query()):
        if row.record == "entry":
            entries[row.path].append(row)
        else:
            headers[row.path] = row
    rows = run_job("keys", root, table="files").rows
    assert [row["file"] for row in rows] == sorted(entries)
    for row in rows:
        chains = Counter(entry.slot for entry in entries[row["file"]])
        assert row["entries"] == chains.total()
        assert row["slotsUsed"] == len(chains)
        assert row["longestChain"] == max(chains.values())
        assert row["meanChain"] == pytest.approx(chains.total() / len(chains), abs=1e-6)
        assert row["slotLoad"] == pytest.approx(len(chains) / 40)
        assert 0 < row["fill"] <= 1
        assert row["beginTimestamp"] == headers[row["file"]].begin_timestamp
