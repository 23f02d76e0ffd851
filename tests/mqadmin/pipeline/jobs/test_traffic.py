"""``traffic`` agrees with counts made message by message."""

import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from tests.support.pipeline_store import MakeLog, decode_store


def percentile(values: list[int], share: float) -> int:
    """Return the smallest value that a share of all values does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def ms(time: Any) -> int:
    return round(time.timestamp() * 1000)


def test_counts_by_all_columns(run_job: Any, store_roots: dict[str, Path]) -> None:
    """Group every recorded store by every column and time."""
    roots = list(store_roots.values())
    groups = defaultdict(list)
    for root in roots:
        for row in decode_store(root):
            bucket = ms(row["store_time"]) // 10_000 * 10_000
            host = row["born_host"].rpartition(":")[0]
            groups[str(root), row["topic"], row["tags"], row["queue_id"], host, bucket].append(row)
    result = run_job("traffic", *roots, by="store,topic,tag,queue,host", bucket="10s")
    assert not result.damages.count
    assert len(result.rows) == len(groups)
    total = sum(row["size"] for rows in groups.values() for row in rows)
    for found in result.rows:
        key = (
            *(found["store"], found["topic"], found["tag"], found["queueId"]),
            *(found["producerHost"], found["bucketTimestamp"]),
        )
        rows = groups.pop(key)
        sizes = [row["size"] for row in rows]
        assert found["messages"] == len(rows)
        assert found["bytes"] == sum(sizes)
        assert found["bodyBytes"] == sum(row["body_len"] for row in rows)
        assert found["share"] == pytest.approx(sum(sizes) / total, abs=1e-6)
        for name, share in (("sizeP50", 0.5), ("sizeP90", 0.9), ("sizeP99", 0.99)):
            assert found[name] == percentile(sizes, share)
        assert found["sizeMax"] == max(sizes)
        assert found["firstStoreTimestamp"] == min(ms(row["store_time"]) for row in rows)
        assert found["lastStoreTimestamp"] == max(ms(row["store_time"]) for row in rows)
    assert not groups


def test_the_largest_topic_comes_first_and_absent_columns_are_null(
    run_job: Any, store_roots: dict[str, Path]
) -> None:
    rows = run_job("traffic", store_roots["normal-stop-533"]).rows
    assert [row["bytes"] for row in rows] == sorted((row["bytes"] for row in rows), reverse=True)
    assert rows[0]["topic"] == "BigA"
    assert {row["tag"] for row in rows} == {None}


def test_hot_keys_and_skew(run_job: Any, store_roots: dict[str, Path]) -> None:
    root = store_roots["normal-stop-533"]
    rows = decode_store(root)
    keys: Counter[tuple[str, str]] = Counter()
    with_keys: Counter[str] = Counter()
    queues: Counter[tuple[str, int]] = Counter()
    for row in rows:
        queues[row["topic"], row["queue_id"]] += 1
        words = set((row["keys"] or "").split())
        with_keys[row["topic"]] += bool(words)
        keys.update((row["topic"], word) for word in words)
    hot = run_job("traffic", root, table="hot-keys", top=5).rows
    expected = sorted(keys.items(), key=lambda item: (-item[1], item[0]))[:5]
    assert [((row["topic"], row["key"]), row["messages"]) for row in hot] == expected
    assert hot[0]["share"] == pytest.approx(
        hot[0]["messages"] / with_keys[hot[0]["topic"]], abs=1e-6
    )
    for row in run_job("traffic", root, table="skew").rows:
        own = {queue: n for (topic, queue), n in queues.items() if topic == row["topic"]}
        assert (row["queues"], row["messages"]) == (len(own), sum(own.values()))
        assert (row["least"], row["most"]) == (min(own.values()), max(own.values()))
        assert row["skew"] == pytest.approx(max(own.values()) * len(own) / sum(own.values()))
        assert own[row["fullestQueueId"]] == row["most"]


def test_invalid_parameters_and_tables_are_refused(
    run_job: Any, store_roots: dict[str, Path]
) -> None:
    root = store_roots["normal-stop-533"]
    with pytest.raises(ConfigError, match="'colour' is not one of"):
        run_job("traffic", root, by="topic,colour")
    with pytest.raises(ConfigError, match="bucket"):
        run_job("traffic", root, bucket="often")
    with pytest.raises(ConfigError, match="no parameter 'group'"):
        run_job("traffic", root, group="g")
    with pytest.raises(ConfigError, match="no table 'hosts'"):
        run_job("traffic", root, table="hosts")
    with pytest.raises(ConfigError, match="top"):
        run_job("traffic", root, top="many")


def test_only_the_selected_topics_and_times_are_counted(
    run_job: Any, store_roots: dict[str, Path]
) -> None:
    root = store_roots["normal-stop-533"]
    times = sorted(ms(row["store_time"]) for row in decode_store(root))
    begin, end = times[len(times) // 4], times[len(times) // 2]
    rows = run_job("traffic", root, topic="OrdersA,ZipA", since_ms=begin, until_ms=end).rows
    expected = Counter(
        row["topic"]
        for row in decode_store(root)
        if row["topic"] in ("OrdersA", "ZipA") and begin <= ms(row["store_time"]) < end
    )
    assert {row["topic"]: row["messages"] for row in rows} == expected


def test_damaged_regions_and_all_messages_around_them_are_counted(
    run_job: Any, make_log: MakeLog
) -> None:
    log = make_log(file_size=8192)
    places = [log.put(f"Topic{number % 3}") for number in range(30)]
    log.write(places[5], bytes(40))
    log.write(places[17] + 4, b"\0\0")
    result = run_job("traffic", log.root)
    assert sum(row["messages"] for row in result.rows) == 28
    assert result.damages.count == 2
    assert result.damages.physical_offset == places[5]
    assert result.damages.detail.startswith("hole")
    assert result.damages.store == str(log.root)
