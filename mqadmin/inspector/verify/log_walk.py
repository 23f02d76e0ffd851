"""Scan the log for verification in batches of columns (requires numpy).

Without numpy, :class:`~mqadmin.inspector.log.LogWalk` yields record by record. Both report
corruption, blank records and gaps between files by the code of LogWalk.
"""

import importlib.util
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from broker.common.java import INT16_MAX, parse_number
from broker.common.sysflag import INNER_BATCH
from broker.message.properties import peek_property
from broker.store.format.commitlog import BLANK_HERE, BLANK_SIZE, Blank, LogRecord, check_record
from broker.store.format.vectorized.loops import compiled
from mqadmin.inspector.damage import damage_row
from mqadmin.inspector.directory import LogFile, StoreDirectory
from mqadmin.inspector.files import FileBytes
from mqadmin.inspector.log import LogItem, LogWalk

if TYPE_CHECKING:
    from broker.store.format.vectorized.columns import ScanBatch

# Kinds of corruption after which the fields of a record are not trusted.
UNTRUSTED = frozenset({"position", "content", "propertyCrc"})

TakeBatch = Callable[[FileBytes, "ScanBatch", frozenset[int]], None]


def has_columns() -> bool:
    """Whether numpy, which the column scanner requires, is installed."""
    return importlib.util.find_spec("numpy") is not None


class ColumnWalk(LogWalk):
    """A LogWalk that passes records to ``take`` in batches and yields corruption and blanks.

    ``take(file, batch, untrusted)`` gets the physical offsets of rows whose fields are not
    trusted. An empty item is yielded after each batch, so that a generator can yield the batch
    there and keeps one at a time in memory.
    """

    def __init__(
        self, store: StoreDirectory, take: TakeBatch, *, start: int = 0, check_crc: bool = True
    ) -> None:
        super().__init__(store, start=start, check_crc=check_crc)
        self._take = take

    def _opened(
        self, file: LogFile, opened: FileBytes, number: int
    ) -> Generator[LogItem, None, bool]:
        from broker.store.format.vectorized.columns import (
            WITH_CRC,
            WITH_PROPERTIES,
            scan_columns,
        )

        scan_flags = WITH_PROPERTIES | (WITH_CRC if self._check_crc else 0)
        position = self._begin(file, opened)
        batches = scan_columns(
            opened.data, file.start, position, opened.data_end, scan_flags=scan_flags
        )
        # Compiled loops release the GIL: the next batch is scanned while one is compared.
        with closing(one_ahead(batches) if compiled() else batches) as scan:
            return (yield from self._batches(file, opened, position, scan))

    def _batches(
        self, file: LogFile, opened: FileBytes, position: int, batches: "Iterable[ScanBatch]"
    ) -> Generator[LogItem, None, bool]:
        """Yield corruption and blanks of one file; returns whether the log continues after it."""
        number = self._files.index(file)
        is_rest = False
        for batch in batches:
            moving = False
            untrusted = set()
            for damage in batch.damaged_regions:
                if damage.at_end:
                    self.reached = damage.physical_offset
                    is_rest = self._is_rest(opened, damage.physical_offset - file.start)
                    self._torn_end = damage.physical_offset + damage.length
                    if is_rest:
                        break
                    moving = damage.kind != "blank" and self.is_moving(file)
                    if moving:
                        break
                    if self.is_followed(number):
                        damage = structs.replace(damage, at_end=False)
                if damage.kind in UNTRUSTED:
                    untrusted.add(damage.physical_offset)
                yield LogItem(opened, damage=damage_row(damage, str(opened.path)))
            if batch.count:
                self.end = int(batch.physical_offset[-1] + batch.column("total_size")[-1])
                self._take(opened, batch, frozenset(untrusted))
                yield LogItem(opened)
            if moving:
                return False
            position = batch.next_position
            self.reached = file.start + position
            opened.release(position)
        if is_rest:
            return self.is_followed(number)
        left = len(opened) - position
        if left >= BLANK_SIZE and check_record(opened.data, position) == BLANK_HERE:
            self.end = self.reached = file.start + file.length
            yield LogItem(opened, blank=Blank(physical_offset=file.start + position, length=left))
            return True
        return left <= 0


def one_ahead(batches: "Generator[ScanBatch]") -> "Generator[ScanBatch]":
    """Yield the batches; a second thread scans the next one while the caller uses one."""
    # The pool ends first: a generator cannot be closed while a thread runs it.
    with closing(batches), ThreadPoolExecutor(1, "scan") as pool:
        batch = next(batches, None)
        while batch is not None:
            following = pool.submit(next, batches, None)
            yield batch
            batch = following.result()


class Selection(NamedTuple):
    """A unit that must exist for a record; ``topic`` is the name of its queue."""

    topic: bytes
    queue_id: int
    queue_offset: int


def lmq_enabled(record: LogRecord) -> list[Selection]:
    """Return the additional queues of a multi-dispatched record.

    **Source:** RocketMQ ``MultiDispatch``, ``MultiDispatchUtils``, ``LmqDispatch``.
    """
    names = peek_property(record.properties, b"INNER_MULTI_DISPATCH")
    offsets = peek_property(record.properties, b"INNER_MULTI_QUEUE_OFFSET")
    if not names or not offsets:
        return []
    if record.topic.startswith((b"%RETRY%", b"rmq_sys_")) or record.topic == b"SCHEDULE_TOPIC_XXXX":
        return []
    pairs = zip(names.split(b","), offsets.split(b","), strict=False)
    return [
        Selection(name, 0 if name.startswith(b"%LMQ%") else record.queue_id, number)
        for name, offset in pairs
        if name and b"/" not in name and (number := parse_number(offset, 0)) is not None
    ]


def messages_in(record: LogRecord) -> int:
    """Return the number of messages in a record: 1, or INNER_NUM of an inner batch."""
    if record.sys_flag & INNER_BATCH:
        count = peek_property(record.properties, b"INNER_NUM")
        if count is not None:
            return parse_number(count, 1, INT16_MAX) or 1
    return 1
