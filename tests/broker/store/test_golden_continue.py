"""Recorded Java stores: compared with the results of Java clients, continued, reopened."""

import os
import shutil
from pathlib import Path

import pytest

from broker.message.record import decode_record
from broker.store.message_store import MessageStore, PutMessageStatus

CLEAN = [
    f"{name}-{version}"
    for name in ("normal-stop", "delay", "retry-dlq", "transaction", "ipv6", "lmq")
    for version in ("498", "533")
] + ["pop-533", "batch-cq-533"]
KILLED = [f"kill9-{how}-{version}" for how in ("sync", "async") for version in ("498", "533")]
DERIVED = ("consumequeue", "batchconsumequeue", "index")


def open_store(config):
    store = MessageStore(config)
    store.report = store.load()
    return store


def parts(recorded):
    if (recorded.folder / "store").is_dir():
        return [("store", "broker.conf")]
    return [("master", "broker.conf"), ("slave", "broker-2.conf")]


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def compare(store, expect):
    """Everything the Java clients saw is there, at the same place."""
    later = {}
    for message in expect.get("storedAfterDump") or ():
        key = (message["topic"], message["queueId"])
        later[key] = later.get(key, 0) + 1
    for queue in expect["queues"]:
        key = (queue["topic"], queue["queueId"])
        assert max(store.get_min_offset(*key), 0) == queue["minOffset"], key
        assert store.get_max_offset(*key) == queue["maxOffset"] + later.get(key, 0), key
    for message in expect["messages"]:
        result = store.get_message(message["topic"], message["queueId"], message["queueOffset"], 1)
        assert result.message_count >= 1, message
        found = decode_record(result.buffers[0], check_crc=True)
        assert found.physical_offset == message["physicalOffset"]
        assert found.store_timestamp == message["storeTimestamp"]
    for query in expect["queryByKey"]:
        result = store.query_message(query["topic"], query["key"], 64, 0, (1 << 63) - 1)
        ids = {decode_record(buffer).offset_msg_id for buffer in result.buffers}
        assert set(query["offsetMsgIds"]) <= ids, query


@pytest.mark.parametrize("name", [*CLEAN, *KILLED, "pair-498", "pair-533"])
def test_a_java_store_opens_and_accepts_messages(recorded, inner, name):
    found = recorded(name)
    for part, conf in parts(found):
        config = found.config(part, conf)
        store = open_store(config)
        try:
            assert store.report.damaged_regions == []
            if part != "slave":
                compare(store, found.expect)
            store.start()
            before = store.max_physical_offset
            places = [
                store.put_message(inner("New", n % 3, b"%d" % n, properties={"KEYS": f"k{n}"}))
                for n in range(40)
            ]
            assert {place.status for place in places} == {PutMessageStatus.PUT_OK}
            assert places[0].physical_offset >= before
        finally:
            store.shutdown()
        store = open_store(config)
        try:
            assert store.report.clean
            assert store.report.scanned_bytes == 0
            if part != "slave":
                compare(store, found.expect)
            for n in range(40):
                result = store.query_message("New", f"k{n}", 32, 0, 1 << 62)
                assert b"%d" % n in [decode_record(b).body for b in result.buffers]
        finally:
            store.shutdown()


@pytest.mark.parametrize("name", CLEAN)
def test_opening_changes_none_of_javas_files(recorded, name):
    """A clean store that is opened and closed again holds Java's bytes as before."""
    found = recorded(name)
    root = found.root
    before = content(root)
    store = open_store(found.config())
    store.start()
    store.shutdown()
    after = content(root)
    ours = {"queueEnds.json", "lock", "checkpoint", "abort"}
    changed = {key for key in before if after.get(key) != before[key]} - ours
    assert changed == set()
    assert set(after) - set(before) <= ours


@pytest.mark.parametrize("name", [*CLEAN, "kill9-async-498", "kill9-async-533"])
def test_rebuilt_queues_and_index_equal_those_of_java(recorded, name):
    found = recorded(name)
    root = found.root
    before = {kind: content(root / kind) for kind in DERIVED}
    for kind in DERIVED:
        shutil.rmtree(root / kind, ignore_errors=True)
    (root / "abort").write_bytes(b"")
    (root / "checkpoint").unlink()
    store = open_store(found.config())
    store.start()
    store.shutdown()
    for kind in ("consumequeue", "batchconsumequeue"):
        after = content(root / kind)
        # Java makes folders for queues without messages, and files ahead of time.
        assert after == {key: data for key, data in before[kind].items() if any(data)}
    # Index files are named after the time of their creation.
    assert list(content(root / "index").values()) == list(before["index"].values())


@pytest.mark.parametrize("name", KILLED)
def test_no_acknowledged_message_of_a_killed_java_broker_is_lost(recorded, name):
    found = recorded(name)
    store = open_store(found.config())
    try:
        assert not store.report.clean
        for sent in found.expect["acknowledged"]:
            queue = sent["topic"], sent["queueId"], sent["queueOffset"]
            result = store.get_message(*queue, 1)
            assert result.message_count == 1, sent
    finally:
        store.shutdown()


@pytest.mark.parametrize("name", ["normal-stop-498", "normal-stop-533"])
def test_records_of_a_deleted_topic_do_not_bring_it_back(recorded, name):
    found = recorded(name)
    deleted = found.expect["notes"]["deletedTopic"]
    topic = deleted["topic"] if isinstance(deleted, dict) else deleted
    (found.root / "abort").write_bytes(b"")
    store = open_store(found.config())
    try:
        assert topic not in store.queues()
        assert content(found.root / "consumequeue" / topic) == {}
    finally:
        store.shutdown()


@pytest.mark.parametrize("name", ["normal-stop-498", "normal-stop-533"])
def test_one_lost_queue_of_a_clean_java_store_comes_back(recorded, name):
    found = recorded(name)
    queue = found.root / "consumequeue" / "OrdersA" / "2"
    before = content(queue)
    shutil.rmtree(queue)
    store = open_store(found.config())
    try:
        compare(store, found.expect)
    finally:
        store.shutdown()
    assert content(queue) == {key: data for key, data in before.items() if any(data)}


@pytest.mark.parametrize("name", ["normal-stop-498", "normal-stop-533"])
def test_a_flipped_bit_costs_no_neighbour(recorded, name):
    """Java 4.9.8 cuts the log there; 5.3.3 hands the damaged body out."""
    found = recorded(name)
    victim = found.expect["messages"][len(found.expect["messages"]) // 3]
    at = victim["physicalOffset"]
    size = found.config().mapped_file_size_commit_log
    path = found.root / "commitlog" / f"{at - at % size:020d}"
    data = bytearray(path.read_bytes())
    data[at % size + 90] ^= 1
    path.write_bytes(data)
    os.unlink(found.root / "checkpoint")
    (found.root / "abort").write_bytes(b"")
    store = open_store(found.config())
    try:
        assert [d.physical_offset for d in store.report.damaged_regions] == [at]
        for message in found.expect["messages"]:
            key = message["topic"], message["queueId"], message["queueOffset"]
            count = store.get_message(*key, 1).message_count
            assert count == (0 if message["physicalOffset"] == at else 1), message
        store.start()
    finally:
        store.shutdown()
    store = open_store(found.config())
    try:
        assert store.report.clean
        assert [start for start, _ in store.reader.damaged] == [at]
    finally:
        store.shutdown()
