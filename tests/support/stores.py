"""Stores below one folder, checked when they are closed, and a disk whose calls fail."""

from pathlib import Path
from typing import Any

import msgspec

from broker.common.clock import ManualClock
from broker.common.config.properties import parse_properties
from broker.message.message import MessageExt
from broker.message.properties import decode_properties, encode_properties
from broker.store.config import MessageStoreConfig, from_properties
from broker.store.format.commitlog import Damage, LogRecord, scan_commitlog
from broker.store.logfile.disk import Disk
from broker.store.message_store import MessageExtBrokerInner, MessageStore

SMALL = MessageStoreConfig(
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=400,
    mapper_file_size_batch_consume_queue=230,
    max_hash_slot_num=20,
    max_index_num=50,
    max_message_size=3000,
    # The machine that runs the tests may be nearly full.
    disk_max_used_space_ratio=95,
)


def make_inner(
    topic: str = "TopicA", queue_id: int = 0, body: bytes = b"hello", **fields: Any
) -> MessageExtBrokerInner:
    """A message to store; ``properties`` may be a dict."""
    properties = fields.pop("properties", {})
    if isinstance(properties, dict):
        properties = encode_properties(properties)
    return MessageExtBrokerInner(
        topic,
        queue_id,
        body,
        properties,
        born_timestamp=1_700_000_000_000,
        born_host=bytes((10, 1, 2, 3, 0, 0, 0xD4, 0x31)),
        store_host=bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F)),
        **fields,
    )


class Stores:
    """Opens stores below one folder and closes them at the end of the test."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "store"
        self.clock = ManualClock()
        self.open: list[MessageStore] = []
        self.last_config = self.config()

    def config(self, **changes: Any) -> MessageStoreConfig:
        changes.setdefault("store_path_root_dir", str(self.root))
        return msgspec.structs.replace(SMALL, **changes)

    def load(self, config: MessageStoreConfig | None = None, **options: Any) -> MessageStore:
        """A store that has been loaded, not started; its report is ``store.report``."""
        options.setdefault("clock", self.clock)
        store = MessageStore(config or self.config(), **options)
        store.report = store.load()
        self.last_config = store.config
        self.open.append(store)
        return store

    def start(self, config: MessageStoreConfig | None = None, **options: Any) -> MessageStore:
        store = self.load(config, **options)
        store.start()
        return store

    def close(self, store: MessageStore) -> None:
        self.open.remove(store)
        store.shutdown()

    def reopen(self, store: MessageStore, **options: Any) -> MessageStore:
        self.close(store)
        return self.start(store.config, **options)

    def kill(self, store: MessageStore) -> None:
        """End a store as a kill does: nothing is flushed, ``abort`` stays, the lock is free."""
        self.open.remove(store)
        # Bytes written to mappings by a killed process stay in the page cache.
        store.halt()


def log_records(config: MessageStoreConfig) -> tuple[list[LogRecord], list[Damage]]:
    """Every record in the log of a closed store, and every damage, by the pure scanner."""
    records, damaged = [], []
    folder = Path(config.commit_log_folder)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        for found in scan_commitlog(path.read_bytes(), int(path.name)):
            if isinstance(found, LogRecord):
                records.append(found)
            elif isinstance(found, Damage):
                damaged.append(found)
    return records, damaged


def check_directory(config: MessageStoreConfig) -> None:
    """Open a closed store once more and compare every queue and key with the log.

    Each record between a queue's bounds has its unit, each unit its record; each key of a record
    finds it.
    """
    store = MessageStore(config, clock=ManualClock())
    store.load()
    try:
        check_store(store)
    finally:
        store.shutdown()


def check_store(store: MessageStore) -> None:
    """Compare queues and index of an open, dispatched store with its log."""
    held = set()
    for topic, queue_ids in store.queues().items():
        if topic.startswith("%LMQ%"):
            continue
        for queue_id in queue_ids:
            last = -1
            low = store.get_min_offset(topic, queue_id)
            high = store.get_max_offset(topic, queue_id)
            queue = store.queue_table.find(topic, queue_id)
            for offset in range(low, high):
                unit = queue.unit(offset)
                assert unit is not None, (topic, queue_id, offset)
                if unit[1] == 0x7FFFFFFF or store.is_damaged(unit[0]):
                    continue
                record = store.get_record_at(unit[0], unit[1])
                assert record is not None, (topic, queue_id, offset, unit)
                message = _decode(record)
                assert (message.topic, message.queue_id) == (topic, queue_id)
                if not queue.topic.batch:
                    assert message.queue_offset == offset
                    assert unit[0] > last
                last = unit[0]
                held.add(unit[0])
    if store.index is None or not store.index.files:
        return
    first = store.index.files[0].begin_physical_offset
    for physical_offset in held:
        message = _decode(store.get_record_at(physical_offset))
        names = decode_properties(message.properties_raw)
        keys = [names.get("UNIQ_KEY", ""), *names.get("KEYS", "").split(" ")]
        for key in filter(None, keys):
            if physical_offset < first:
                continue
            entry = store.queue_table.topic(message.topic)
            found = store.index.query(entry.key_prefix, key.encode(), 1 << 20, 0, 1 << 62)[0]
            assert physical_offset in found, (message.topic, key, physical_offset)


def _decode(record: memoryview | None) -> MessageExt:
    from broker.message.record import decode_record

    assert record is not None
    return decode_record(record, check_crc=True)


class FaultyDisk(Disk):
    """Fails chosen calls: ``fail[name]`` is an exception for each call of that method.

    ``calls`` lists (method, path or descriptor) of everything that can fail.
    """

    WATCHED = (
        "open",
        "set_size",
        "reserve",
        "map",
        "sync_data",
        "sync_folder",
        "write",
        "write_at",
        "rename",
        "link",
        "unlink",
        "make_folder",
        "remove_folder",
    )

    def __init__(self) -> None:
        self.fail: dict[str, Exception] = {}
        self.calls: list[str] = []
        # Fail the n-th call of all (counted from 1), once.
        self.fail_call = 0
        self.failed_call = ""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name not in FaultyDisk.WATCHED:
            return value

        def call(*args: Any, **options: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) == self.fail_call:
                self.failed_call = name
                raise OSError(5, f"call {self.fail_call} ({name}) fails")
            if name in self.fail:
                raise self.fail[name]
            return value(*args, **options)

        return call


class RecordedStore:
    """A store directory of a Java broker, and the messages that the Java clients received."""

    def __init__(self, name: str, folder: Path, expect: dict[str, Any]) -> None:
        self.name = name
        self.folder = folder
        self.expect = expect

    def config(self, part: str = "store", conf: str = "broker.conf") -> MessageStoreConfig:
        properties = parse_properties((self.folder / conf).read_text())
        root = self.folder / part
        properties["storePathRootDir"] = str(root)
        properties["storePathCommitLog"] = str(root / "commitlog")
        return from_properties(properties)

    @property
    def root(self) -> Path:
        return self.folder / ("store" if (self.folder / "store").is_dir() else "master")
