"""The column scanner: one CommitLog file as batches of integer columns, no object per record.

It returns the same information as :func:`~broker.store.format.commitlog.scan_commitlog` in another
form: positions, lengths and numbers of thousands of records per batch, and the damaged regions
between them. Texts and bodies are not copied; a column pair (``X_at``, ``X_length``) is their
position and length in the file.

Two implementations fill the same table: compiled loops if numba is installed, else a Python loop.
Both need numpy; without it callers use ``scan_commitlog``. Memory per batch is one table of
28 x ``rows`` int64, whatever the length of the log. Needs the extra ``fast``.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from broker.message.message import (
    PROPERTY_INNER_MULTI_DISPATCH,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
)
from broker.store.format.commitlog import (
    Blank,
    Damage,
    LogRecord,
    Unwritten,
    check_record,
    is_plausible,
    own_offset,
    read_record,
    resync,
    scan_commitlog,
)
from broker.store.format.vectorized.loops import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from broker.store.format.commitlog import Buffer

COLUMNS: Final = (
    "position",
    "total_size",
    "magic",
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "sys_flag",
    "born_timestamp",
    "store_timestamp",
    "reconsume_times",
    "prepared_transaction_offset",
    "body_at",
    "body_length",
    "topic_at",
    "topic_length",
    "properties_at",
    "properties_length",
    "tags_at",
    "tags_length",
    "keys_at",
    "keys_length",
    "uniq_key_at",
    "uniq_key_length",
    "multi_at",
    "multi_length",
    "plain_text",
    "crc_ok",
)
_AT: Final = {name: row for row, name in enumerate(COLUMNS)}

_PROPERTIES: Final = {
    PROPERTY_TAGS: "tags_at",
    PROPERTY_KEYS: "keys_at",
    PROPERTY_UNIQ_KEY: "uniq_key_at",
    PROPERTY_INNER_MULTI_DISPATCH: "multi_at",
}

# About 8,000 rows keep the table (1.8 MiB) and derived columns within the second-level cache. With
# a power of 2 the columns of a row would be 64 KiB apart, all in one set of the cache, and each
# store of `fill` would miss it.
ROWS: Final = 8184

WITH_CRC: Final = 1
WITH_PROPERTIES: Final = 2


class ScanBatch:
    """Columns of consecutive records of one file.

    ``count`` is the number of rows; ``column(name)`` returns one of COLUMNS as int64 (a view).
    ``tags_length``, ``keys_length``, ``uniq_key_length`` and ``multi_length`` (``multi`` is
    INNER_MULTI_DISPATCH) are -1 if the message does not have the property. ``crc_ok`` is 1, 0 or
    -1 (not checked). ``plain_text`` is 0 if topic or properties contain non-ASCII bytes.
    ``damaged_regions`` are those before ``next_position``; damaged records with readable
    fields are rows too. ``ended``: a blank record or the end of the log was reached.
    """

    __slots__ = ("base_offset", "count", "damaged_regions", "ended", "next_position", "table")

    def __init__(self, table: "NDArray[np.int64]", base_offset: int) -> None:
        self.table = table
        self.base_offset = base_offset
        self.count = 0
        self.damaged_regions: list[Damage] = []
        self.next_position = 0
        self.ended = False

    def column(self, name: str) -> "NDArray[np.int64]":
        """One column of length ``count``."""
        found: NDArray[np.int64] = self.table[_AT[name], : self.count]
        return found

    @property
    def physical_offset(self) -> "NDArray[np.int64]":
        """Physical offset of each record."""
        return self.column("position") + self.base_offset


def first_record(buf: "Buffer", position: int, base_offset: int) -> int:
    """The first record that starts at or after ``position``, -1 if there is none.

    For readers that split a file at arbitrary positions: a part owns the records that start in it.
    """
    if position == 0 or is_plausible(buf, position, base_offset):
        return position
    return resync(buf, position, base_offset)


def scan_columns(
    buf: "Buffer",
    base_offset: int,
    start: int = 0,
    end: int | None = None,
    *,
    scan_flags: int = WITH_CRC | WITH_PROPERTIES,
    rows: int = ROWS,
    look_to: int | None = None,
    use_compiled: bool | None = None,
) -> "Generator[ScanBatch]":
    """Batches of the records that start in ``[start, end)`` of one file.

    ``buf`` is the file from its first byte and ``base_offset`` that byte's physical offset;
    ``start`` must be the start of a record (see :func:`first_record`). Each batch has a separate
    table. ``scan_flags`` combines WITH_CRC and WITH_PROPERTIES. ``look_to`` bounds the search
    for the next record after corruption, default ``end``: a reader of a part of a file passes the
    end of the file, so that damaged regions are as long as in a scan of the whole file.
    """
    if end is None:
        end = len(buf)
    if look_to is None:
        look_to = end
    fill = _filler(buf, base_offset, end, scan_flags, use_compiled)
    position = start
    ended = False
    while position < end and not ended:
        batch = ScanBatch(np.empty((len(COLUMNS), rows), dtype=np.int64), base_offset)
        while batch.count < rows and position < end and not ended:
            filled, position = fill(position, batch.table[:, batch.count :])
            batch.count += filled
            if batch.count < rows and position < end:
                position, ended = _doubtful(buf, position, look_to, scan_flags, batch)
        batch.next_position = position
        batch.ended = ended
        if batch.count or batch.damaged_regions:
            yield batch


def _filler(
    buf: "Buffer", base_offset: int, end: int, scan_flags: int, use_compiled: bool | None
) -> Any:
    """Return a function (position, table) -> (rows, next position) that reads intact records."""
    if compiled() if use_compiled is None else use_compiled:
        from broker.store.format.vectorized import kernels

        view = np.frombuffer(buf, dtype=np.uint8)

        def fast(position: int, table: "NDArray[np.int64]") -> tuple[int, int]:
            filled, after = kernels.fill(view, base_offset, position, end, scan_flags, table)
            return int(filled), int(after)

        return fast

    def plain(position: int, table: "NDArray[np.int64]") -> tuple[int, int]:
        row = 0
        while row < table.shape[1] and position < end:
            size = check_record(buf, position, check_crc=bool(scan_flags & WITH_CRC))
            if size <= 0 or own_offset(buf, position) != base_offset + position:
                break
            _put(buf, read_record(buf, position, base_offset), table, row, scan_flags)
            row += 1
            position += size
        return row, position

    return plain


def _doubtful(
    buf: "Buffer", position: int, end: int, scan_flags: int, batch: ScanBatch
) -> tuple[int, bool]:
    """Pass ``position`` to the record scanner; return (position after its result, log ended)."""
    found = next(
        scan_commitlog(
            buf,
            batch.base_offset,
            position,
            end,
            check_crc=bool(scan_flags & WITH_CRC),
            decode=False,
        ),
        None,
    )
    if found is None or isinstance(found, Blank | Unwritten):
        return end if found is None else position, True
    record = found if isinstance(found, LogRecord) else found.record
    if record is not None:
        _put(buf, record, batch.table, batch.count, scan_flags)
        if isinstance(found, Damage) and found.kind in ("crc", "propertyCrc"):
            batch.table[_AT["crc_ok"], batch.count] = 0
        batch.count += 1
    if isinstance(found, LogRecord):
        return position + found.total_size, False
    batch.damaged_regions.append(found)
    return position + found.length, False


def _put(
    buf: "Buffer", record: LogRecord, table: "NDArray[np.int64]", row: int, scan_flags: int
) -> None:
    """Store one record as one row (slow path)."""
    # The application's flag follows queueId at byte 16, bornTimestamp is at byte 40.
    at = record.position + 16
    flag = int.from_bytes(buf[at : at + 4], "big", signed=True)
    born = int.from_bytes(buf[record.position + 40 : record.position + 48], "big", signed=True)
    reconsume = record.body_position - 16
    wide = len(record.topic)
    properties_at = record.position + record.total_size - len(record.properties)
    topic_at = properties_at - 2 - wide
    table[: _AT["tags_at"], row] = (
        record.position,
        record.total_size,
        record.magic,
        record.body_crc,
        record.queue_id,
        flag,
        record.queue_offset,
        record.sys_flag,
        born,
        record.store_timestamp,
        int.from_bytes(buf[reconsume : reconsume + 4], "big", signed=True),
        record.prepared_transaction_offset,
        record.body_position,
        record.body_length,
        topic_at,
        wide,
        properties_at,
        len(record.properties),
    )
    plain = record.topic.isascii()
    found: dict[bytes, tuple[int, int]] = {}
    if scan_flags & WITH_PROPERTIES:
        plain = plain and record.properties.isascii()
        found = property_slices(record.properties)
    for name, at_column in _PROPERTIES.items():
        column = _AT[at_column]
        start, length = found.get(name.encode(), (-properties_at, -1))
        table[column, row] = properties_at + start
        table[column + 1, row] = length
    table[_AT["plain_text"], row] = plain
    table[_AT["crc_ok"], row] = 1 if scan_flags & WITH_CRC else -1


def property_slices(raw: bytes) -> dict[bytes, tuple[int, int]]:
    """Name -> (start, length) of its value within a property string; the last duplicate wins."""
    found = {}
    at = 0
    for piece in raw.split(b"\x02"):
        name, mark, value = piece.partition(b"\x01")
        if name and mark and value:
            found[name] = (at + len(name) + 1, len(value))
        at += len(piece) + 1
    return found
