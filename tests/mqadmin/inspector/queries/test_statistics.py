"""Statistics of a log: equal to counts made message by message, within a memory bound."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.messages import scan_messages
from mqadmin.inspector.queries.statistics import ATTRIBUTES, GroupCounter, statistics
from mqadmin.inspector.query import Query
from mqadmin.message_row import MessageRow
from tests.support.made_store import NOW, MadeStore

Golden = Callable[..., Path]
STORES = ["normal-stop-533", "retry-dlq-498", "batch-cq-533", "ipv6-533", "transaction-533"]


def values_of(row: MessageRow, by: str) -> list[str | None]:
    if by == "topic":
        return [row.topic]
    if by == "tag":
        return [row.tags]
    if by == "key":
        return [*dict.fromkeys(row.keys)] or [None]
    return [row.born_host.rpartition(":")[0].strip("[]")]


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("by", ["topic", "tag", "key", "host"])
def test_groups_are_those_of_a_count_by_message(golden_store: Golden, name: str, by: str) -> None:
    store = StoreDirectory(golden_store(name) / "store")
    expected = Counter(
        value
        for row in scan_messages(store)
        if isinstance(row, MessageRow)
        for value in values_of(row, by)
    )
    assert expected
    found = statistics(store, by)
    assert {row.value: row.messages for row in found.rows} == expected
    assert [row.bytes for row in found.rows] == sorted((r.bytes for r in found.rows), reverse=True)


@pytest.mark.parametrize("by", ATTRIBUTES)
def test_totals_are_the_bytes_of_all_records(golden_store: Golden, by: str) -> None:
    store = StoreDirectory(golden_store("batch-cq-533") / "store")
    sizes = {
        row.physical_offset: row.store_size
        for row in scan_messages(store)
        if isinstance(row, MessageRow)
    }
    found = statistics(store, by)
    assert found.bytes == sum(sizes.values())
    assert found.damaged_count == 0
    if by != "key":
        assert sum(row.bytes for row in found.rows) == found.bytes
        assert sum(row.share for row in found.rows) == pytest.approx(1, abs=1e-4)
        assert sum(row.messages for row in found.rows) == found.messages


def test_the_count_by_topic_is_the_same_without_checksums(golden_store: Golden) -> None:
    store = StoreDirectory(golden_store("batch-cq-533") / "store")
    assert statistics(store, "topic") == statistics(store, "topic", Query(check_crc=False))


def test_sizes_are_powers_of_two_in_ascending_order(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store", file_size=1 << 16)
    for length in (1, 5000, 10, 600):
        made.put("TopicA", body=b"x" * length)
    made.write()
    found = statistics(StoreDirectory(made.root), "size")
    expected = Counter(1 << (size.bit_length() - 1) for _, size in made.places)
    assert {row.from_bytes: row.messages for row in found.rows} == expected
    assert [row.value for row in found.rows] == ["64..127", "512..1023", "4096..8191"]
    assert found.rows[0].to_bytes == 127


def test_topic_queue_and_window_select_messages(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    for number in range(20):
        made.put("TopicA" if number % 2 else "TopicB", number % 3)
    made.write()
    store = StoreDirectory(made.root)
    query = Query(topic="TopicA", begin_ms=NOW + 5000, end_ms=NOW + 15000)
    assert statistics(store, "tag", query).messages == 5
    assert statistics(store, "key", query).messages == 5
    assert statistics(store, "topic", Query(queue_id=2)).messages == 6


def test_a_damaged_record_is_counted_as_damage_and_the_scan_continues(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    for _ in range(20):
        made.put()
    made.write()
    at, _ = made.places[4]
    log = made.root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[at + 4 : at + 8] = b"\0\0\0\1"
    log.write_bytes(data)
    for by in ATTRIBUTES:
        found = statistics(StoreDirectory(made.root), by, Query(check_crc=False))
        assert (found.messages, found.damaged_count) == (19, 1)
        assert found.damaged_regions[0].physical_offset == at


@pytest.mark.parametrize("seed", range(5))
def test_a_bounded_count_differs_from_the_true_one_by_max_missed_at_most(seed: int) -> None:
    random = Random(seed)
    stream = [b"%d" % int(random.paretovariate(0.8)) for _ in range(20_000)]
    counter = GroupCounter(max_bytes=40_000)
    for value in stream:
        counter.add(value, 1, 10)
    true = Counter(stream)
    rows = list(counter.totals())
    assert len(rows) < 140 < len(true)
    for name, messages, size, missed in rows:
        assert isinstance(name, bytes)
        assert messages <= true[name] <= messages + missed
        assert size == 10 * messages
    assert sum(row[1] for row in rows) + counter.dropped_messages == len(stream)
    assert {value for value, _ in true.most_common(5)} <= {row[0] for row in rows}


def test_dropped_groups_are_reported(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    for _ in range(40):
        made.put()
    made.write()
    found = statistics(StoreDirectory(made.root), "key", max_bytes=3000)
    assert found.dropped_messages > 0
    assert found.dropped_messages + sum(row.messages for row in found.rows) == 40
