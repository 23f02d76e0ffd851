"""Power cuts on a simulated disk: acknowledged messages are there, and the store always opens."""

import pytest

from broker.message.record import decode_record
from broker.store.message_store import MessageStore, PutMessageStatus

pytestmark = pytest.mark.crash


class Ran:
    """A store on a simulated disk with its acknowledged messages."""

    def __init__(self, disk, config, clock) -> None:
        self.disk = disk
        self.config = config
        self.clock = clock
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.number = 0
        self.store: MessageStore | None = None

    def open(self) -> MessageStore:
        self.store = MessageStore(self.config, disk=self.disk, clock=self.clock)
        self.store.report = self.store.load()
        self.store.start()
        return self.store

    def abandon(self) -> None:
        """Stop the threads of a store whose disk is gone."""
        store = self.store
        store.flusher.stop()
        store.worker.stop()

    def put(self, message, rng, *, flush) -> None:
        for _ in range(rng.randrange(1, 5)):
            self.clock.advance(rng.randrange(2000))
            number = self.number
            self.number += 1
            result = self.store.put_message(message(number, rng))
            if result.status is not PutMessageStatus.PUT_OK:
                return
            self.sent[number] = (number % 4, result.queue_offset)
        if flush and self.store.flush():
            self.acknowledged.update(self.sent)
            self.sent.clear()


def read_all(store):
    found = {}
    for queue_id in store.queues().get("TopicA", ()):
        offset = max(0, store.get_min_offset("TopicA", queue_id))
        while offset < store.get_max_offset("TopicA", queue_id):
            result = store.get_message("TopicA", queue_id, offset)
            for buffer in result.buffers:
                position = 0
                while position < len(buffer):
                    message = decode_record(buffer, position, check_crc=True)
                    number = int(message.body[:8])
                    assert number not in found
                    found[number] = (queue_id, message.queue_offset)
                    position += message.total_size
            assert result.next_begin_offset > offset
            offset = result.next_begin_offset
    return found


def by_key(store, number):
    result = store.query_message("TopicA", f"k{number}", 64, 0, 1 << 62)
    return {int(decode_record(buffer).body[:8]) for buffer in result.buffers}


@pytest.mark.parametrize("run", range(12))
def test_sync_flush_loses_nothing_acknowledged(simulated, small, message, rng, run):
    from broker.common.clock import ManualClock

    disk = simulated()
    ran = Ran(disk, small("/store", flush_disk_type="SYNC_FLUSH"), ManualClock())
    ran.sent = {}
    for _ in range(6):
        store = ran.open()
        found = read_all(store)
        assert set(ran.acknowledged.items()) <= set(found.items())
        for number in ran.acknowledged:
            assert number in by_key(store, number)
        for _ in range(rng.randrange(30)):
            ran.put(message, rng, flush=rng.random() < 0.8)
            if rng.random() < 0.1:
                store.queue_flush.sync(thorough=True)
                store.checkpoint.flush()
        if rng.random() < 0.2:
            store.shutdown()
            continue
        # Not acknowledged: may be there or not, and its queue offset may be given out again.
        ran.sent.clear()
        ran.abandon()
        disk.cut(rng)


@pytest.mark.parametrize("run", range(6))
def test_async_flush_keeps_flushed_data_and_always_opens(simulated, small, message, rng, run):
    from broker.common.clock import ManualClock

    disk = simulated()
    ran = Ran(disk, small("/store"), ManualClock())
    ran.sent = {}
    for _ in range(6):
        store = ran.open()
        found = read_all(store)
        assert set(ran.acknowledged.items()) <= set(found.items())
        for _ in range(rng.randrange(30)):
            ran.put(message, rng, flush=rng.random() < 0.2)
        ran.sent.clear()
        ran.abandon()
        disk.cut(rng)
