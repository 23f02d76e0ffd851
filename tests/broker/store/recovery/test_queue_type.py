"""QueueTypeResolver: the records decide the queue type if topics.json is missing."""

import json
import random
import shutil
import struct

import pytest

from broker.common import sysflag
from broker.errors import StoreError
from broker.store.recovery import log_scan
from tests.support.log_copy import copy_log, queue_units
from tests.support.stores import Stores

FLAGS = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP


def put_batch(store, inner, topic="Bulk", queue_id=0, count=3):
    properties = {"INNER_NUM": str(count)}
    return store.put_message(inner(topic, queue_id, sys_flag=FLAGS, properties=properties))


def lose_queues(stores, *, killed):
    """Remove the folders that show the queue type; there is no topics.json either."""
    shutil.rmtree(stores.root / "batchconsumequeue")
    shutil.rmtree(stores.root / "consumequeue", ignore_errors=True)
    if killed:
        (stores.root / "abort").write_bytes(b"")


def write_batch_topic(stores):
    folder = stores.root / "config"
    folder.mkdir()
    config = {"topicName": "Bulk", "attributes": {"queue.type": "BatchCQ"}}
    (folder / "topics.json").write_text(json.dumps({"topicConfigTable": {"Bulk": config}}))


def bounds(store):
    return {
        (topic, queue_id): (
            store.get_min_offset(topic, queue_id),
            store.get_max_offset(topic, queue_id),
        )
        for topic, ids in store.queues().items()
        for queue_id in ids
    }


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("manifest", [False, True], ids=["other broker", "manifest"])
def test_inner_batches_make_a_batch_topic_again(stores, inner, killed, manifest):
    """Single messages, several queues and a plain topic are stored among the batches."""
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    rand = random.Random(seed)
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    store.put_message(inner("Bulk", 0, body=b"the first record is a single message"))
    put_batch(store, inner, queue_id=0)
    for _ in range(60):
        if rand.random() < 0.4:
            put_batch(store, inner, queue_id=rand.randrange(3), count=rand.randrange(1, 9))
        else:
            store.put_message(inner(rand.choice(["Bulk", "TopicA"]), rand.randrange(3)))
    before = bounds(store)
    stores.close(store)
    if not manifest:
        (stores.root / "queueEnds.json").unlink()
    lose_queues(stores, killed=killed and manifest)
    store = stores.start()
    assert bounds(store) == before
    assert store.report.batch_topics == {"Bulk": 1 + max(store.queues()["Bulk"])}
    assert store.report.damaged_regions == []
    assert not (stores.root / "consumequeue" / "Bulk").exists()
    for (topic, queue_id), (low, high) in before.items():
        counted = 0
        while low + counted < high:
            found = store.get_message(topic, queue_id, low + counted)
            counted += found.message_count
        assert low + counted == high
    end = put_batch(store, inner, count=2).queue_offset
    assert end == before["Bulk", 0][1]


def test_the_fast_path_builds_the_same_batch_queues(stores, inner, monkeypatch):
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    for number in range(200):
        store.put_message(inner("Bulk" if number % 3 else "TopicA", number % 2))
    put_batch(store, inner)
    before = bounds(store)
    stores.close(store)
    lose_queues(stores, killed=False)
    monkeypatch.setattr(log_scan.LogScan, "vectorized_from_bytes", 0)
    monkeypatch.setattr(log_scan, "PAGE_OUT_BYTES", 4096)
    store = stores.start()
    assert bounds(store) == before
    assert store.report.batch_topics == {"Bulk": 2}


def test_damage_before_the_first_batch_does_not_hide_it(stores, inner):
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    damaged = store.put_message(inner("TopicA"))
    put_batch(store, inner)
    stores.close(store)
    lose_queues(stores, killed=False)
    log = stores.root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[damaged.physical_offset : damaged.physical_offset + 8] = b"\xff" * 8
    log.write_bytes(data)
    store = stores.start()
    assert bounds(store) == {("Bulk", 0): (0, 3)}


def test_a_flipped_bit_of_sys_flag_makes_no_batch_topic(stores, inner):
    store = stores.start()
    place = store.put_message(inner("TopicA"))
    store.put_message(inner("TopicA"))
    stores.close(store)
    shutil.rmtree(stores.root / "consumequeue")
    log = stores.root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[place.physical_offset + 39] |= sysflag.INNER_BATCH
    log.write_bytes(data)
    store = stores.start()
    assert bounds(store) == {("TopicA", 0): (0, 2)}
    assert store.report.batch_topics == {}


def test_a_configured_topic_has_its_configured_type(stores, inner):
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    put_batch(store, inner)
    stores.close(store)
    lose_queues(stores, killed=False)
    write_batch_topic(stores)
    store = stores.start()
    assert bounds(store) == {("Bulk", 0): (0, 3)}
    assert store.report.batch_topics == {}


def test_batches_of_a_deleted_topic_decide_nothing(stores, inner):
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    put_batch(store, inner)
    store.put_message(inner("TopicA"))
    store.delete_topics(["Bulk"])
    store.put_message(inner("Bulk"))
    stores.close(store)
    shutil.rmtree(stores.root / "consumequeue")
    store = stores.start()
    assert bounds(store) == {("Bulk", 0): (0, 1), ("TopicA", 0): (0, 1)}
    assert store.report.batch_topics == {}


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_plain_queues_of_a_batch_topic_are_rebuilt(stores, tmp_path, inner, caplog, killed):
    """A slave has them: the topic was recreated before the slave copied the topics."""
    master, slaves = stores.start(), Stores(tmp_path / "slave")
    slave = slaves.start()
    for _ in range(3):
        master.put_message(inner("Bulk"))
    copy_log(master, slave)
    master.delete_topics(["Bulk"])
    master.queue_table.set_batch_topics(["Bulk"])
    put_batch(master, inner)
    put_batch(master, inner)
    copy_log(master, slave)
    master.put_message(inner("TopicA"))
    copy_log(master, slave)
    write_batch_topic(slaves)
    slave.queue_table.set_batch_topics(["Bulk"])
    assert "Bulk: has plain queues" in caplog.text
    (slaves.kill if killed else slaves.close)(slave)
    slave = slaves.start()
    assert bounds(slave) == bounds(master) == {("Bulk", 0): (0, 6), ("TopicA", 0): (0, 1)}
    assert queue_units(slave) == queue_units(master)
    assert not (slaves.root / "consumequeue" / "Bulk").exists()
    put_batch(master, inner)
    copy_log(master, slave)
    assert queue_units(slave) == queue_units(master)
    slave = slaves.reopen(slave)
    assert queue_units(slave) == queue_units(master)
    slaves.close(slave)


def test_a_plain_queue_with_inner_batches_is_refused_and_left_unchanged(stores, inner):
    """Such a queue was built by a broker that did not know the topic: it hides messages."""
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    place = put_batch(store, inner)
    stores.close(store)
    lose_queues(stores, killed=True)
    plain = stores.root / "consumequeue" / "Bulk" / "0"
    plain.mkdir(parents=True)
    wrong = struct.pack(">qiq", place.physical_offset, place.store_size, 0).ljust(400, b"\0")
    (plain / f"{0:020d}").write_bytes(wrong)
    with pytest.raises(StoreError, match=r"consumequeue/Bulk: .*topics\.json is missing") as caught:
        stores.load()
    assert "move the folder away" in caught.value.hint
    assert (plain / f"{0:020d}").read_bytes() == wrong
    shutil.rmtree(plain.parent)
    assert bounds(stores.start()) == {("Bulk", 0): (0, 3)}
