"""BlockWriter: the same files as puts, and no block where a put could be refused."""

import struct
from pathlib import Path

import pytest

from broker.message.properties import encode_properties
from broker.message.record import decode_record
from broker.store.consumequeue.consume_queue import Topic
from broker.store.message_store import MessageStore
from tests.support.record_blocks import append_block
from tests.support.stores import Stores, make_inner


def message(number: int, topic: str = "TopicA"):
    properties = {"UNIQ_KEY": f"U{number}", "TAGS": f"T{number % 3}", "KEYS": f"k{number} x"}
    return make_inner(
        topic, number % 2, b"body %d" % number, properties=encode_properties(properties)
    )


def contents(store: MessageStore) -> dict[str, bytes]:
    """Bytes of the files; a worker creates the next log file at some time, which does not count."""
    root = Path(store.config.root)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for kind in ("commitlog", "consumequeue", "index")
        for path in sorted((root / kind).rglob("*"))
        if path.is_file() and (kind != "commitlog" or int(path.name) <= store.log.max_offset)
    }


@pytest.fixture
def pair(tmp_path: Path):
    """Two equal stores with the queues of TopicA."""
    made = [Stores(tmp_path / name) for name in ("one", "other")]
    pair = [
        stores.start(
            stores.config(
                mapped_file_size_commit_log=1 << 16, max_hash_slot_num=50, max_index_num=300
            ),
            defer=lambda call: None,
        )
        for stores in made
    ]
    for store in pair:
        store.put_message(message(0))
        store.put_message(message(1))
        store.dispatch()
    yield pair
    for stores in made:
        for store in list(stores.open):
            stores.close(store)


def test_a_block_leaves_the_bytes_of_its_puts(pair) -> None:
    one, other = pair
    for start in range(2, 62, 20):
        messages = [message(number) for number in range(start, start + 20)]
        for inner in messages:
            one.put_message(inner)
        append_block(other, messages)
        one.put_message(message(start))
        other.put_message(message(start))
        one.dispatch()
        other.dispatch()
    assert contents(one) == contents(other)
    assert one.writer.put_count == other.writer.put_count
    assert one.writer.put_bytes == other.writer.put_bytes
    assert one.reput.offset == other.reput.offset == other.log.max_offset


def test_store_timestamps_never_decrease(pair) -> None:
    store = pair[0]
    latest = store.log.last_store_timestamp
    assert store.blocks.destination(latest - 5).store_timestamp == latest
    assert store.blocks.destination(latest + 5).store_timestamp == latest + 5


def test_the_space_of_the_current_file_is_the_capacity(pair) -> None:
    store = pair[0]
    place = store.blocks.destination(0)
    assert place.physical_offset == store.log.max_offset
    room = store.log.file_size - place.physical_offset
    assert 0 < place.capacity < room
    with pytest.raises(ValueError, match="bytes of records"):
        store.log.append_encoded(bytes(place.capacity + 1), 0)
    assert store.log.max_offset == place.physical_offset


def test_a_block_after_a_put_that_failed_in_a_new_file_has_the_offsets_of_that_file(pair) -> None:
    one, other = pair
    broken = message(2)
    broken.body = bytes(2_900)
    for store in pair:
        while store.log.capacity > store.log.record_size(broken, Topic("TopicA")):
            store.put_message(broken)
        store.dispatch()
    broken.flag = 1 << 40
    for store in pair:
        with pytest.raises(struct.error):
            store.put_message(broken)
    assert [file.start for file in one.log.files.files] == [0, one.log.file_size]
    messages = [message(number) for number in range(3, 23)]
    for inner in messages:
        one.put_message(inner)
    append_block(other, messages)
    one.dispatch()
    other.dispatch()
    assert contents(one) == contents(other)
    assert one.reput.offset == other.reput.offset == other.log.max_offset
    last = other.get_max_offset("TopicA", 1) - 10
    (record,) = other.get_message("TopicA", 1, last, 1).buffers
    assert decode_record(bytes(record), check_crc=True).physical_offset == other.log.file_size


def test_refused_puts_have_no_destination(pair) -> None:
    store = pair[0]
    store.flags.fence("another broker is the master")
    assert store.blocks.destination(0) is None
    store.flags.unfence()
    assert store.blocks.destination(0) is not None


def test_a_block_in_a_store_with_light_queues_reaches_its_queue(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    store = stores.start(stores.config(enable_lmq=True, enable_multi_dispatch=True))
    store.put_message(message(0, "TopicA"))
    append_block(store, [message(0, "TopicA") for _ in range(3)])
    store.dispatch()
    assert store.get_max_offset("TopicA", 0) == 4
    stores.close(store)


def test_only_existing_plain_queues_take_blocks(pair) -> None:
    store = pair[0]
    blocks = store.blocks
    assert blocks.queue("TopicA", 0, 1) is not None
    assert blocks.queue("TopicA", 7, 1) is None
    assert blocks.queue("Unknown", 0, 1) is None
    store.put_message(message(0, "SCHEDULE_TOPIC_XXXX"))
    assert blocks.queue("SCHEDULE_TOPIC_XXXX", 0, 1) is None


def test_a_queue_has_space_for_the_whole_block(pair) -> None:
    store = pair[0]
    queue = store.blocks.queue("TopicA", 0, 5_000)
    assert queue.reserved_offset >= queue.next_offset + 5_000
