"""Scripted runs of a store on the simulated disk, and the checks after a cut."""

import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec

from broker.common.clock import ManualClock
from broker.message.properties import encode_properties
from broker.message.record import decode_record
from broker.store.config import MessageStoreConfig
from broker.store.config_file import ConfigFile
from broker.store.message_store import (
    GetMessageStatus,
    MessageExtBrokerInner,
    MessageStore,
    PutMessageStatus,
)
from tests.support.simulated_disk import Cutter, SimDisk

ROOT = "/sim/store"


ENGINE = os.sep + os.path.join("broker", "store") + os.sep


CONFIG = MessageStoreConfig(
    store_path_root_dir=ROOT,
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=16,
    max_index_num=40,
    max_message_size=3000,
    file_reserved_time=1,
    disk_max_used_space_ratio=95,
)


class InlineWorker:
    """The worker without a thread: jobs run at once, timers when the script fires them."""

    def __init__(
        self, name: str, on_error: Callable[[Exception], None], on_died: Callable[[str], None]
    ) -> None:
        self._on_error = on_error
        self._timers: list[Callable[[], None]] = []
        self._running = False

    def start(self) -> None:
        self._running = True

    def run(self, job: Callable[[], None]) -> None:
        if self._running:
            try:
                job()
            except Exception as error:
                self._on_error(error)

    def run_later(self, delay_ms: float, job: Callable[[], None]) -> None:
        self._timers.append(job)

    def fire(self) -> None:
        timers, self._timers = self._timers, []
        for job in timers:
            self.run(job)

    def stop(self) -> None:
        self._running = False

    def drain(self) -> None:
        pass


class Acked:
    """One acknowledged message: where it was stored."""

    def __init__(self, topic: str, queue_id: int, offset: int, physical: int, body: bytes) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.offset = offset
        self.physical = physical
        self.body = body

    def __repr__(self) -> str:
        return f"{self.topic}/{self.queue_id}:{self.offset}@{self.physical}"


class Script:
    """A seeded run of operations over a SimDisk; its journal has a mark per acknowledgement."""

    def __init__(self, disk: SimDisk, rng: random.Random, flush: str, **changes: Any) -> None:
        self.disk = disk
        self.rng = rng
        self.config = msgspec.structs.replace(CONFIG, flush_disk_type=flush, **changes)
        self.sync = self.config.sync_flush
        self.clock = ManualClock()
        self.number = 0
        self.statuses: Counter[PutMessageStatus] = Counter()
        self.unflushed: list[Acked] = []
        self.store: MessageStore | None = None
        self.topics_json = ConfigFile(f"{ROOT}/config/topics.json", disk)
        self.versions = 0

    def open(self) -> MessageStore:
        self.store = MessageStore(self.config, clock=self.clock, disk=self.disk)
        self.store.load()
        self.store.start()
        self.disk.mark("opened")
        return self.store

    def step(self) -> None:
        rng = self.rng
        roll = rng.random()
        self.clock.advance(rng.randrange(200))
        if roll < 0.55:
            self.put(rng.choice((1, 1, 1, 3)))
        elif roll < 0.75:
            self.flush()
        elif roll < 0.85:
            self.store.worker.fire()
        elif roll < 0.90:
            self.save_config()
        elif roll < 0.93:
            self.delete_topic()
        elif roll < 0.96:
            self.clean()
        else:
            self.restart()

    def inner(self, topic: str, queue_id: int, body: bytes) -> MessageExtBrokerInner:
        keys = {"KEYS": f"k{self.number}", "TAGS": f"t{self.number % 3}"}
        return MessageExtBrokerInner(topic, queue_id, body, encode_properties(keys))

    def put(self, count: int = 1) -> None:
        rng, store = self.rng, self.store
        topic, queue_id = f"T{rng.randrange(3)}", rng.randrange(2)
        inners = []
        for _ in range(count):
            self.number += 1
            size = rng.choice((0, 20, 300, 900))
            inners.append(self.inner(topic, queue_id, b"%06d" % self.number + bytes([7]) * size))
        results = [store.put_message(inners[0])] if count == 1 else store.put_messages(inners)
        for inner, result in zip(inners, results, strict=False):
            self.statuses[result.status] += 1
            if result.status is not PutMessageStatus.PUT_OK:
                continue
            acked = Acked(topic, queue_id, result.queue_offset, result.physical_offset, inner.body)
            self.disk.mark("put", acked)
            if self.sync:
                store.await_flush(result.physical_end, self._answer(acked))
            else:
                self.unflushed.append(acked)

    def _answer(self, acked: Acked) -> Callable[[PutMessageStatus], None]:
        def answer(status: PutMessageStatus) -> None:
            self.statuses[status] += 1
            if status is PutMessageStatus.PUT_OK:
                self.disk.mark("acked", acked)

        return answer

    def flush(self) -> None:
        store = self.store
        if self.sync:
            store.flusher.serve_waiting()
            store.dispatch()
            return
        covered, self.unflushed = self.unflushed, []
        if store.flush():
            for acked in covered:
                self.disk.mark("acked", acked)

    def save_config(self) -> None:
        self.versions += 1
        topics = ",".join(f'"T{n}":{{"topicName":"T{n}"}}' for n in range(3))
        text = f'{{"topicConfigTable":{{{topics}}},"version":{self.versions}}}'
        self.topics_json.persist(text)
        self.disk.mark("config", self.versions)

    def delete_topic(self) -> None:
        topic = f"T{self.rng.randrange(3)}"
        self.disk.mark("deleting", topic, self.store.max_physical_offset)
        self.store.delete_topics([topic])
        self.unflushed = [acked for acked in self.unflushed if acked.topic != topic]

    def clean(self) -> None:
        if len(self.store.log.files.files) > 4:
            self.flush()
            limit = self.store.log.files.files[1].start
            self.disk.mark("cleaning", limit)
            config = self.store.config
            self.store.set_config(msgspec.structs.replace(config, delete_file_batch_max=1))
            self.store.clean_expired(self.clock.now_ms() + 10**11, manual=True)
            self.store.set_config(config)

    def restart(self) -> None:
        store, self.store = self.store, None
        store.shutdown()
        covered, self.unflushed = self.unflushed, []
        for acked in () if store.flusher.failed else covered:
            self.disk.mark("acked", acked)
        self.open()


