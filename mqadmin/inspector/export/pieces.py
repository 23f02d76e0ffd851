"""Encode messages of a store as pieces of a file: NDJSON and CSV lines, or Arrow record batches.

Pieces are in the order of the log, each with the physical offset where the next one starts, so
that an export can stop after any piece and resume later. :mod:`mqadmin.repair.export` writes the
files.
"""

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from broker.common.sysflag import INNER_BATCH
from broker.common.times import format_time
from broker.message.message import MessageExt
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import FileBytes
from mqadmin.inspector.log import LogItem, LogWalk
from mqadmin.inspector.queries.messages import Matcher, record_rows, start_by_time
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.verify.log_walk import ColumnWalk
from mqadmin.message_row import MessageRow
from mqadmin.safe_text import csv_cell, json_text

if TYPE_CHECKING:
    import pyarrow as pa

    from broker.store.format.vectorized.columns import ScanBatch

NDJSON: Final = "ndjson"
CSV: Final = "csv"
PARQUET: Final = "parquet"
FORMATS: Final = (NDJSON, CSV, PARQUET)

# Rows of a text piece (an inner batch may exceed it), and most records that are read for one.
PIECE_ROWS: Final = 2000
PIECE_RECORDS: Final = 100_000
# Times are written twice, in ms and as ISO text in the field after it.
_TIMES: Final = {"bornTimestamp": "bornTime", "storeTimestamp": "storeTime"}


class Piece(NamedTuple):
    """Part of an export: ``data`` as text bytes or a record batch, and where to resume."""

    data: Any
    rows: int
    next_offset: int
    damaged_regions: tuple[DamageRow, ...] = ()


def text_pieces(store: StoreDirectory, query: Query, form: str) -> Iterator[Piece]:
    """Yield NDJSON or CSV pieces of the messages that match; a CSV starts with its header line.

    ``query.from_offset`` is where an interrupted export resumes; the header is then omitted. The
    last piece may have no rows: its ``next_offset`` is the end of the scanned log.
    """
    encode = _ndjson if form == NDJSON else _csv
    if form == CSV and not query.from_offset:
        yield Piece(_csv_line(list(fields())), 0, query.from_offset or 0)
    rows: list[MessageRow] = []
    damage_rows: list[DamageRow] = []
    reached = looked = 0
    for item, found in _matching(store, query):
        rows += [row for row in found if not isinstance(row, DamageRow)]
        damage_rows += [row for row in found if isinstance(row, DamageRow)]
        looked += 1
        if item.record is not None:
            reached = item.record.physical_offset + item.record.total_size
        if len(rows) >= PIECE_ROWS or looked >= PIECE_RECORDS:
            yield Piece(encode(rows), len(rows), reached, tuple(damage_rows))
            rows, damage_rows, looked = [], [], 0
    yield Piece(encode(rows), len(rows), reached, tuple(damage_rows))


def _matching(
    store: StoreDirectory, query: Query
) -> Iterator[tuple[LogItem, list[MessageRow | DamageRow]]]:
    match = Matcher(query)
    broker_name = store.broker_name()
    start = max(query.from_offset or 0, start_by_time(store, query.begin_ms))
    for item in LogWalk(store, start=start, check_crc=query.check_crc):
        if item.damage is not None and not match.is_after(item.damage.physical_offset):
            yield item, [item.damage]
        record = item.record
        if record is None:
            continue
        if match.is_after(record.physical_offset):
            return
        found = list(record_rows(item, match, broker_name)) if match.record(record) else []
        yield item, found


def fields() -> tuple[str, ...]:
    """Return the names of the fields of an exported message, in order."""
    names: list[str] = []
    for name in MessageRow.__struct_encode_fields__:
        names.append(name)
        if name in _TIMES:
            names.append(_TIMES[name])
    return tuple(names)


def _plain(row: MessageRow) -> dict[str, Any]:
    built = msgspec.to_builtins(row)
    out: dict[str, Any] = {}
    for name, value in built.items():
        out[name] = value
        if name in _TIMES:
            out[_TIMES[name]] = format_time(value) if value >= 0 else None
    return out


def _ndjson(rows: list[MessageRow]) -> bytes:
    return b"".join(json_text(_plain(row)).encode() + b"\n" for row in rows)


def _csv(rows: list[MessageRow]) -> bytes:
    return b"".join(_csv_line([csv_cell(value) for value in _plain(row).values()]) for row in rows)


