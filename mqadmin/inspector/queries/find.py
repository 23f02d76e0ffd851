"""Find messages by key or uniqKey (IndexFiles, else a scan of the log) or by offsetMsgId."""

from collections.abc import Iterator

from msgspec import structs

from broker.errors import RemoteProtocolError, StoreError
from broker.message.message_id import parse_offset_msg_id
from broker.store.format.commitlog import check_record
from mqadmin.inspector.damage import found
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.index import known_topics, offsets_of_key
from mqadmin.inspector.log import LogItem, LogReader
from mqadmin.inspector.queries.messages import Matcher, record_rows, scan_messages
from mqadmin.inspector.query import ALL_ROWS, Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.message_row import MessageRow

SCANS = ("auto", "always", "never")


def message_rows(
    store: StoreDirectory, query: Query = ALL_ROWS
) -> Iterator[MessageRow | DamageRow]:
    """Return matching messages and damaged regions of the log in physical order.

    With ``query.id`` the id is looked up as in :func:`find_id`, without the index.
    """
    if query.id is None:
        return scan_messages(store, query)
    return find_id(store, query.id, query, "always")


def find_key(
    store: StoreDirectory, key: str, query: Query = ALL_ROWS, scan: str = "auto"
) -> Iterator[MessageRow | DamageRow]:
    """Yield messages with ``key`` as a word of KEYS or as UNIQ_KEY, in physical order.

    The index is searched for ``query.topic``, or for every topic of the store (including retry and
    DLQ topics), and each hit is compared with its record. ``scan``: "auto" also scans the parts of
    the log that no IndexFile covers (the whole log if there is no IndexFile, or if no known topic
    has the key), "always" scans the whole log instead, "never" reads only the index. The other
    conditions of ``query`` apply, too.
    """
    if scan not in SCANS:
        raise StoreError(f"scan is one of {', '.join(SCANS)}, not {scan}")
    query = structs.replace(query, key=key, id=None)
    if scan == "auto" and _has_batches(store, query.topic):
        scan = "always"  # the keys of messages within inner batches are in no index
    if scan == "always" or not store.index_files():
        if scan != "never":
            yield from scan_messages(store, query)
        return
    topics = [query.topic] if query.topic is not None else known_topics(store)
    offsets, covered = offsets_of_key(store, topics, key)
    if scan == "never":
        yield from _at(store, sorted(offsets), query)
        return
    if not offsets and query.topic is None:
        # It may be indexed under a deleted topic, whose name only the log contains.
        yield from scan_messages(store, query)
        return
    for begin, end in uncovered_ranges(covered):
        # Hits of the index before this part, then a scan of the part.
        before = sorted(offset for offset in offsets if offset < begin)
        offsets = offsets.difference(before)
        yield from _at(store, before, query)
        yield from _part(store, query, begin, end)
        offsets = {offset for offset in offsets if end is not None and offset >= end}
    yield from _at(store, sorted(offsets), query)


def _has_batches(store: StoreDirectory, topic: str | None) -> bool:
    return any(queue.kind == "batch" for queue in store.queue_files(topic))


def uncovered_ranges(covered: list[tuple[int, int]]) -> list[tuple[int, int | None]]:
    """Return parts of the log [begin, end) that no IndexFile covers; None is the end of the log.

    A file covers the range of its records; ranges between two files are not covered.
    """
    parts: list[tuple[int, int | None]] = []
    position = 0
    for first, last in covered:
        if first > position:
            parts.append((position, first))
        position = max(position, last)
    parts.append((position, None))
    return parts


def _part(
    store: StoreDirectory, query: Query, begin: int, end: int | None
) -> Iterator[MessageRow | DamageRow]:
    """Scan a part of the log, within the range of the query."""
    first = begin if query.from_offset is None else max(begin, query.from_offset)
    ends = [bound for bound in (end, query.to_offset) if bound is not None]
    stop = min(ends) if ends else None
    if stop is None or first < stop:
        yield from scan_messages(store, structs.replace(query, from_offset=first, to_offset=stop))


def _at(
    store: StoreDirectory, offsets: list[int], query: Query
) -> Iterator[MessageRow | DamageRow]:
    """Yield the matching messages at physical offsets.

    Offsets outside the log or in unwritten space are skipped: their records have expired, or a
    crash left the index ahead of its log. Other offsets without a valid record are reported as
    corruption.
    """
    match = Matcher(query)
    broker_name = store.broker_name()
    with LogReader(store) as log:
        for offset in offsets:
            place = log.record(offset)
            if place is None:
                yield from _no_record(log, offset)
                continue
            if match.is_after(offset) or not match.record(place[1]):
                continue
            file, record = place
            ok = check_record(file.data, record.position, check_crc=query.check_crc) > 0
            if not ok:
                yield found(
                    "crc",
                    str(file.path),
                    "the body or the record is not the one that was stored",
                    physical_offset=offset,
                    length=record.total_size,
                )
            yield from record_rows(LogItem(file, record=record, ok=ok), match, broker_name)


def _no_record(log: LogReader, offset: int) -> Iterator[DamageRow]:
    place = log.place(offset)
    if place is None:
        return
    file, data = place
    if data is None:
        detail = "the index leads to a record in this file, which cannot be read"
        yield found("unreadable", str(file.path), detail, physical_offset=offset)
        return
    position = offset - file.start
    if any(data.data[position : position + 8]):
        detail = "the index leads here, but no record can be read"
        yield found("content", str(file.path), detail, physical_offset=offset)


def find_id(
    store: StoreDirectory, message_id: str, query: Query = ALL_ROWS, scan: str = "auto"
) -> Iterator[MessageRow | DamageRow]:
    """Yield the message of an offsetMsgId, or all messages with a uniqKey.

    The two kinds of id have the same form. An id that parses as an offsetMsgId is read at its
    physical offset (its address is not compared, because stores are copied). If no record starts
    there, or the id does not parse, it is searched as a uniqKey (``scan`` as in :func:`find_key`).
    """
    query = structs.replace(query, id=None)
    try:
        _, _, offset = parse_offset_msg_id(message_id)
    except RemoteProtocolError:
        offset = -1
    with LogReader(store) as log:
        is_there = offset >= 0 and log.record(offset) is not None
    if is_there:
        yield from _at(store, [offset], query)
        return
    yield from find_key(store, message_id, query, scan)