class Tracer:
    """Looks at the mapped files after every line that the engine runs."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk

    def __enter__(self) -> "Tracer":
        self._disk.recording = True
        self._before = sys.gettrace()  # of coverage.py, if it measures this run
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        self._disk.capture()

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if ENGINE in frame.f_code.co_filename else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._disk.capture()
        return self._line


class ExpectedStore:
    """The state that a store must have after a cut, built from the marks before it."""

    def __init__(self, marks: list[tuple[Any, ...]], *, killed: bool) -> None:
        self.acked: dict[tuple[str, int, int], Acked] = {}
        self.log_min = 0
        # Topic to the end of the log at its last deletion: older messages belong to no queue.
        deleted: dict[str, int] = {}
        self.config = 0
        kinds = ("acked", "put") if killed else ("acked",)
        for kind, *rest in marks:
            if kind in kinds:
                acked = rest[0]
                if acked.physical < deleted.get(acked.topic, 0):
                    continue
                self.acked[acked.topic, acked.queue_id, acked.offset] = acked
            elif kind == "deleting":
                deleted[rest[0]] = rest[1]
                self.acked = {k: v for k, v in self.acked.items() if v.topic != rest[0]}
            elif kind == "cleaning":
                self.log_min = rest[0]
            elif kind == "config":
                self.config = rest[0]

    def check(self, store: MessageStore) -> None:
        """Every acknowledged message is in its queue, in the log and under its key."""
        for acked in self.acked.values():
            if acked.physical < self.log_min:
                continue
            found = store.get_message(acked.topic, acked.queue_id, acked.offset, 1)
            assert found.status is GetMessageStatus.FOUND, (acked, found.status, found.min_offset)
            message = decode_record(found.buffers[0], check_crc=True)
            assert (message.queue_offset, message.body) == (acked.offset, acked.body), acked
            assert store.get_record_at(acked.physical) is not None, acked
            if store.index is not None:
                key = f"k{int(acked.body[:6])}"
                # Messages of a batch share the counter of the last one.
                hits = store.query_message(acked.topic, _key_of(message, key), 64, 0, 1 << 62)
                bodies = [bytes(decode_record(buffer).body) for buffer in hits.buffers]
                assert acked.body in bodies, (acked, key, len(bodies))


def _key_of(message: Any, default: str) -> str:
    return message.keys[0] if message.keys else default


def reopen(disk: SimDisk, config: MessageStoreConfig) -> MessageStore:
    store = MessageStore(config, clock=ManualClock(1_800_000_000_000), disk=disk)
    store.report = store.load()
    store.start()
    return store


def survive(
    disk: SimDisk, config: MessageStoreConfig, expected: ExpectedStore, *, again: bool = True
) -> MessageStore:
    """Open the remaining files, check the expected state, continue, stop, reopen, check again."""
    store = reopen(disk, config)
    expected.check(store)
    check_derived(store)
    taken = {}
    for queue_id in range(2):
        inner = MessageExtBrokerInner(
            "T0", queue_id, b"000000new", encode_properties({"KEYS": "new"})
        )
        result = store.put_message(inner)
        assert result.status is PutMessageStatus.PUT_OK, result
        assert ("T0", queue_id, result.queue_offset) not in expected.acked, "offset given twice"
        taken[queue_id] = result.queue_offset
    assert store.flush()
    store.shutdown()
    if again:
        store = reopen(disk, config)
        assert store.report.clean
        expected.check(store)
        for queue_id, offset in taken.items():
            found = store.get_message("T0", queue_id, offset, 1)
            assert decode_record(found.buffers[0]).body == b"000000new"
        store.shutdown()
    return store


def check_derived(store: MessageStore) -> None:
    """Every unit of every queue refers to the record at its place."""
    for topic, queue_ids in store.queues().items():
        for queue_id in queue_ids:
            queue = store.queue_table.find(topic, queue_id)
            for offset in range(store.get_min_offset(topic, queue_id), queue.max_offset):
                unit = queue.unit(offset)
                assert unit is not None, (topic, queue_id, offset)
                if any(start <= unit[0] < end for start, end in store.reader.damaged):
                    continue  # its head is whole, its body is not: readers are kept from it
                record = store.get_record_at(unit[0], unit[1])
                assert record is not None, (topic, queue_id, offset, unit)
                message = decode_record(record)
                assert (message.topic, message.queue_id) == (topic, queue_id)
                # In a hole left by damage units refer to the record after it.
                assert message.queue_offset >= offset, (topic, queue_id, offset)


class Sim:
    """Names used by the tests of this folder."""

    Disk = SimDisk
    Script = Script
    Tracer = Tracer
    Cutter = Cutter
    ExpectedStore = ExpectedStore
    survive = staticmethod(survive)
    reopen = staticmethod(reopen)
    check_derived = staticmethod(check_derived)
    config = CONFIG
    root = ROOT
