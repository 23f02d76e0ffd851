"""Repeated power cuts of one store: each start recovers from a disk that the previous cut left."""

import random

import msgspec
import pytest

from broker.common.clock import ManualClock
from broker.message.properties import encode_properties
from broker.message.record import decode_record, scan_records
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageExtBrokerInner, MessageStore, PutMessageStatus
from tests.support.simulated_disk import Cutter, SimDisk

pytestmark = pytest.mark.crash

CONFIG = MessageStoreConfig(
    store_path_root_dir="/store",
    mapped_file_size_commit_log=8192,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=20,
    max_index_num=60,
    max_message_size=3000,
    disk_max_used_space_ratio=95,
)


class Rounds:
    """A store that is opened, used and cut several times, and the messages it acknowledged."""

    def __init__(self, flush: str, rng: random.Random) -> None:
        self.config = msgspec.structs.replace(CONFIG, flush_disk_type=flush)
        self.rng = rng
        self.clock = ManualClock()
        self.disk = SimDisk()
        self.disk.recording = True
        # The disk after the last cut: the journal of the current one starts there.
        self.base: SimDisk | None = None
        self.number = 0
        self.sent: dict[int, tuple[int, int]] = {}
        self.acknowledged: dict[int, tuple[int, int]] = {}

    def open(self) -> MessageStore:
        store = MessageStore(self.config, disk=self.disk, clock=self.clock)
        store.load()
        store.start()
        return store

    def put(self, store: MessageStore, *, flush: bool) -> None:
        rng = self.rng
        for _ in range(rng.randrange(1, 5)):
            self.clock.advance(rng.randrange(2000))
            number = self.number
            self.number += 1
            body = b"%08d" % number + bytes(rng.randrange(700))
            properties = encode_properties({"KEYS": f"k{number}", "TAGS": f"t{number % 3}"})
            inner = MessageExtBrokerInner("TopicA", number % 4, body, properties)
            result = store.put_message(inner)
            assert result.status is PutMessageStatus.PUT_OK
            self.sent[number] = (number % 4, result.queue_offset)
        if flush and store.flush():
            self.acknowledged.update(self.sent)
            self.sent.clear()

    def cut(self) -> None:
        """Cut the power. Unacknowledged messages may be lost, and their queue offsets reused."""
        self.sent.clear()
        self.disk.capture()
        cutter = Cutter(self.disk.journal, self.base)
        cutter.advance(len(self.disk.journal))
        self.disk = cutter.cut(self.rng, self.rng.choice((0, 0.3, 0.7)))
        self.base = self.disk.copy()
        self.disk.recording = True


def read_all(store: MessageStore) -> dict[int, tuple[int, int]]:
    found = {}
    for queue_id in store.queues().get("TopicA", ()):
        offset = max(0, store.get_min_offset("TopicA", queue_id))
        while offset < store.get_max_offset("TopicA", queue_id):
            result = store.get_message("TopicA", queue_id, offset)
            for buffer in result.buffers:
                for message in scan_records(buffer, check_crc=True):
                    number = int(message.body[:8])
                    assert number not in found
                    found[number] = (queue_id, message.queue_offset)
            assert result.next_begin_offset > offset
            offset = result.next_begin_offset
    return found


def by_key(store: MessageStore, number: int) -> set[int]:
    result = store.query_message("TopicA", f"k{number}", 64, 0, 1 << 62)
    return {int(decode_record(buffer).body[:8]) for buffer in result.buffers}


@pytest.mark.parametrize("run", range(12))
def test_sync_flush_loses_nothing_acknowledged(rng, run):
    rounds = Rounds("SYNC_FLUSH", rng)
    for _ in range(6):
        store = rounds.open()
        assert set(rounds.acknowledged.items()) <= set(read_all(store).items())
        for number in rounds.acknowledged:
            assert number in by_key(store, number)
        for _ in range(rng.randrange(30)):
            rounds.put(store, flush=rng.random() < 0.8)
            if rng.random() < 0.1:
                store.worker.fire()
        if rng.random() < 0.2:
            store.shutdown()
        else:
            rounds.cut()


@pytest.mark.parametrize("run", range(6))
def test_async_flush_keeps_flushed_data_and_always_opens(rng, run):
    rounds = Rounds("ASYNC_FLUSH", rng)
    for _ in range(6):
        store = rounds.open()
        assert set(rounds.acknowledged.items()) <= set(read_all(store).items())
        for _ in range(rng.randrange(30)):
            rounds.put(store, flush=rng.random() < 0.2)
            if rng.random() < 0.1:
                store.worker.fire()
        rounds.cut()
