"""Blocks among pending records: dispatched whole, or record by record where a rule needs it."""

from pathlib import Path

import pytest

from broker.errors import DiskFullError
from broker.message.batch import encode_batch_item
from broker.message.properties import encode_properties
from broker.store.dispatch import reput
from broker.store.dispatch.block import BLOCK, PendingBlocks, add_units, batch_blocks
from broker.store.dispatch.request import PendingBatch
from broker.store.format.consumequeue import UNIT_STRUCT
from broker.store.index.index_service import IndexService
from broker.store.results import PutMessageStatus
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


def index_config(stores: Stores, entries: int):
    """A store with index files of so many entries; without an index if 0."""
    return stores.config(
        mapped_file_size_commit_log=1 << 16,
        message_index_enable=entries > 0,
        max_index_num=entries or 50,
    )


@pytest.mark.parametrize("entries", [5_000, 8, 7, 6, 5, 0])
@pytest.mark.parametrize("writes", range(6))
def test_a_kill_between_the_queues_of_a_block_loses_no_unit(
    tmp_path: Path, entries: int, writes: int
) -> None:
    stores = Stores(tmp_path)
    config = index_config(stores, entries)
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


def put_batch(store, topic: str, *numbers: int) -> list[int]:
    """Put a batch of messages; return their physical offsets."""
    messages = [message(number, topic) for number in numbers]
    batch = store.new_batch(make_inner(topic, 0, b"", properties=b""))
    items = b"".join(encode_batch_item(0, one.body, one.properties) for one in messages)
    assert list(batch.encode_items(items)) == []
    stored = store.put_batch(batch)
    assert stored.status is PutMessageStatus.PUT_OK
    return stored.physical_offsets


@pytest.mark.parametrize("entries", [5_000, *range(4, 12), 0])
@pytest.mark.parametrize("writes", range(6))
def test_a_kill_while_batches_are_dispatched_together_loses_no_unit(
    tmp_path: Path, entries: int, writes: int
) -> None:
    """With an index file that fills at each of their entries, and without an index."""
    stores = Stores(tmp_path)
    config = index_config(stores, entries)
    store = stores.start(config, defer=lambda call: None)
    expected: dict[str, list[int]] = {topic: [] for topic in ("TopicA", "TopicB", "TopicC")}
    for topic, found in expected.items():
        found += put_batch(store, topic, 0)
    store.dispatch()
    for topic in ("TopicA", "TopicB", "TopicB", "TopicA", "TopicC"):
        expected[topic] += put_batch(store, topic, 1, 2)
    with killed_at_write(writes):
        try:
            store.dispatch()
        except Killed:
            assert writes < 10
    stores.kill(store)
    store = stores.start(config)
    assert {topic: offsets(store, topic) for topic in expected} == expected
    index = store.index
    if index is not None:
        prefix = store.queue_table.topics["TopicB"].key_prefix
        found = index.query(prefix, b"U2", 9, 0, 1 << 62)[0]
        assert sorted(found) == expected["TopicB"][2::2]
    stores.close(store)


def test_batches_are_dispatched_together_up_to_the_limit(store, monkeypatch) -> None:
    calls = []
    monkeypatch.setattr(
        IndexService,
        "put_batch",
        lambda *args, put=IndexService.put_batch: calls.append(len(args[1])) or put(*args),
    )
    batches = [put_batch(store, topic, 1, 2, 3) for topic in ("TopicA", "TopicB", "TopicA")]
    store.reput.run(batches[2][2])
    assert (offsets(store)[1:], offsets(store, "TopicB")[1:]) == (batches[0], batches[1])
    store.dispatch()
    assert offsets(store)[1:] == batches[0] + batches[2]
    assert calls == [6, 3]


def test_a_gap_between_the_batches_of_a_queue_is_found(store) -> None:
    """The error makes dispatch add them one by one."""
    queue = store.queue_table.topics["TopicA"].queues[0]
    first = PendingBatch(queue, 1, [100, 110], [b""], 7, 0)
    blocks = PendingBlocks()
    entries = [
        blocks.add(block)
        for batch in (first, first._replace(queue_offset=3, offsets=[110, 120]))
        for block in batch_blocks(batch, lambda tags: 0)
    ]
    block = blocks.joined(entries, 120, 9, lambda tags: 0)
    assert block is not None
    with pytest.raises(ValueError, match="queue offset 3"):
        block.units()


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
