"""Recovery: messages out of damaged, orphaned or single CommitLog files.

Where :mod:`~mqadmin.surgery.repair` keeps a store a store, this takes whatever still is a record:
from files without their neighbours, from pieces of files, from the middle of one, behind zeroed
pages and flipped bits. :func:`salvage` hands out records and losses in the order they stand;
:func:`recover_store` writes the records into a new store.

Theory of operation
    From a good record the next one follows by its length. Where that chain breaks, the next
    record is searched by its magic code; it counts if its lengths and its checksum agree and it
    says a physical offset that fits the file it stands in. Only if a file has no such record any
    more a chain with other offsets is believed: a piece of another log. So a copy of a record
    within a message is not taken for a message. A record that the chain reaches counts even if
    it says another physical offset; that field may be what is damaged.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from broker.errors import RemoteProtocolError, StoreError
from broker.message.batch import unwrap_inner_batch
from broker.message.message import MessageExt
from broker.message.record import decode_record
from broker.store.format.commitlog import (
    BAD_CRC,
    BAD_PROPERTY_CRC,
    BLANK_HERE,
    check_record,
    file_start,
    own_offset,
    read_record,
    written_end,
)
from mqadmin.inspector.damage import SUGGESTIONS
from mqadmin.inspector.directory import COMMITLOG, Query, StoreDirectory
from mqadmin.inspector.files import FileBytes, open_bytes
from mqadmin.inspector.messages import message_row
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.verify_log import has_columns
from mqadmin.inspector.verify_queues import OpenFiles, Queue, unit_array
from mqadmin.message_row import MessageRow
from mqadmin.surgery.filler import TOPIC as FILLER_TOPIC
from mqadmin.surgery.survey import arrange

_MAGIC: Final = re.compile(rb"\xda\xa3\x20[\xa7\xab]")
LOST: Final = "lost"
_FILLER_WORDS: Final = b"mqadmin store repair:"


class Rescued(msgspec.Struct, frozen=True):
    """A record that was read: where it stands, its bytes and its message.

    ``note`` is "" for a record at the place it says, "moved" for one that says another, "crc" for
    one whose body is not the one that was stored (only where those are asked for).
    """

    path: str
    position: int
    data: bytes
    message: MessageExt
    note: str = ""


class LostMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message known to be lost: a ConsumeQueue unit leads into a part that cannot be read."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int


class Recovery(msgspec.Struct, kw_only=True):
    """Everything at once, for small sources and tests: see :func:`salvage`."""

    records: list[Rescued]
    losses: list[DamageRow]

    @property
    def lost_bytes(self) -> int:
        """Bytes that could not be read as records, zeros included."""
        return sum(row.length or 0 for row in self.losses)


def recover(sources: Sequence[Path], output: Path | None) -> Recovery:
    """Read all there is; with ``output`` also into a new store there."""
    found = Recovery(records=[], losses=[])
    for item in salvage(sources):
        if isinstance(item, Rescued):
            found.records.append(item)
        else:
            found.losses.append(item)
    if output is not None:
        from mqadmin.surgery.new_store import recover_store

        recover_store(sources, output)
    return found


def salvage(sources: Sequence[Path], *, bad_bodies: bool = False) -> Iterator[Rescued | DamageRow]:
    """Records of the sources in the order of their files, losses between them.

    A source is a store, its CommitLog folder, any other folder (all files in it) or a file.
    ``bad_bodies`` also gives records whose bodies are damaged, with the note "crc"; their losses
    are told all the same. StoreError if a source cannot be read.
    """
    for source in sources:
        for path, base in _files(source):
            try:
                with open_bytes(path, sequential=True) as file:
                    yield from _salvage_file(file, base, bad_bodies=bad_bodies)
            except StoreError as error:
                yield _loss(path, base or 0, path.stat().st_size, error.message)


def _files(source: Path) -> list[tuple[Path, int | None]]:
    """Files to read with the physical offset they begin at, None if that is not known."""
    if source.is_file():
        return [(source, file_start(source.name))]
    if not source.is_dir():
        raise StoreError(f"no such file or directory: {source}", path=str(source))
    try:
        store = StoreDirectory(source)
    except StoreError:
        store = None
    if store is None or (store.root is None and store.kind != COMMITLOG):
        paths = sorted(path for path in source.iterdir() if path.is_file())
        return [(path, file_start(path.name)) for path in paths]
    found = arrange(store)
    known: list[tuple[Path, int | None]] = [
        (file.path, file.start) for file in (*found.files, *found.doubles)
    ]
    return known + [(path, None) for path in store.strange_log_names()]


def _salvage_file(
    file: FileBytes, base: int | None, *, bad_bodies: bool
) -> Iterator[Rescued | DamageRow]:
    data = file.data
    position = 0
    if base is not None and not _begins_at(data, 0, base):
        base = _likely_base(data, base)
    while position < file.data_end:
        status = check_record(data, position)
        if status > 0 and _is_torn(data, position, status):
            yield _damaged(file, position, base, "misses the end of its properties")
            if bad_bodies and (rescued := _take(file, position, base, "crc")) is not None:
                yield rescued
            position += status
            continue
        if status > 0:
            rescued = _take(file, position, base)
            if rescued is not None:
                base = own_offset(data, position) - position if base is None else base
                yield rescued
                position += status
                continue
        if status == BLANK_HERE and _blank_fits(data, position):
            return
        if status in (BAD_CRC, BAD_PROPERTY_CRC):
            yield _damaged(file, position, base, "has another body than was stored")
            if bad_bodies and (rescued := _take(file, position, base, "crc")) is not None:
                yield rescued
            position += read_record(data, position, base or 0).total_size
            continue
        following, base_there = _next(file, position + 1, base)
        stop = following if following >= 0 else written_end(data, position, file.data_end)
        if stop > position:
            yield _loss(file.path, (base or 0) + position, stop - position, "no record here")
        if following < 0:
            return
        position, base = following, base_there


def _is_torn(data: bytes, position: int, length: int) -> bool:
    """Whether the last record before damage, or of the log, ends in zeros itself."""
    end = position + length
    if data[end - 1] or not read_record(data, position).properties.endswith(b"\0"):
        return False
    following = check_record(data, end, check_crc=False)
    return following <= 0 and not (following == BLANK_HERE and _blank_fits(data, end))


def _damaged(file: FileBytes, position: int, base: int | None, what: str) -> DamageRow:
    """The loss of a record whose head can be read."""
    record = read_record(file.data, position, base or 0)
    where = f"{record.topic.decode('utf-8', 'replace')}/{record.queue_id}"
    detail = f"the message of {where}, queue offset {record.queue_offset}, {what}"
    return _loss(file.path, (base or 0) + position, record.total_size, detail)


def _begins_at(data: bytes, position: int, base: int) -> bool:
    return check_record(data, position) > 0 and own_offset(data, position) == base + position


def _likely_base(data: bytes, named: int) -> int | None:
    """The base of a file whose first record does not fit its name: the name, or what others say."""
    if any(_begins_at(data, hit.start() - 4, named) for hit in _MAGIC.finditer(data)):
        return named
    return None


def _blank_fits(data: bytes, position: int) -> bool:
    return int.from_bytes(data[position : position + 4], "big") == len(data) - position


def _next(file: FileBytes, start: int, base: int | None) -> tuple[int, int | None]:
    """The next believable record from ``start`` on and the base it stands for; -1 if none."""
    data = file.data
    other = -1
    at = start + 4
    while (hit := _MAGIC.search(data, at, file.data_end)) is not None:
        position = hit.start() - 4
        at = hit.start() + 1
        if check_record(data, position) <= 0:
            continue
        said = own_offset(data, position) - position
        if said == base:
            return position, base
        if other < 0 and _is_chain(data, position, said):
            other = position
            if base is None:
                break
    if other < 0:
        return -1, base
    return other, own_offset(data, other) - other


def _is_chain(data: bytes, position: int, base: int) -> bool:
    """Whether a record is no accident: it holds a body, or another one follows it."""
    record = read_record(data, position)
    if base < 0:
        return False
    return record.body_length > 0 or _begins_at(data, position + record.total_size, base)


def _take(file: FileBytes, position: int, base: int | None, note: str = "") -> Rescued | None:
    try:
        message = decode_record(file.data, position)
    except RemoteProtocolError:
        return None
    if not note and base is not None and message.physical_offset != base + position:
        note = "moved"
    data = bytes(file.data[position : position + message.total_size])
    return Rescued(str(file.path), position, data, message, note)


def is_filler(message: MessageExt) -> bool:
    """Whether a record is one that a repair put there."""
    return message.topic == FILLER_TOPIC and message.body.startswith(_FILLER_WORDS)


def is_wanted(message: MessageExt, query: Query) -> bool:
    """Whether a message has the topic and lies within the times of a query."""
    if query.topic not in (None, message.topic):
        return False
    if query.begin_ms is not None and message.store_timestamp < query.begin_ms:
        return False
    return query.end_ms is None or message.store_timestamp < query.end_ms


def _loss(path: Path, physical_offset: int, length: int, detail: str) -> DamageRow:
    return DamageRow(
        kind=LOST,
        severity="error",
        path=str(path),
        physical_offset=physical_offset,
        length=length,
        detail=detail,
        suggestion=SUGGESTIONS["magic"].split(";")[0],
    )


def lost_messages(source: Path, losses: Sequence[DamageRow]) -> Iterator[LostMessage]:
    """The messages that a store's ConsumeQueues know of in what was lost, by topic and queue."""
    extents = sorted(
        (row.physical_offset, row.physical_offset + row.length)
        for row in losses
        if row.physical_offset is not None and row.length
    )
    try:
        store = StoreDirectory(source)
    except StoreError:
        return
    if not extents or store.root is None:
        return
    files = OpenFiles()
    for found in store.queue_files():
        if found.kind == "classic":
            yield from _lost_of(Queue(found, files), extents)
    files.close()


