"""Blocks among pending records: dispatched whole, or record by record where a rule needs it."""

from pathlib import Path

import pytest

from broker.errors import DiskFullError
from broker.message.properties import encode_properties
from broker.store.dispatch import reput
from broker.store.dispatch.block import BLOCK, PendingBlocks, add_units, batch_blocks
from broker.store.dispatch.request import PendingBatch
from broker.store.format.consumequeue import UNIT_STRUCT
from tests.support.killed_dispatch import Killed, killed_at_write
from tests.support.record_blocks import append_block
from tests.support.stores import Stores, make_inner


def message(number: int, topic: str = "TopicA"):
    properties = {"UNIQ_KEY": f"U{number}", "TAGS": "T"}
    return make_inner(topic, 0, b"%d" % number, properties=encode_properties(properties))


@pytest.fixture
def store(tmp_path: Path):
    stores = Stores(tmp_path)
    config = stores.config(mapped_file_size_commit_log=1 << 16)
    store = stores.start(config, defer=lambda call: None)
    for topic in ("TopicA", "TopicB"):
        store.put_message(message(0, topic))
    store.dispatch()
    yield store
    store.dispatch()
    assert store.reput.offset == store.log.max_offset
    stores.close(store)


def offsets(store, topic: str = "TopicA") -> list[int]:
    """Physical offsets of a queue's units; equal to those of the log's records of the topic."""
    queue = store.queue_table.topics[topic].queues[0]
    found = [queue.unit(number) for number in range(queue.max_offset)]
    return [unit[0] for unit in found if unit is not None]


def block_of(store, count: int = 10, topic: str = "TopicA"):
    return append_block(store, [message(number, topic) for number in range(1, count + 1)])


def test_a_block_becomes_visible_as_a_whole(store) -> None:
    block = block_of(store)
    assert len(offsets(store)) == 1
    store.reput.run(block.end - 1)
    assert len(offsets(store)) == 1
    store.reput.run(block.end)
    assert offsets(store)[1:] == [entry[0] for entry in block.expand()]
    assert store.reput.offset == block.end
    found, _, _ = store.index.query(
        store.queue_table.topics["TopicA"].key_prefix, b"U7", 9, 0, 1 << 62
    )
    assert found == [block.expand()[6][0]]


@pytest.mark.parametrize("entries", [5_000, 8, 7, 6, 5, 0])
@pytest.mark.parametrize("writes", range(6))
def test_a_kill_between_the_queues_of_a_block_loses_no_unit(
    tmp_path: Path, entries: int, writes: int
) -> None:
    stores = Stores(tmp_path)
    config = stores.config(
        mapped_file_size_commit_log=1 << 16,
        message_index_enable=entries > 0,
        max_index_num=entries or 50,
    )
    store = stores.start(config, defer=lambda call: None)
    topics = ["TopicA", "TopicB", "TopicB", "TopicA", "TopicC"]
    for topic in sorted(set(topics)):
        store.put_message(message(0, topic))
    store.dispatch()
    block = append_block(store, [message(number, topic) for number, topic in enumerate(topics)])
    expected = {
        topic: [one[0] for one in block.expand() if one[5].topic.name == topic] for topic in topics
    }
    with killed_at_write(writes):
        try:
            store.dispatch()
        except Killed:
            assert writes < len(topics)
    stores.kill(store)
    store = stores.start(config)
    assert {topic: offsets(store, topic)[1:] for topic in topics} == expected
    stores.close(store)


def test_listeners_get_each_record_after_the_units_of_the_block(store) -> None:
    block = block_of(store)
    arrived = []
    store.add_arriving_listener(
        lambda *arrival: arrived.append((arrival[2], len(offsets(store)))), {"TopicA"}
    )
    store.dispatch()
    assert arrived == [(number, 11) for number in range(2, 12)]
    assert len(offsets(store)) == 1 + block.records


def test_a_listener_of_another_topic_does_not_split_a_block(store) -> None:
    block = block_of(store)
    assert add_units(block)
    assert not add_units(block), "a queue that has the units already takes no block"


def test_a_failure_in_the_middle_adds_no_record_twice(store, monkeypatch) -> None:
    block = block_of(store, 10)

    def fail(index) -> None:
        raise DiskFullError("no space", path="index")

    failing = block._replace(put_keys=fail)
    monkeypatch.setattr(PendingBlocks, "get", lambda blocks, offset: failing)
    store.dispatch()
    assert len(offsets(store)) == 11
    index = store.index.files[-1]
    assert index.count == 1 + 2 + 10


def test_records_of_deleted_topics_are_dropped_from_blocks(store) -> None:
    messages = [message(number, f"Topic{'AB'[number % 2]}") for number in range(10)]
    append_block(store, messages)
    store.reput.forget({"TopicB"})
    store.dispatch()
    assert len(offsets(store)) == 6
    assert len(offsets(store, "TopicB")) == 1


def test_beyond_the_limit_of_pending_records_the_log_is_read(store, monkeypatch) -> None:
    monkeypatch.setattr(reput, "MAX_PENDING", 25)
    for _ in range(4):
        block_of(store)
    assert store.reput.overflow
    store.dispatch()
    assert len(offsets(store)) == 41


def test_the_records_of_blocks_count_towards_the_limit_of_puts(store, monkeypatch) -> None:
    monkeypatch.setattr(reput, "MAX_PENDING", 12)
    block_of(store)
    store.put_message(message(1))
    assert not store.reput.overflow
    store.put_message(message(2))
    store.put_message(message(3))
    assert store.reput.overflow


def test_pending_blocks_are_replaced_by_their_records(store) -> None:
    blocks = PendingBlocks()
    block = block_of(store, 3)
    entry = blocks.add(block)
    assert entry[3] & BLOCK
    assert (entry[0], entry[0] + entry[1], blocks.more) == (block.start, block.end, 2)
    single = block.expand()[0]
    assert list(blocks.expanded([single, entry], {"TopicB"})) == [single, entry]
    assert list(blocks.expanded([single, entry], {"TopicA"})) == [single, *block.expand()]
    assert blocks.more == 0
    blocks.add(block)
    blocks.clear()
    assert blocks.more == 0


def test_a_batch_becomes_blocks_of_parts(store) -> None:
    queue = store.queue_table.topics["TopicA"].queues[0]
    batch = PendingBatch(queue, 1, [100, 110, 130, 160], [b"", b"TAGS\x01a", b""], 7, 0)
    parts = list(batch_blocks(batch, lambda properties: 5, 2))
    assert [(part.start, part.end, part.records) for part in parts] == [
        (100, 130, 2),
        (130, 160, 1),
    ]
    first, second = (part.units()[0] for part in parts)
    assert first.units == UNIT_STRUCT.pack(100, 10, 0) + UNIT_STRUCT.pack(110, 20, 5)
    assert (second.first_offset, second.physical_end) == (3, 160)
    assert [entry[:2] for entry in parts[0].expand()] == [(100, 10), (110, 20)]
