"""Recorded Java stores: inspection finds the messages of the Java client, and changes nothing."""

import base64
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mqadmin.inspector.configs import config_rows
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.index import index_rows
from mqadmin.inspector.queries.dlq import dlq_rows
from mqadmin.inspector.queries.find import find_id, find_key, message_rows
from mqadmin.inspector.queries.queues import queue_rows, unit_rows
from mqadmin.inspector.queries.summary import summarize
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import ConfigRow, DamageRow, IndexRow, QueueUnitRow
from mqadmin.message_row import MessageRow

STORES = sorted(
    path.name.removesuffix(".tar.xz")
    for path in (Path(__file__).parents[2] / "golden" / "stores").glob("*.tar.xz")
)
Unpack = Callable[..., Path]
Expect = Callable[[str], dict]


@pytest.fixture(params=STORES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def main_root(folder: Path) -> Path:
    return folder / ("master" if (folder / "master").exists() else "store")


def stored_messages(store: StoreDirectory) -> dict[tuple[str, int, int, int], MessageRow]:
    rows = {}
    for row in message_rows(store, Query(body="base64")):
        assert isinstance(row, MessageRow), row
        rows[(row.topic, row.queue_id, row.queue_offset, row.physical_offset)] = row
    return rows


def test_every_message_the_java_client_saw_is_shown(
    name: str, golden_store: Unpack, golden_expect: Expect
) -> None:
    rows = stored_messages(StoreDirectory(main_root(golden_store(name))))
    for seen in golden_expect(name)["messages"]:
        row = rows[seen["topic"], seen["queueId"], seen["queueOffset"], seen["physicalOffset"]]
        body = base64.b64decode(row.body or "")
        assert (len(body), zlib.crc32(body)) == (seen["bodyLength"], seen["bodyCrc32"])
        assert (row.tags, row.keys) == (seen.get("tags"), (seen.get("keys") or "").split())
        assert row.uniq_key == seen["properties"].get("UNIQ_KEY")
        assert row.crc_ok
        assert row.store_timestamp == seen["storeTimestamp"]
        assert row.flag == seen["flag"]
        host = seen["bornHost"].removeprefix("/").replace("[0:0:0:0:0:0:0:1]", "[::1]")
        assert row.born_host == host
        if seen["storeSize"]:
            assert row.store_size == seen["storeSize"]
            assert row.offset_msg_id == seen["offsetMsgId"]
            assert row.sys_flag & ~0x701 == seen["sysFlag"] & ~0x701
        else:
            assert row.sys_flag == seen["sysFlag"]  # an inner batch: the record's flags


def test_the_summary_counts_every_message_once(
    name: str, golden_store: Unpack, golden_expect: Expect
) -> None:
    store = StoreDirectory(main_root(golden_store(name)))
    rows = stored_messages(store)
    for check_crc in (True, False):
        summary, damage_rows = summarize(store, check_crc=check_crc)
        assert not damage_rows
        assert summary.damages == 0
        assert summary.messages == len(rows)
        assert {t.topic: t.messages for t in summary.topics} == {
            topic: sum(key[0] == topic for key in rows) for topic in {key[0] for key in rows}
        }
        ends = [(row.physical_offset + row.store_size) for row in rows.values()]
        assert summary.max_physical_offset == max(ends)
        times = [row.store_timestamp for row in rows.values()]
        assert summary.first_store_timestamp == min(times)
        assert summary.last_store_timestamp == max(times)
    expected = golden_expect(name)["store"]
    expected = expected.get("master", expected)
    assert summary.clean_stop == (not expected["abort"])
    assert list(summary.checkpoint.__struct_fields__) == [
        "path",
        "physic_msg_timestamp",
        "logics_msg_timestamp",
        "index_msg_timestamp",
        "master_flushed_offset",
        "confirm_physical_offset",
    ]


def test_queue_bounds_are_those_of_java(
    name: str, golden_store: Unpack, golden_expect: Expect
) -> None:
    """In a killed store the queues may lack records dispatched only after the restart."""
    expect = golden_expect(name)
    store = StoreDirectory(main_root(golden_store(name)))
    bounds = {(row.topic, row.queue_id): row for row in queue_rows(store)}
    later = {(m["topic"], m["queueId"]) for m in expect.get("storedAfterDump", [])}
    for queue in expect["queues"]:
        row = bounds.get((queue["topic"], queue["queueId"]))
        if row is None:
            assert queue["maxOffset"] == 0
        elif "kill9" in name:
            assert row.min_offset == queue["minOffset"]
            assert row.max_offset <= queue["maxOffset"] <= row.max_offset + 3
        elif (queue["topic"], queue["queueId"]) not in later:
            assert (row.min_offset, row.max_offset) == (queue["minOffset"], queue["maxOffset"])


def test_keys_are_found_as_java_finds_them(
    name: str, golden_store: Unpack, golden_expect: Expect
) -> None:
    expect = golden_expect(name)
    store = StoreDirectory(main_root(golden_store(name)))
    later = {m["offsetMsgId"] for m in expect.get("storedAfterDump", [])}
    for asked in expect["queryByKey"] or []:
        query = Query(topic=asked["topic"])
        for scan in ("auto", "always"):
            found = {
                row.offset_msg_id
                for row in find_key(store, asked["key"], query, scan=scan)
                if isinstance(row, MessageRow)
            }
            # A deleted topic has no route, a message in an inner batch no index entry: offline
            # both are there.
            if asked["offsetMsgIds"]:
                assert found - later == set(asked["offsetMsgIds"]) - later, asked["key"]


def test_every_id_leads_to_its_message(
    name: str, golden_store: Unpack, golden_expect: Expect
) -> None:
    store = StoreDirectory(main_root(golden_store(name)))
    for seen in golden_expect(name)["messages"][::17]:
        ids = [seen["properties"].get("UNIQ_KEY"), seen.get("offsetMsgId")]
        for message_id in filter(None, ids):
            found = [(r.topic, r.queue_offset) for r in find_id(store, message_id)]
            assert (seen["topic"], seen["queueOffset"]) in found
            if message_id == seen.get("offsetMsgId"):
                assert found == [(seen["topic"], seen["queueOffset"])]


def test_all_other_files_read_without_damage(
    name: str, golden_store: Unpack, golden_expect: Expect
) -> None:
    store = StoreDirectory(main_root(golden_store(name)))
    units = list(unit_rows(store))
    assert all(isinstance(row, QueueUnitRow) for row in units)
    index = list(index_rows(store))
    assert all(isinstance(row, IndexRow) for row in index)
    for row in index:
        if row.record == "file" and row.index_count > 1:
            assert row.slots == 40
    configs = {row.name: row for row in config_rows(store) if isinstance(row, ConfigRow)}
    assert not any(isinstance(row, DamageRow) for row in config_rows(store))
    assert "topics.json" in configs
    assert store.broker_name() == golden_expect(name)["brokerName"]


def test_slaves_are_stores_too(golden_store: Unpack) -> None:
    for name in ("pair-498", "pair-533"):
        summary, damage_rows = summarize(StoreDirectory(golden_store(name) / "slave"))
        assert not damage_rows
        assert summary.messages > 100
        assert not summary.clean_stop


def test_dead_letters_are_listed_per_group(golden_store: Unpack, golden_expect: Expect) -> None:
    for name in ("retry-dlq-498", "retry-dlq-533"):
        seen = [m for m in golden_expect(name)["messages"] if m["topic"].startswith("%DLQ%")]
        newest = max(m["storeTimestamp"] for m in seen)
        store = StoreDirectory(golden_store(name) / "store")
        rows = dlq_rows(store, now_ms=newest)
        assert [row.group for row in rows] == ["CG_fail", "CG_orderly", "CG_some"]
        for row in rows:
            own = [m["storeTimestamp"] for m in seen if m["topic"] == row.topic]
            assert (row.messages, row.oldest_timestamp) == (len(own), min(own))
            assert (row.newest_timestamp, row.growth_per_hour) == (max(own), len(own))
        assert dlq_rows(store, group="CG_some", now_ms=newest) == rows[2:]
        assert dlq_rows(store, group="unknown", now_ms=newest) == []
        assert dlq_rows(store, now_ms=newest + 7_200_000)[0].growth_per_hour == 0


def test_looking_at_everything_changes_nothing(
    golden_store: Unpack, untouched: Callable[[Path], None]
) -> None:
    for name in ("batch-cq-533", "kill9-sync-498"):
        folder = golden_store(name, copy=True)
        untouched(folder)
        store = StoreDirectory(main_root(folder))
        list(message_rows(store, Query(body="text")))
        list(unit_rows(store, Query(begin_ms=0)))
        list(index_rows(store))
        list(config_rows(store))
        list(queue_rows(store))
        summarize(store)
        store.state()
        list(find_key(store, "nothing"))
        dlq_rows(store, now_ms=0)