def _lost_of(queue: Queue, extents: list[tuple[int, int]]) -> Iterator[LostMessage]:
    for file in queue.files:
        for at in _inside(queue, file.path, file.count, extents):
            unit = queue.unit(file.first + at)
            if unit is not None and 0 < unit.size < 1 << 30:
                yield LostMessage(
                    topic=queue.topic,
                    queue_id=queue.queue_id,
                    queue_offset=file.first + at,
                    physical_offset=unit.physical_offset,
                    store_size=unit.size,
                )


def _inside(queue: Queue, path: Path, count: int, extents: list[tuple[int, int]]) -> Iterator[int]:
    """Places of units that lead into one of the extents."""
    data = queue.open.get(path).data
    if has_columns():
        import numpy as np

        physical = unit_array(data)["physical"][:count].astype(np.int64)
        hit = np.zeros(len(physical), dtype=bool)
        for begin, end in extents:
            hit |= (physical >= begin) & (physical < end)
        yield from np.flatnonzero(hit).tolist()
        return
    for at in range(count):
        physical_offset = int.from_bytes(data[at * 20 : at * 20 + 8], "big")
        if any(begin <= physical_offset < end for begin, end in extents):
            yield at


class RescuedRows:
    """The salvaged messages as rows, one pass; afterwards what was lost.

    Iterating gives the messages that match ``query`` (topic, times) with bodies in its form.
    """

    def __init__(self, sources: Sequence[Path], query: Query, *, bad_bodies: bool = False) -> None:
        self._sources = sources
        self._query = query
        self._bad_bodies = bad_bodies
        self.losses: list[DamageRow] = []
        self.count = 0

    def __iter__(self) -> Iterator[MessageRow]:
        for item in salvage(self._sources, bad_bodies=self._bad_bodies):
            if isinstance(item, DamageRow):
                self.losses.append(item)
            elif not is_filler(item.message):
                yield from self._rows(item)

    def _rows(self, item: Rescued) -> Iterator[MessageRow]:
        message, query = item.message, self._query
        if not is_wanted(message, query):
            return
        try:
            messages = unwrap_inner_batch(message)
        except RemoteProtocolError:
            messages = [message]
        for one in messages:
            row, _ = message_row(one, query, None, crc_ok=item.note != "crc")
            self.count += 1
            yield row

    @property
    def lost_bytes(self) -> int:
        """Bytes that could not be read as records."""
        return sum(row.length or 0 for row in self.losses)

    def lost_messages(self) -> Iterator[LostMessage]:
        """Messages that the ConsumeQueues of the sources know of in what was lost."""
        for source in self._sources:
            if source.is_dir():
                yield from lost_messages(source, self.losses)
