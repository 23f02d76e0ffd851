"""Return headers and entries of IndexFiles as rows, and the physical offsets of a key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.errors import ConfigError, RemoteProtocolError, StoreError
from broker.store.format import indexfile
from broker.store.format.indexfile import IndexEntry, IndexHeader
from mqadmin.inspector.configs import read_topics
from mqadmin.inspector.damage import WARNING, found
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import FileBytes, open_bytes
from mqadmin.inspector.query import ALL_ROWS, Query
from mqadmin.inspector.rows import DamageRow, IndexRow

_PIECE: Final = 1 << 16  # bytes per step of the search for non-zero bytes


def index_rows(store: StoreDirectory, query: Query = ALL_ROWS) -> Iterator[IndexRow | DamageRow]:
    """Return the header of each file, its matching entries, and corruption.

    Conditions on physical offset and time (resolution one second) apply to the entries; a file
    without a matching entry is left out. A key is hashed with a topic: without ``query.topic``,
    with every topic of the store; ConfigError if none is known.
    """
    return _rows(store, query, _hashes(store, query))


def _rows(
    store: StoreDirectory, query: Query, hashes: set[int] | None
) -> Iterator[IndexRow | DamageRow]:
    for path in store.index_files():
        try:
            with open_bytes(path) as file:
                yield from _file_rows(file, query, hashes)
        except StoreError as error:
            yield found("unreadable", str(path), error.message)


def _hashes(store: StoreDirectory, query: Query) -> set[int] | None:
    if query.key is None:
        return None
    topics = [query.topic] if query.topic is not None else known_topics(store)
    if not topics:
        raise ConfigError(
            f"key {query.key} ({store.path}): no topic is known, and an index entry has only a "
            "hash of topic and key",
            "add --topic TOPIC, or name the store directory",
        )
    return {indexfile.index_key_hash(topic, query.key) for topic in topics}


def _file_rows(
    file: FileBytes, query: Query, hashes: set[int] | None
) -> Iterator[IndexRow | DamageRow]:
    path = str(file.path)
    if not file.path.name.isdecimal():
        yield found("name", path, "not named after a time", severity=WARNING)
        return
    try:
        header = indexfile.decode_header(file.data)
    except RemoteProtocolError as error:
        yield found("index", path, error.message, length=len(file))
        return
    slots = indexfile.probe_slot_count(file.data)
    head = [IndexRow(record="file", path=path, slots=slots or None, **header._asdict())]
    if not _narrows(query):
        yield head.pop()
    yield from _header_damage(file, header)
    if header.index_count <= 1:
        return
    if slots == 0:
        yield found("index", path, "header, slots and entries do not fit together")
        return
    for entry in indexfile.scan_entries(file.data, slots):
        damage = _entry_damage(entry, path, slots)
        if damage is not None:
            yield damage
        elif _matches(entry, header, query, hashes):
            if head:
                yield head.pop()
            yield IndexRow(
                record="entry",
                path=path,
                slot=entry.key_hash % slots,
                entry=entry.number,
                key_hash=entry.key_hash,
                physical_offset=entry.physical_offset,
                time_diff_seconds=entry.time_diff_seconds,
                previous_entry=entry.previous_entry,
            )


def _header_damage(file: FileBytes, header: IndexHeader) -> Iterator[DamageRow]:
    """Report header fields that are invalid for any entries."""
    path = str(file.path)
    entries = header.index_count - 1
    if entries <= 0:
        # A broker writes an entry before it counts it, so the count is read again from disk.
        if _has_content(file) and _count_on_disk(file.path) <= 1:
            yield found("index", path, "the header counts no entries, but the file holds some")
        return
    if not 0 < header.hash_slot_count <= entries:
        detail = f"the header counts {header.hash_slot_count} slots are in use by {entries} entries"
        yield found("index", path, detail)
    for name, value in header._asdict().items():
        if value < 0:
            yield found("index", path, f"the header's {name} is {value}")


def is_blank(file: FileBytes) -> bool:
    """Whether a file of at least a header holds only zeros: Java reads it as one without entries.

    **Source:** RocketMQ IndexHeader#load.
    """
    return len(file) >= indexfile.HEADER_SIZE and not _has_content(file, 0)


def _has_content(file: FileBytes, start: int = indexfile.HEADER_SIZE) -> bool:
    """Whether there are non-zero bytes from ``start`` on: by default in slots or entries."""
    for position in range(start, file.data_end, _PIECE):
        if any(file.data[position : min(position + _PIECE, file.data_end)]):
            return True
    return False


def _count_on_disk(path: Path) -> int:
    with open_bytes(path) as file:
        return indexfile.decode_header(file.data).index_count


def _entry_damage(entry: IndexEntry, path: str, slots: int) -> DamageRow | None:
    if (
        entry.key_hash >= 0
        and entry.physical_offset >= 0
        and entry.time_diff_seconds >= 0
        and 0 <= entry.previous_entry < entry.number
    ):
        return None
    return found(
        "index",
        path,
        f"entry {entry.number}: hash {entry.key_hash}, physical offset {entry.physical_offset},"
        f" {entry.time_diff_seconds} s, previous entry {entry.previous_entry}",
        file_position=indexfile.entry_position(entry.number, slots),
        length=indexfile.ENTRY_SIZE,
    )


def _narrows(query: Query) -> bool:
    conditions = (query.from_offset, query.to_offset, query.begin_ms, query.end_ms, query.key)
    return any(value is not None for value in conditions)


def _matches(entry: IndexEntry, header: IndexHeader, query: Query, hashes: set[int] | None) -> bool:
    if hashes is not None and entry.key_hash not in hashes:
        return False
    if query.from_offset is not None and entry.physical_offset < query.from_offset:
        return False
    if query.to_offset is not None and entry.physical_offset >= query.to_offset:
        return False
    time = header.begin_timestamp + entry.time_diff_seconds * 1000
    if query.begin_ms is not None and time + 999 < query.begin_ms:
        return False
    return query.end_ms is None or time < query.end_ms


def known_topics(store: StoreDirectory) -> list[str]:
    """Return the topics that keys may be indexed under: with a queue, or in topics.json."""
    return sorted({*store.topics(), *read_topics(store)})


def offsets_of_key(
    store: StoreDirectory, topics: list[str], key: str
) -> tuple[set[int], list[tuple[int, int]]]:
    """Return the physical offsets of a key in the index, and the parts of the log it covers.

    The parts are (first, last) physical offsets of each readable file's entries, sorted. Times are
    not trusted: chains are followed to their ends. The caller compares hits with their records,
    because several keys share a hash.
    """
    hashes = {indexfile.index_key_hash(topic, key) for topic in topics}
    offsets: set[int] = set()
    covered: list[tuple[int, int]] = []
    for path in store.index_files():
        part = _chains(path, hashes, offsets)
        if part is not None:
            covered.append(part)
    return offsets, sorted(covered)


def _chains(path: Path, hashes: set[int], offsets: set[int]) -> tuple[int, int] | None:
    try:
        with open_bytes(path) as file:
            header = indexfile.decode_header(file.data)
            slots = indexfile.probe_slot_count(file.data) if header.index_count > 1 else 0
            if slots == 0:
                return None
            for key_hash in hashes:
                for entry in indexfile.walk_chain(file.data, key_hash, slots):
                    offsets.add(entry.physical_offset)
            return header.begin_physical_offset, header.end_physical_offset
    except (StoreError, RemoteProtocolError):
        return None
