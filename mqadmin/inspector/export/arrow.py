"""Messages as Arrow record batches, for exports and the data pipeline.

A batch is built from a scanned file without a Python object per message: numbers are columns
already, and Arrow copies texts and bodies from the mapped file. The mapped file is the value
buffer of a binary array with offsets s0, e0, s1, e1, …: its even elements are the selected values,
the odd ones the gaps between them, so that one ``take`` copies only the selected bytes.

Compressed bodies, messages of inner batches and non-ASCII texts take the slow path, row by row.

Requires the extra ``arrow``.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from broker.common import sysflag
from broker.common.address import decode_host
from broker.errors import RemoteProtocolError
from broker.message.batch import unwrap_inner_batch
from broker.message.compression import decompress
from broker.message.message import MessageExt
from broker.message.record import decode_record, field_position
from broker.store.format.vectorized import columns
from broker.store.format.vectorized.columns import ScanBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from broker.store.format.commitlog import Buffer

TIME: Final = pa.timestamp("us", tz="UTC")

SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("physical_offset", pa.int64()),
        ("size", pa.int32()),
        ("sys_flag", pa.int32()),
        ("flag", pa.int32()),
        ("born_time", TIME),
        ("born_host", pa.string()),
        ("store_time", TIME),
        ("store_host", pa.string()),
        ("reconsume_times", pa.int32()),
        ("prepared_offset", pa.int64()),
        ("body_crc", pa.int64()),
        ("body_len", pa.int32()),
        ("body", pa.binary()),
        ("crc_ok", pa.bool_()),
        ("tags", pa.string()),
        ("keys", pa.string()),
        ("uniq_key", pa.string()),
        ("properties", pa.string()),
        ("offset_msg_id", pa.string()),
        ("store", pa.string()),
        ("damage", pa.string()),
    ]
)
"""Columns of a message. ``keys`` is the text of KEYS, ``properties`` the stored string (name 0x01
value 0x02 …), ``body`` the decompressed body, ``store`` the store directory; ``damage`` is null
except in damage rows, where it describes the corruption and ``size`` is its length in bytes."""

KeepInnerBatch = Callable[[MessageExt, list[MessageExt]], list[MessageExt]]

BODY_LIMIT: Final = 256 << 20  # most bytes of a decompressed body

_NUMBERS: Final = {
    "queue_id": "queue_id",
    "queue_offset": "queue_offset",
    "size": "total_size",
    "sys_flag": "sys_flag",
    "flag": "flag",
    "reconsume_times": "reconsume_times",
    "prepared_offset": "prepared_transaction_offset",
    "body_crc": "body_crc",
    "body_len": "body_length",
}
_TIMES: Final = {"born_time": "born_timestamp", "store_time": "store_timestamp"}
_TEXTS: Final = ("topic", "tags", "keys", "uniq_key", "properties")
_NEEDS_PROPERTIES: Final = {"tags", "keys", "uniq_key"}
_BORN_HOST_AT: Final = field_position("bornHost")
_STORE_HOST_AT: Final = field_position("storeHost")
_HEX: Final = np.frombuffer(b"".join(b"%02X" % number for number in range(256)), dtype=np.uint16)


def purpose_of(names: Sequence[str], *, check_crc: bool) -> int:
    """Return the flags of the column scanner that these columns require."""
    scan_flags = columns.WITH_CRC if check_crc or "crc_ok" in names else 0
    if _NEEDS_PROPERTIES & set(names):
        scan_flags |= columns.WITH_PROPERTIES
    return scan_flags


class BatchMaker:
    """Converts scan batches of one file to record batches.

    ``names`` are column names of SCHEMA, in output order; ``keep`` is an optional selection (scan
    batch → row numbers) that runs before data is copied, ``keep_inner`` a selection of the
    messages of an inner batch (record, its messages → selected messages).
    """

    def __init__(
        self,
        buf: "Buffer",
        names: Sequence[str],
        *,
        store: str = "",
        keep: "Callable[[ScanBatch], NDArray[np.int64]] | None" = None,
        keep_inner: KeepInnerBatch | None = None,
    ) -> None:
        self.keep_inner = keep_inner
        self.buf = buf
        self.values = pa.py_buffer(buf)
        # The 8 bytes from each position: an IPv4 host and port as one number.
        self.eights = np.ndarray(
            max(0, len(buf) - 7), dtype=np.uint64, buffer=self.values, strides=1
        )
        self.names = tuple(names)
        self.schema = pa.schema([SCHEMA.field(name) for name in self.names])
        self.store = store
        self.keep = keep

    def make(self, batch: ScanBatch) -> Iterator[pa.RecordBatch]:
        """Yield record batches of one scan batch in log order, with inner batches unwrapped."""
        rows = np.arange(batch.count, dtype=np.int64) if self.keep is None else self.keep(batch)
        if not len(rows):
            return
        inner = batch.column("sys_flag")[rows] & sysflag.INNER_BATCH != 0
        if not inner.any():
            yield self._plain(batch, rows)
            return
        start = 0
        for at in np.flatnonzero(inner):
            if at > start:
                yield self._plain(batch, rows[start:at])
            yield from self._unfolded(batch, int(rows[at]))
            start = int(at) + 1
        if start < len(rows):
            yield self._plain(batch, rows[start:])

    def damage_rows(self, batch: ScanBatch) -> pa.RecordBatch | None:
        """Return one row per damaged region of a scan batch, None without any."""
        if not batch.damaged_regions:
            return None
        rows = [
            {
                "physical_offset": damage.physical_offset,
                "size": damage.length,
                "store": self.store,
                "damage": f"{damage.kind}: {damage.detail}",
            }
            for damage in batch.damaged_regions
        ]
        return pa.RecordBatch.from_pylist(rows, schema=self.schema)

    def _plain(self, batch: ScanBatch, rows: "NDArray[np.int64]") -> pa.RecordBatch:
        arrays = [self.array(name, batch, rows) for name in self.names]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), type=pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def array(self, name: str, batch: ScanBatch, rows: "NDArray[np.int64]") -> pa.Array:
        """Return one column of SCHEMA for these rows; inner batches are not unwrapped."""
        kind = SCHEMA.field(name).type
        if name in _NUMBERS:
            return pa.array(batch.column(_NUMBERS[name])[rows]).cast(kind)
        if name in _TIMES:
            return pa.array(batch.column(_TIMES[name])[rows] * 1000).cast(kind)
        if name in _TEXTS:
            return self._text(name, batch, rows)
        if name == "physical_offset":
            return pa.array(batch.physical_offset[rows])
        if name == "body":
            return self._bodies(batch, rows)
        if name == "born_host":
            return self._hosts(batch, rows, sysflag.BORNHOST_V6, born=True)
        if name == "store_host":
            return self._hosts(batch, rows, sysflag.STOREHOST_V6, born=False)
        if name == "offset_msg_id":
            return self._ids(batch, rows)
        if name == "crc_ok":
            ok = batch.column("crc_ok")[rows]
            return pa.array(ok == 1, mask=ok < 0)
        if name == "store":
            return pa.repeat(pa.scalar(self.store, kind), len(rows))
        return pa.nulls(len(rows), kind)

    def _slices(
        self, starts: "NDArray[np.int64]", lengths: "NDArray[np.int64]", floor: "NDArray[np.int64]"
    ) -> pa.Array:
        """Copy binary values from the file; null where a length is negative."""
        absent = lengths < 0
        offsets = np.empty(2 * len(starts) + 1, dtype=np.int32)
        # Offsets must not decrease: an absent value is empty, at the start of the record's texts.
        offsets[0:-1:2] = np.where(absent, floor, starts)
        offsets[1::2] = np.where(absent, floor, starts + lengths)
        offsets[-1] = offsets[-2]
        gaps = pa.Array.from_buffers(
            pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), self.values]
        )
        wanted = np.arange(0, 2 * len(starts), 2, dtype=np.int64)
        return gaps.take(pa.array(wanted, mask=absent if absent.any() else None))

    def _text(self, name: str, batch: ScanBatch, rows: "NDArray[np.int64]") -> pa.Array:
        found = self._slices(
            batch.column(f"{name}_at")[rows],
            batch.column(f"{name}_length")[rows],
            batch.column("properties_at")[rows]
            if name != "topic"
            else batch.column("topic_at")[rows],
        )
        if batch.column("plain_text")[rows].all() and name != "properties":
            return found.cast(pa.string(), safe=False)
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            # Invalid UTF-8: decoded with replacement characters, as Java does.
            texts = [
                None if value is None else value.decode("utf-8", "replace")
                for value in found.to_pylist()
            ]
            return pa.array(texts, type=pa.string())

    def _bodies(self, batch: ScanBatch, rows: "NDArray[np.int64]") -> pa.Array:
        starts = batch.column("body_at")[rows]
        found = self._slices(starts, batch.column("body_length")[rows], starts)
        flags = batch.column("sys_flag")[rows]
        packed = flags & sysflag.COMPRESSED != 0
        if not packed.any():
            return found
        bodies = found.to_pylist()
        for row in np.flatnonzero(packed):
            bodies[row] = unpacked(bodies[row], int(flags[row]))
        return pa.array(bodies, type=pa.binary())

    def _hosts(
        self, batch: ScanBatch, rows: "NDArray[np.int64]", v6: int, *, born: bool
    ) -> pa.Array:
        positions = batch.column("position")[rows]
        flags = batch.column("sys_flag")[rows]
        at = positions + (_BORN_HOST_AT if born else _STORE_HOST_AT)
        if not born:
            at = at + np.where(flags & sysflag.BORNHOST_V6 != 0, 12, 0)
        wide = flags & v6 != 0
        if wide.any():
            texts = [
                decode_host(self.buf, int(start), bool(long))
                for start, long in zip(at, wide, strict=True)
            ]
            return pa.array(texts, type=pa.string())
        # Few distinct hosts send many messages: each is converted to text once.
        raw = self.eights[at]
        if (raw == raw[0]).all():
            one = pa.scalar(decode_host(raw[:1].tobytes(), 0, False), pa.string())
            return pa.repeat(one, len(rows))
        unique, which = np.unique(raw, return_inverse=True)
        texts = [decode_host(host.tobytes(), 0, False) for host in unique]
        return pa.array(texts, type=pa.string()).take(pa.array(which))

    def _ids(self, batch: ScanBatch, rows: "NDArray[np.int64]") -> pa.Array:
        positions = batch.column("position")[rows]
        flags = batch.column("sys_flag")[rows]
        shift = np.where(flags & sysflag.BORNHOST_V6 != 0, 12, 0)
        wide = flags & sysflag.STOREHOST_V6 != 0
        if wide.any():
            messages = (decode_record(self.buf, int(at), read_body=False) for at in positions)
            return pa.array([message.offset_msg_id for message in messages], type=pa.string())
        raw = np.empty((len(rows), 2), dtype=np.uint64)
        raw[:, 0] = self.eights[positions + _STORE_HOST_AT + shift]
        raw[:, 1] = batch.physical_offset[rows].astype(">i8").view(np.uint64)
        text = _HEX[raw.reshape(-1).view(np.uint8)]
        ends = np.arange(0, 32 * len(rows) + 1, 32, dtype=np.int32)
        return pa.Array.from_buffers(
            pa.string(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(text)]
        )

    def _unfolded(self, batch: ScanBatch, row: int) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one inner batch with offset, size and sysFlag of the record."""
        outer = self._plain(batch, np.array([row], dtype=np.int64)).to_pylist()[0]
        record = decode_record(self.buf, int(batch.column("position")[row]))
        rows = []
        try:
            messages = unwrap_inner_batch(record)
        except RemoteProtocolError:
            messages = []
        if self.keep_inner is not None:
            messages = self.keep_inner(record, messages or [record])
            if not messages:
                return
        for message in messages:
            if message is record:
                break  # the batch cannot be unwrapped
            own = {
                "queue_offset": message.queue_offset,
                "flag": message.flag,
                "body_len": len(message.body),
                "body_crc": message.body_crc,
                "body": message.payload(BODY_LIMIT) if "body" in self.names else None,
                "tags": message.tags,
                "keys": " ".join(message.keys) or None,
                "uniq_key": message.uniq_key,
                "properties": message.properties_raw.decode("utf-8", "replace"),
            }
            rows.append({**outer, **{key: own[key] for key in own if key in outer}})
        if not rows:
            rows = [outer]
        yield pa.RecordBatch.from_pylist(rows, schema=self.schema)


def unpacked(body: bytes, flags: int) -> bytes | None:
    """Decompress a body; None if that fails."""
    try:
        return decompress(body, flags, BODY_LIMIT)
    except RemoteProtocolError:
        return None


def file_batches(
    buf: "Buffer",
    base_offset: int,
    maker: BatchMaker,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = False,
    with_damage: bool = False,
    rows: int = columns.ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield record batches of the records that start in ``[start, end)`` of one CommitLog file.

    ``start`` is any position in the file: the scan starts at the first record at or after it. With
    ``with_damage`` each damaged region is a row, too.
    """
    position = columns.first_record(buf, start, base_offset)
    if position < 0 or (end is not None and position >= end):
        return
    scan_flags = purpose_of(maker.names, check_crc=check_crc)
    for batch in columns.scan_columns(
        buf, base_offset, position, end, scan_flags=scan_flags, rows=rows
    ):
        yield from maker.make(batch)
        if with_damage:
            found: Any = maker.damage_rows(batch)
            if found is not None:
                yield found
