"""The column scanner equals the plain scanner, on valid and on corrupt logs."""

import itertools
import random
import struct
import zlib
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="the column scanner needs the extra 'fast'")

from broker.message.message import MessageExt  # noqa: E402
from broker.message.properties import decode_properties  # noqa: E402
from broker.message.record import MAGIC_V1, MAGIC_V2, encode_record  # noqa: E402
from broker.store.format.commitlog import (  # noqa: E402
    Damage,
    LogRecord,
    encode_blank,
    scan_commitlog,
)
from broker.store.format.vectorized import columns  # noqa: E402
from broker.store.format.vectorized.loops import compiled  # noqa: E402

BASE = 1 << 20


def record(rng: random.Random, position: int) -> bytes:
    """One record as a broker would write it, of a random kind."""
    v2 = rng.random() < 0.2
    flag = rng.choice([0, 0, 0x10, 0x20, 0x30])
    body = rng.randbytes(rng.choice([0, 1, 15, 16, 17, 100, 900]))
    topic = rng.choice([b"TopicA", b"%RETRY%g", "主题".encode(), b"T" * 120])
    pieces = [
        rng.choice([b"TAGS\x01a", b"TAGS\x01", b"TAGS", "TAGS\x01标签".encode(), b"tAGS\x01x"]),
        rng.choice([b"KEYS\x01k1 k2", b"\x01v", b"KEYS\x01a\x01b", b"X\x01y"]),
        rng.choice([b"UNIQ_KEY\x01" + b"A" * 32, b"", b"UNIQ_KEY\x01first\x02UNIQ_KEY\x01last"]),
        rng.choice([b"", b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b", b"INNER_MULTI_DISPATCX\x01a"]),
    ]
    rng.shuffle(pieces)
    properties = b"\x02".join(pieces) + rng.choice([b"", b"\x02"])
    host = b"\x7f\0\0\1" + b"\0\0\x2a\x9f"
    host6 = b"\0" * 15 + b"\1" + b"\0\0\x2a\x9f"
    born = host6 if flag & 0x10 else host
    store = host6 if flag & 0x20 else host
    tail = (
        struct.pack(">H" if v2 else ">B", len(topic))
        + topic
        + struct.pack(">H", len(properties))
        + properties
    )
    rest = (
        struct.pack(">iiqqi", rng.randrange(8), rng.randrange(99), 7, BASE + position, flag)
        + struct.pack(">q", 1_700_000_000_000)
        + born
        + struct.pack(">q", 1_700_000_000_500)
        + store
        + struct.pack(">iqi", rng.randrange(3), rng.randrange(9), len(body))
        + body
        + tail
    )
    crc = zlib.crc32(body) & 0x7FFFFFFF
    magic = MAGIC_V2 if v2 else MAGIC_V1
    return struct.pack(">iII", 12 + len(rest), magic, crc) + rest


def log(rng: random.Random, count: int) -> bytearray:
    file = bytearray()
    for _ in range(count):
        file += record(rng, len(file))
    return file + encode_blank(4096) + bytes(4088)


def damaged(rng: random.Random, file: bytearray) -> bytearray:
    file = bytearray(file)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(file) - 4096)
        if rng.random() < 0.3:
            file[at : at + 600] = bytes(len(file[at : at + 600]))
        else:
            file[at] ^= 1 << rng.randrange(8)
    return file


def plain_rows(file: bytearray) -> tuple[list[LogRecord], list[Damage]]:
    records, damaged = [], []
    for found in scan_commitlog(file, BASE, decode=False):
        if isinstance(found, LogRecord):
            records.append(found)
        elif isinstance(found, Damage):
            damaged.append(found)
            if found.record is not None:
                records.append(found.record)
    return records, damaged


def as_tuple(file: bytearray, batch: columns.ScanBatch, row: int) -> tuple[Any, ...]:
    def cell(name: str) -> int:
        return int(batch.column(name)[row])

    def slice_of(name: str) -> bytes | None:
        at, length = cell(f"{name}_at"), cell(f"{name}_length")
        return None if length < 0 else bytes(file[at : at + length])

    def text_of(name: str) -> str | None:
        raw = slice_of(name)
        return None if raw is None else raw.decode("utf-8", "replace")

    return (
        cell("position"),
        int(batch.physical_offset[row]),
        cell("total_size"),
        cell("magic"),
        cell("body_crc"),
        cell("queue_id"),
        cell("queue_offset"),
        cell("sys_flag"),
        cell("store_timestamp"),
        cell("prepared_transaction_offset"),
        cell("body_at"),
        cell("body_length"),
        slice_of("topic"),
        slice_of("properties"),
        text_of("tags"),
        text_of("keys"),
        text_of("uniq_key"),
        text_of("multi"),
    )


def expected(item: LogRecord) -> tuple[Any, ...]:
    properties = decode_properties(item.properties)
    return (
        item.position,
        item.physical_offset,
        item.total_size,
        item.magic,
        item.body_crc,
        item.queue_id,
        item.queue_offset,
        item.sys_flag,
        item.store_timestamp,
        item.prepared_transaction_offset,
        item.body_position,
        item.body_length,
        item.topic,
        item.properties,
        properties.get("TAGS"),
        properties.get("KEYS"),
        properties.get("UNIQ_KEY"),
        properties.get("INNER_MULTI_DISPATCH"),
    )


def ways() -> list[bool]:
    return [False, True] if compiled() else [False]


@pytest.mark.parametrize("use_compiled", ways())
@pytest.mark.parametrize("harm", [False, True])
def test_columns_equal_the_plain_scan(rng: random.Random, use_compiled: bool, harm: bool) -> None:
    for _ in range(20):
        file = log(rng, rng.randrange(1, 60))
        if harm:
            file = damaged(rng, file)
        records, regions = plain_rows(file)
        rows, found = [], []
        for batch in columns.scan_columns(file, BASE, rows=7, use_compiled=use_compiled):
            rows += [as_tuple(file, batch, row) for row in range(batch.count)]
            found += batch.damaged_regions
        assert rows == [expected(item) for item in records]
        assert found == regions


@pytest.mark.parametrize("use_compiled", ways())
def test_parts_cut_anywhere_give_each_record_once(rng: random.Random, use_compiled: bool) -> None:
    file = log(rng, 80)
    whole = [item.position for item in plain_rows(file)[0]]
    for _ in range(30):
        cuts = sorted({0, len(file), *(rng.randrange(len(file)) for _ in range(4))})
        seen = []
        for start, end in itertools.pairwise(cuts):
            first = columns.first_record(file, start, BASE)
            if first < 0 or first >= end:
                continue
            for batch in columns.scan_columns(file, BASE, first, end, use_compiled=use_compiled):
                seen += batch.column("position").tolist()
        assert seen == whole


@pytest.mark.skipif(not compiled(), reason="the compiled loops need numba")
def test_kernel_and_scanner_agree_on_the_order_of_columns() -> None:
    from broker.store.format.vectorized import kernels

    for number, name in enumerate(columns.COLUMNS):
        assert getattr(kernels, name.upper()) == number
    assert len(columns.COLUMNS) == kernels.COLUMN_COUNT


def test_an_empty_file_has_no_batches() -> None:
    assert list(columns.scan_columns(bytes(8192), BASE)) == []


@pytest.mark.parametrize("use_compiled", [False, True] if compiled() else [False])
@pytest.mark.parametrize("flag", [0, 1, 0x01020304, -2])
def test_the_flag_of_the_application_is_a_signed_int(use_compiled: bool, flag: int) -> None:
    message = MessageExt("TopicA", b"body", b"", flag=flag, queue_id=7, physical_offset=BASE)
    (batch,) = columns.scan_columns(encode_record(message), BASE, use_compiled=use_compiled)
    assert batch.column("flag").tolist() == [flag]
    assert batch.column("queue_id").tolist() == [7]
