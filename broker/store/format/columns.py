"""The column scanner: one CommitLog file as batches of number columns, no object per record.

It answers what :func:`~broker.store.format.commitlog.scan_commitlog` answers, in another shape:
positions, lengths and numbers of up to thousands of records at once, and the damages between
them. Texts and bodies are not copied; a column pair (``X_at``, ``X_length``) says where they lie
in the file. Recovery, verification, search, export and the data pipeline read logs through it.

Three ways to the same numbers, the best one that is installed: compiled loops (numba), or a
Python loop that fills the same table (numpy alone). Without numpy there is no column scanner;
callers fall back to ``scan_commitlog``. Memory is one table of ``rows`` x 28 numbers, whatever
the length of the log. Needs the extra ``fast``.
"""

import importlib.util
from collections.abc import Iterator
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

# 8,192 rows keep the table and what is made of it within the second-level cache.
ROWS: Final = 8192

WITH_CRC: Final = 1
WITH_PROPERTIES: Final = 2


class ScanBatch:
    """Columns of consecutive records of one file.

    ``count`` rows; ``column(name)`` gives one of COLUMNS as int64 (a view). ``tags_length`` and
    its like are -1 where the message has none (``multi`` is INNER_MULTI_DISPATCH); ``crc_ok`` is
    1, 0 or -1 (not asked for);
    ``plain_text`` is 0 where topic or properties hold bytes beyond ASCII. ``damages`` are those
    met before ``next_position``; records that a damage still shows are rows too. ``ended`` says
    that a blank record or the end of the log was reached.
    """

    __slots__ = ("base_offset", "count", "damages", "ended", "next_position", "table")

    def __init__(self, table: "NDArray[np.int64]", base_offset: int) -> None:
        self.table = table
        self.base_offset = base_offset
        self.count = 0
        self.damages: list[Damage] = []
        self.next_position = 0
        self.ended = False

    def column(self, name: str) -> "NDArray[np.int64]":
        """One column, ``count`` long."""
        found: NDArray[np.int64] = self.table[_AT[name], : self.count]
        return found

    @property
    def physical_offset(self) -> "NDArray[np.int64]":
        """Where each record lies in the log, in bytes."""
        return self.column("position") + self.base_offset


def compiled() -> bool:
    """Whether the compiled loops can be used here."""
    return importlib.util.find_spec("numba") is not None


def first_record(buf: "Buffer", position: int, base_offset: int) -> int:
    """The first record that starts at ``position`` or behind it, -1 if there is none.

    For readers that cut a file into parts anywhere: a part owns the records that start in it.
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
    what: int = WITH_CRC | WITH_PROPERTIES,
    rows: int = ROWS,
    look_to: int | None = None,
    use_compiled: bool | None = None,
) -> Iterator[ScanBatch]:
    """Batches of the records that start in ``[start, end)`` of one file.

    ``buf`` is the file from its first byte and ``base_offset`` that byte's physical offset;
    ``start`` must be the start of a record (see :func:`first_record`). Every batch has a table
    of its own. ``what`` is a sum of WITH_CRC and WITH_PROPERTIES. ``look_to`` is how far the next
    record is looked for behind a damage, ``end`` by default: who reads a part of a file gives
    the file's end, so that a damage reaches as far as it does for who reads the whole.
    """
    if end is None:
        end = len(buf)
    if look_to is None:
        look_to = end
    fill = _filler(buf, base_offset, end, what, use_compiled)
    position = start
    ended = False
    while position < end and not ended:
        batch = ScanBatch(np.empty((len(COLUMNS), rows), dtype=np.int64), base_offset)
        while batch.count < rows and position < end and not ended:
            filled, position = fill(position, batch.table[:, batch.count :])
            batch.count += filled
            if batch.count < rows and position < end:
                position, ended = _doubtful(buf, position, look_to, what, batch)
        batch.next_position = position
        batch.ended = ended
        if batch.count or batch.damages:
            yield batch


def _filler(buf: "Buffer", base_offset: int, end: int, what: int, use_compiled: bool | None) -> Any:
    """A function (position, table) -> (rows, next position) over the clean records."""
    if compiled() if use_compiled is None else use_compiled:
        from broker.store.format import kernels

        view = np.frombuffer(buf, dtype=np.uint8)

        def fast(position: int, table: "NDArray[np.int64]") -> tuple[int, int]:
            filled, after = kernels.fill(
                view, base_offset, position, end, what, kernels.CRC_TABLES, table
            )
            return int(filled), int(after)

        return fast

    def plain(position: int, table: "NDArray[np.int64]") -> tuple[int, int]:
        row = 0
        while row < table.shape[1] and position < end:
            size = check_record(buf, position, check_crc=bool(what & WITH_CRC))
            if size <= 0 or own_offset(buf, position) != base_offset + position:
                break
            _put(buf, read_record(buf, position, base_offset), table, row, what)
            row += 1
            position += size
        return row, position

    return plain


def _doubtful(
    buf: "Buffer", position: int, end: int, what: int, batch: ScanBatch
) -> tuple[int, bool]:
    """Let the plain scanner say what stands at ``position``: (position behind it, log ended)."""
    found = next(
        scan_commitlog(
            buf,
            batch.base_offset,
            position,
            end,
            check_crc=bool(what & WITH_CRC),
            decode=False,
        ),
        None,
    )
    if found is None or isinstance(found, Blank | Unwritten):
        return end if found is None else position, True
    record = found if isinstance(found, LogRecord) else found.record
    if record is not None:
        _put(buf, record, batch.table, batch.count, what)
        if isinstance(found, Damage) and found.kind in ("crc", "propertyCrc"):
            batch.table[_AT["crc_ok"], batch.count] = 0
        batch.count += 1
    if isinstance(found, LogRecord):
        return position + found.total_size, False
    batch.damages.append(found)
    return position + found.length, False


def _put(buf: "Buffer", record: LogRecord, table: "NDArray[np.int64]", row: int, what: int) -> None:
    """One record as one row, the slow way."""
    # Behind queueId and before queueOffset lies the application's flag.
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
    if what & WITH_PROPERTIES:
        plain = plain and record.properties.isascii()
        found = property_slices(record.properties)
    for name, at_column in _PROPERTIES.items():
        column = _AT[at_column]
        start, length = found.get(name.encode(), (-properties_at, -1))
        table[column, row] = properties_at + start
        table[column + 1, row] = length
    table[_AT["plain_text"], row] = plain
    table[_AT["crc_ok"], row] = 1 if what & WITH_CRC else -1


def property_slices(raw: bytes) -> dict[bytes, tuple[int, int]]:
    """Name -> (start, length) of its value within a property string; the last of equals wins."""
    found = {}
    at = 0
    for piece in raw.split(b"\x02"):
        name, mark, value = piece.partition(b"\x01")
        if name and mark and value:
            found[name] = (at + len(name) + 1, len(value))
        at += len(piece) + 1
    return found
