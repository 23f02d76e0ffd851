"""Store directories composed from the file formats alone, without a broker."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.common.topic import TopicConfig
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import encode_record
from broker.store.format.checkpoint import Checkpoint, encode_checkpoint
from broker.store.format.commitlog import encode_blank, file_name, fits
from broker.store.format.config import TOPICS, TopicsFile, encode_topics
from broker.store.format.consumequeue import decode_unit, tags_code
from broker.store.format.indexfile import (
    IndexEntry,
    IndexHeader,
    encode_header,
    entry_position,
    file_size,
    index_key_hash,
    message_keys,
    slot_position,
    time_diff_seconds,
)
from tests.support.store_units import encode_entry, encode_unit

NOW = 1_700_000_000_000


class MadeStore:
    """A store under ``root``: messages appended by :meth:`put`, files written by :meth:`write`.

    ``places`` lists (physical offset, size, file name) of each record in order.
    """

    def __init__(self, root: Path, file_size: int = 4096, start: int = 0) -> None:
        self.root = root
        self.file_size = file_size
        self.start = start
        self.log = bytearray()
        self.places: list[tuple[int, int]] = []
        self.queues: dict[tuple[str, int], list[bytes]] = {}
        self.keys: list[tuple[int, int, int]] = []  # physical offset, hash, storeTimestamp

    @property
    def end(self) -> int:
        return self.start + len(self.log)

    def put(self, topic: str = "TopicA", queue_id: int = 0, **fields: Any) -> int:
        """Append a message; its physical offset."""
        units = self.queues.setdefault((topic, queue_id), [])
        number = len(self.places)
        properties = {"KEYS": f"key{number}", "TAGS": "TagA", **fields.pop("properties", {})}
        given = {
            "queue_id": queue_id,
            "queue_offset": len(units),
            "store_timestamp": NOW + number * 1000,
            "born_timestamp": NOW + number * 1000 - 5,
            "born_host_raw": bytes((10, 1, 2, 3, 0, 0, 0xD4, 0x31)),
            "store_host_raw": bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F)),
            **fields,
        }
        body = given.pop("body", b"body %d" % number + b"." * (90 + number % 50))
        message = MessageExt(topic, body, encode_properties(properties), **given)
        size = len(encode_record(message))
        left = self.file_size - len(self.log) % self.file_size
        if not fits(size, left):
            self.log += encode_blank(left).ljust(left, b"\0")
        message.physical_offset = self.end
        self.log += encode_record(message)
        self.places.append((message.physical_offset, size))
        units.append(encode_unit(message.physical_offset, size, tags_code(properties.get("TAGS"))))
        for word in message_keys(properties.get("UNIQ_KEY"), properties.get("KEYS")):
            place = (message.physical_offset, index_key_hash(topic, word), message.store_timestamp)
            self.keys.append(place)
        return message.physical_offset

    def write(self, *, queues: bool = True, checkpoint: bool = True, spare: bool = True) -> Path:
        """Write the files of the store, with a pre-created empty log file if ``spare``."""
        log = self.root / "commitlog"
        log.mkdir(parents=True, exist_ok=True)
        whole = -(-len(self.log) // self.file_size) * self.file_size
        data = bytes(self.log).ljust(whole, b"\0")
        for at in range(0, len(data), self.file_size):
            (log / file_name(self.start + at)).write_bytes(data[at : at + self.file_size])
        if spare:
            (log / file_name(self.start + len(data))).write_bytes(bytes(self.file_size))
        for (topic, queue_id), units in self.queues.items() if queues else ():
            folder = self.root / "consumequeue" / topic / str(queue_id)
            folder.mkdir(parents=True, exist_ok=True)
            for first in range(0, len(units), 30):
                text = b"".join(units[first : first + 30]).ljust(600, b"\0")
                (folder / file_name(first * 20)).write_bytes(text)
        if checkpoint:
            (self.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(NOW, NOW, 0)))
        return self.root

    def write_index(self, *, slots: int = 32, capacity: int = 25) -> list[Path]:
        """Write the IndexFiles of all keys, ``capacity`` - 1 keys per file; returns their paths.

        The first entry of a file after a full one is relative to the endTimestamp of the full one,
        as in Java.
        """
        folder = self.root / "index"
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for number, first in enumerate(range(0, len(self.keys), capacity - 1)):
            keys = self.keys[first : first + capacity - 1]
            data = bytearray(file_size(slots, capacity))
            newest: dict[int, int] = {}
            for at, (physical, hashed, stored) in enumerate(keys, 1):
                seconds = time_diff_seconds(stored, keys[0][2])
                entry = IndexEntry(at, hashed, physical, seconds, newest.get(hashed % slots, 0))
                newest[hashed % slots] = at
                position = entry_position(at, slots)
                data[position : position + 20] = encode_entry(entry)
            for slot, at in newest.items():
                data[slot_position(slot) : slot_position(slot) + 4] = at.to_bytes(4, "big")
            (begin, _, begin_time), (end, _, end_time) = keys[0], keys[-1]
            data[:40] = encode_header(
                IndexHeader(begin_time, end_time, begin, end, len(newest), len(keys) + 1)
            )
            paths.append(folder / f"20231114221320{number:03d}")
            paths[-1].write_bytes(data)
        return paths

    def write_topics(self) -> Path:
        """Write topics.json with the topics of all queues; returns its path."""
        path = self.root / "config" / TOPICS
        path.parent.mkdir(parents=True, exist_ok=True)
        names = sorted({topic for topic, _ in self.queues})
        table = {name: TopicConfig(topic_name=name) for name in names}
        path.write_text(encode_topics(TopicsFile(topics=table)))
        return path

    def write_all(self) -> Path:
        """Write log, queues, index, checkpoint and topics.json; returns the root."""
        self.write()
        self.write_index()
        self.write_topics()
        return self.root

    def record_of(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int]:
        """Return physical offset and size of the record at a queue offset."""
        unit = decode_unit(self.queues[topic, queue_id][queue_offset])
        return unit.physical_offset, unit.size

    def unit_path(self, topic: str, queue_id: int, queue_offset: int) -> tuple[Path, int]:
        """Return the ConsumeQueue file of a queue offset, and the position in the file."""
        first = queue_offset // 30 * 30
        path = self.root / "consumequeue" / topic / str(queue_id) / file_name(first * 20)
        return path, (queue_offset - first) * 20

    def poke_unit(self, topic: str, queue_id: int, queue_offset: int, data: bytes) -> Path:
        """Overwrite bytes of a unit, from its first byte; returns the file."""
        path, at = self.unit_path(topic, queue_id, queue_offset)
        poke(path, at, data)
        return path

    def file_of(self, physical_offset: int) -> tuple[Path, int]:
        """The file that holds a physical offset, and the position in it."""
        at = (physical_offset - self.start) % self.file_size
        return self.root / "commitlog" / file_name(physical_offset - at), at

    def poke(self, physical_offset: int, change: Callable[[bytes], bytes] | bytes) -> None:
        """Change written bytes of the log."""
        path, at = self.file_of(physical_offset)
        data = bytearray(path.read_bytes())
        new = change if isinstance(change, bytes) else change(bytes(data[at:]))
        data[at : at + len(new)] = new
        path.write_bytes(data)

    def flip(self, physical_offset: int, mask: int = 1) -> None:
        """Turn bits of one byte of the log over."""
        self.poke(physical_offset, lambda data: bytes([data[0] ^ mask]))


def poke(path: Path, position: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    whole = bytearray(path.read_bytes())
    whole[position : position + len(data)] = data
    path.write_bytes(whole)


def fingerprint(folder: Path) -> dict[str, Any]:
    """Everything about a folder that reading must not change: names, bytes, sizes, times."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        status = os.lstat(path)
        kept = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (*kept, content)
    return found


def segment(
    gen: int,
    broker: str,
    *,
    queue: int = 0,
    logic: int = 0,
    start: int = 0,
    end: int = -1,
) -> dict[str, object]:
    """A segment of a static topic as in topicQueueMapping.json."""
    return {
        "gen": gen, "queueId": queue, "bname": broker, "logicOffset": logic,
        "startOffset": start, "endOffset": end, "timeOfStart": -1, "timeOfEnd": -1,
    }  # fmt: skip


def mapping_file(**topics: dict[int, list[dict[str, object]]]) -> str:
    """topicQueueMapping.json of the broker "this": topic → logical queue → segments."""
    table = {
        topic: {
            "topic": topic, "bname": "this", "scope": "__global__", "totalQueues": len(queues),
            "epoch": 1000, "dirty": False, "hostedQueues": queues,
        }
        for topic, queues in topics.items()
    }  # fmt: skip
    version = {"counter": 1, "stateVersion": 0, "timestamp": NOW}
    return json.dumps({"dataVersion": version, "topicQueueMappingInfoMap": table})