def _csv_line(cells: list[Any]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue().encode()


def batch_pieces(store: StoreDirectory, query: Query, *, bodies: bool) -> "Iterator[Piece]":
    """Yield Arrow record batches of the messages that match; requires the extra ``arrow``.

    Columns are those of :func:`batch_schema`. A piece without data carries the end of the scanned
    log, or corruption.
    """
    names = batch_schema(bodies=bodies).names
    select = _Selection(query)
    match = Matcher(query)
    held: list[tuple[FileBytes, ScanBatch, frozenset[int]]] = []
    walk = ColumnWalk(
        store,
        lambda *taken: held.append(taken),
        start=max(query.from_offset or 0, start_by_time(store, query.begin_ms)),
        check_crc=query.check_crc,
    )
    for item in walk:
        if item.damage is not None and not match.is_after(item.damage.physical_offset):
            yield Piece(None, 0, 0, (item.damage,))
        for file, batch, untrusted in held:
            if match.is_after(int(batch.physical_offset[0])):
                return
            _distrust(batch, untrusted)
            yield from _parts(store, select, names, (file.data, batch))
        held.clear()


def _parts(
    store: StoreDirectory, select: "_Selection", names: list[str], of: "tuple[bytes, ScanBatch]"
) -> Iterator[Piece]:
    """Yield one scan batch as record batches, then a piece with the end of the batch."""
    from mqadmin.inspector.export import arrow

    data, batch = of
    # One maker per batch: the file cannot be closed while an array refers to its mapping.
    maker = arrow.BatchMaker(
        data,
        names,
        store=str(store.path),
        keep=select.keep(data),
        keep_inner=None if select.query.key is None else select.keep_inner,
    )
    reached = int(batch.physical_offset[-1] + batch.column("total_size")[-1])
    for part in maker.make(batch):
        yield Piece(part, part.num_rows, reached)
    yield Piece(None, 0, reached)


def _distrust(batch: "ScanBatch", untrusted: frozenset[int]) -> None:
    """Set crc_ok to 0 for records whose fields are not trusted, whatever their body is."""
    if untrusted:
        import numpy as np

        wrong = np.isin(batch.physical_offset, list(untrusted))
        batch.column("crc_ok")[wrong] = 0


class _Selection:
    """Selects the rows of a scan batch that match a query, by columns."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.match = Matcher(query)

    def keep_inner(self, record: MessageExt, messages: list[MessageExt]) -> list[MessageExt]:
        """Return the messages of an inner batch that have the key; all if the batch has it."""
        if self.match.message(record):
            return messages
        return [message for message in messages if self.match.message(message)]

    def keep(self, data: bytes) -> Any:
        """Return a function from scan batch to row numbers."""
        import numpy as np

        from broker.store.format.vectorized.hash_kernels import equal_slices

        query = self.query
        view = np.frombuffer(data, dtype=np.uint8)

        def rows(batch: Any) -> Any:
            wanted = np.ones(batch.count, dtype=bool)
            times = batch.column("store_timestamp")
            if query.begin_ms is not None:
                wanted &= times >= query.begin_ms
            if query.end_ms is not None:
                wanted &= times < query.end_ms
            if query.to_offset is not None:
                wanted &= batch.physical_offset < query.to_offset
            if query.from_offset is not None:
                wanted &= batch.physical_offset >= query.from_offset
            if query.queue_id is not None:
                wanted &= batch.column("queue_id") == query.queue_id
            if query.topic is not None:
                name = np.frombuffer(query.topic.encode("utf-8", "replace"), dtype=np.uint8)
                at, length = batch.column("topic_at"), batch.column("topic_length")
                zeros = np.zeros(batch.count, dtype=np.int64)
                own = np.full(batch.count, len(name), dtype=np.int64)
                wanted &= equal_slices(view, (at, length), name, (zeros, own))
            found = np.flatnonzero(wanted)
            if query.key is None:
                return found
            key = query.key.encode("utf-8", "replace")
            # The messages of an inner batch and their keys are in its body: matched later.
            inner = batch.column("sys_flag") & INNER_BATCH != 0
            kept = [row for row in found.tolist() if inner[row] or _has_key(data, batch, row, key)]
            return np.array(kept, dtype=np.int64)

        return rows


def _has_key(data: bytes, batch: Any, row: int, key: bytes) -> bool:
    for name in ("uniq_key", "keys"):
        length = int(batch.column(f"{name}_length")[row])
        if length > 0:
            at = int(batch.column(f"{name}_at")[row])
            value = bytes(data[at : at + length])
            if value == key or (name == "keys" and key in value.split(b" ")):
                return True
    return False


def batch_schema(*, bodies: bool) -> "pa.Schema":
    """Return the columns of :func:`batch_pieces`: all but ``damage``; ``body`` with ``bodies``."""
    import pyarrow as pa

    from mqadmin.inspector.export import arrow

    left_out = ("damage",) if bodies else ("damage", "body")
    return pa.schema([field for field in arrow.SCHEMA if field.name not in left_out])
