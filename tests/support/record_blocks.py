"""Blocks of records as vectorized ingest makes them, made here message by message."""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from broker.message.batch import encode_batch_item
from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.block import QueueUnits, RecordBlock
from broker.store.dispatch.request import PendingRecord
from broker.store.encoded_batch import EncodedBatch, Place
from broker.store.format.consumequeue import UNIT_STRUCT, peek_tags, tags_code
from broker.store.format.indexfile import peek_message_keys
from broker.store.index.index_service import IndexService
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner


def append_block(store: MessageStore, inners: Sequence[MessageExtBrokerInner]) -> RecordBlock:
    """Append messages of existing queues as one block; AssertionError if the store takes none."""
    destination = store.blocks.destination(store.clock.now_ms())
    assert destination is not None
    stamp = destination.store_timestamp
    data = bytearray()
    entries: list[PendingRecord] = []
    units: dict[ConsumeQueue, list[bytes]] = {}
    counts = Counter((inner.topic, inner.queue_id) for inner in inners)
    for inner in inners:
        place = inner.topic, inner.queue_id
        queue = store.blocks.queue(*place, counts[place])
        assert queue is not None
        own = units.setdefault(queue, [])
        offset, physical_offset = queue.next_offset + len(own), destination[0] + len(data)
        shared = replace(inner, body=b"", properties=b"")
        batch = EncodedBatch(queue.topic, shared, Place(physical_offset, offset, stamp), 1 << 20)
        for _ in batch.encode_items(encode_batch_item(0, inner.body, inner.properties)):
            pass
        code = tags_code(peek_tags(inner.properties))
        own.append(UNIT_STRUCT.pack(physical_offset, len(batch.data), code))
        size = len(batch.data)
        entries.append((physical_offset, size, stamp, 0, offset, queue, inner.properties, code))
        data += batch.data
    assert len(data) <= destination.capacity

    def put_keys(index: IndexService) -> None:
        for physical_offset, _, _, _, _, queue, properties, _ in entries:
            keys = peek_message_keys(properties)
            index.put_keys(queue.topic.key_prefix, keys, physical_offset, stamp)

    last = {entry[5]: entry[0] + entry[1] for entry in entries}
    packed = [
        QueueUnits(queue, queue.next_offset, b"".join(own), last[queue])
        for queue, own in units.items()
    ]
    block = RecordBlock(
        destination.physical_offset,
        destination.physical_offset + len(data),
        stamp,
        len(entries),
        list(units),
        lambda: packed,
        lambda: entries,
        put_keys,
    )
    taken = [(queue, len(own)) for queue, own in units.items()]
    store.blocks.append(bytes(data), block, taken)
    return block
