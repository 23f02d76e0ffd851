"""Stores for the tests of the pipeline: hand-made CommitLogs, live stores, expected rows."""

import base64
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import encode_record
from broker.store.config import MessageStoreConfig
from broker.store.format.commitlog import encode_blank, file_name, fits
from broker.store.message_store import MessageExtBrokerInner, MessageStore
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query

NOW = 1_700_000_000_000
BORN_HOST = bytes((10, 1, 2, 3, 0, 0, 0xD4, 0x31))
STORE_HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))

MakeLog = Callable[..., "LogBuilder"]
MakeLiveStore = Callable[..., "LiveStore"]
Rows = list[dict[str, Any]]
DecodeStore = Callable[[Path], Rows]
Normalize = Callable[[Iterable[Any]], list[tuple[Any, ...]]]


class LogBuilder:
    """A CommitLog below ``root``; :meth:`put` appends messages directly to its files."""

    def __init__(self, root: Path, file_size: int = 4096, start: int = 0) -> None:
        self.root = root
        self.file_size = file_size
        self.end = start
        self.count = 0
        self.offsets: dict[tuple[str, int], int] = {}
        (root / "commitlog").mkdir(parents=True, exist_ok=True)

    def put(self, topic: str = "TopicA", queue_id: int = 0, **given: Any) -> int:
        """Append a message, rolling to the next file if needed; return its physical offset.

        Further arguments are fields of MessageExt; a property of None removes a default one.
        """
        queue_offset = self.offsets.get((topic, queue_id), 0)
        number = self.count
        fields = {
            "queue_id": queue_id,
            "queue_offset": queue_offset,
            "store_timestamp": NOW + number * 1000,
            "born_timestamp": NOW + number * 1000 - 5,
            "born_host_raw": BORN_HOST,
            "store_host_raw": STORE_HOST,
            **given,
        }
        properties = {
            "KEYS": f"key{number}",
            "TAGS": "TagA",
            "UNIQ_KEY": f"{number:032X}",
            **fields.pop("properties", {}),
        }
        body = fields.pop("body", b"body %d" % number + b"." * (40 + number % 90))
        properties = {name: value for name, value in properties.items() if value is not None}
        message = MessageExt(topic, body, encode_properties(properties), **fields)
        size = len(encode_record(message))
        left = self.file_size - self.end % self.file_size
        if not fits(size, left):
            self.write(self.end, encode_blank(left))
            self.end += left
        message.physical_offset = self.end
        self.write(self.end, encode_record(message))
        self.end += size
        self.count += 1
        self.offsets[topic, queue_id] = queue_offset + 1
        return message.physical_offset

    def write(self, physical_offset: int, data: bytes) -> None:
        """Overwrite bytes of the log."""
        path = self.file(physical_offset)
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(self.file_size)
        with path.open("r+b") as file:
            file.seek(physical_offset % self.file_size)
            file.write(data)

    def file(self, physical_offset: int) -> Path:
        """Return the file that contains a physical offset."""
        start = physical_offset - physical_offset % self.file_size
        return self.root / "commitlog" / file_name(start)


class LiveStore:
    """A store written by the broker's store engine."""

    def __init__(self, root: Path, file_size: int = 1 << 16) -> None:
        self.root = root
        self.count = 0
        self._store = MessageStore(
            MessageStoreConfig(
                store_path_root_dir=str(root),
                mapped_file_size_commit_log=file_size,
                mapped_file_size_consume_queue=2000,
                max_hash_slot_num=100,
                max_index_num=400,
                max_message_size=min(file_size // 2, 1 << 20),
                disk_max_used_space_ratio=95,
            )
        )
        self._store.load()
        self._store.start()

    def put(self, count: int = 1, size: int = 100, topic: str = "Live") -> list[int]:
        """Store messages with numbered bodies of ``size`` bytes; return the physical offsets."""
        physical_offsets = []
        for _ in range(count):
            body = b"%010d" % self.count
            result = self._store.put_message(
                MessageExtBrokerInner(
                    topic,
                    self.count % 4,
                    body.ljust(size, b"."),
                    encode_properties({"KEYS": f"k{self.count}", "UNIQ_KEY": f"{self.count:032X}"}),
                    born_timestamp=NOW,
                    born_host=BORN_HOST,
                    store_host=STORE_HOST,
                )
            )
            assert result.status.name == "PUT_OK", result.remark
            physical_offsets.append(result.physical_offset)
            self.count += 1
        return physical_offsets

    def shutdown(self) -> None:
        """Stop the store engine."""
        self._store.shutdown()


def as_time(ms: int) -> datetime:
    """Return epoch ms as Spark and Arrow return times."""
    return datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)


def decode_store(path: Path) -> Rows:
    """Decode a store record by record; the rows have the columns of ``rocketmq-store``."""
    directory = StoreDirectory(path)
    store = str(directory.root or directory.path)
    return [
        _columns_of(row, store)
        for row in message_rows(directory, Query(body="base64"))
        if not hasattr(row, "suggestion")  # a damaged region
    ]


def _columns_of(row: Any, store: str) -> dict[str, Any]:
    properties = row.properties
    return {
        "topic": row.topic,
        "queue_id": row.queue_id,
        "queue_offset": row.queue_offset,
        "physical_offset": row.physical_offset,
        "size": row.store_size,
        "sys_flag": row.sys_flag,
        "flag": row.flag,
        "born_time": as_time(row.born_timestamp),
        "born_host": row.born_host,
        "store_time": as_time(row.store_timestamp),
        "store_host": row.store_host,
        "reconsume_times": row.reconsume_times,
        "prepared_offset": row.prepared_transaction_offset,
        "body_crc": row.body_crc,
        "body_len": row.body_size,
        "body": base64.b64decode(row.body or ""),
        "crc_ok": row.crc_ok,
        "tags": row.tags,
        "keys": properties.get("KEYS"),
        "uniq_key": row.uniq_key,
        "offset_msg_id": row.offset_msg_id,
        "store": store,
    }


def normalize(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return rows (dicts, Spark rows, Arrow batches) as sorted tuples that can be compared.

    Times lose their zone. ``properties`` is omitted: Spark returns the stored string.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.astimezone(UTC).replace(tzinfo=None)
        return bytes(value) if isinstance(value, bytearray) else value

    found = []
    for row in rows:
        for one in row.to_pylist() if hasattr(row, "to_pylist") else [row]:
            fields = one.asDict() if hasattr(one, "asDict") else dict(one)
            fields.pop("properties", None)
            found.append(tuple(sorted((name, plain(value)) for name, value in fields.items())))
    return sorted(found, key=repr)


def read_export(out: Path) -> Rows:
    """Return all rows of a Parquet export, with the topic from the path."""
    rows: Rows = []
    for path in sorted(out.glob("dt=*/topic=*/*.parquet")):
        topic = unquote(path.parent.name.removeprefix("topic="))
        day = path.parent.parent.name.removeprefix("dt=")
        for row in pq.ParquetFile(path).read().to_pylist():
            assert row["store_time"].strftime("%Y-%m-%d") == day
            rows.append({"topic": topic, **row})
    return rows
