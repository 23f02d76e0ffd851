"""Filter the records of the log and convert them to message rows."""

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from broker.common.sysflag import INNER_BATCH
from broker.errors import RemoteProtocolError, StoreError
from broker.message.batch import unwrap_inner_batch
from broker.message.message import PROPERTY_KEYS, PROPERTY_UNIQ_KEY, MessageExt
from broker.message.message import split_keys as split_words
from broker.message.record import decode_record
from broker.store.format.commitlog import LogRecord, is_plausible, store_timestamp
from mqadmin.inspector.damage import ERROR, WARNING, found
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.inspector.log import LogItem, LogWalk
from mqadmin.inspector.query import ALL_ROWS, Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.message_row import MessageRow, body_text, row_of

# Greatest backward step of storeTimestamp that is allowed for when whole files are skipped.
CLOCK_STEP_MS: Final = 3_600_000


def scan_messages(
    store: StoreDirectory, query: Query = ALL_ROWS
) -> Iterator[MessageRow | DamageRow]:
    """Yield matching messages of the log and damaged regions in physical order.

    ``query.id`` is ignored; :func:`mqadmin.inspector.queries.find.message_rows` applies it.
    """
    match = Matcher(query)
    broker_name = store.broker_name()
    start = max(query.from_offset or 0, start_by_time(store, query.begin_ms))
    for item in LogWalk(store, start=start, check_crc=query.check_crc):
        if item.damage is not None:
            if not match.is_after(item.damage.physical_offset):
                yield item.damage
        elif item.record is not None:
            if match.is_after(item.record.physical_offset):
                return
            if match.record(item.record):
                yield from record_rows(item, match, broker_name)


def record_rows(
    item: LogItem, match: "Matcher", broker_name: str | None
) -> Iterator[MessageRow | DamageRow]:
    """Yield the matching messages of one record: one, or those of an inner batch."""
    assert item.record is not None
    try:
        message = decode_record(item.file.data, item.record.position)
        messages = [message]
    except RemoteProtocolError as error:
        yield _undecoded(item, error, "content", ERROR)
        return
    try:
        messages = unwrap_inner_batch(message)
    except RemoteProtocolError as error:
        yield _undecoded(item, error)
    # The keys of an inner batch's record apply to all of its messages.
    whole = match.message(message)
    for one in messages:
        if whole or match.message(one):
            row, problem = message_row(one, match.query, broker_name, crc_ok=item.ok)
            if one is not message:
                # As in Java clients, the sysFlag is that of the record.
                row = structs.replace(row, sys_flag=message.sys_flag)
            if problem is not None and item.ok:
                yield _undecoded(item, problem)
            yield row


def _undecoded(
    item: LogItem, error: RemoteProtocolError, kind: str = "decompress", severity: str = WARNING
) -> DamageRow:
    assert item.record is not None
    return found(
        kind,
        str(item.file.path),
        error.message,
        physical_offset=item.record.physical_offset,
        length=item.record.total_size,
        severity=severity,
    )


def message_row(
    message: MessageExt, query: Query, broker_name: str | None, *, crc_ok: bool
) -> tuple[MessageRow, RemoteProtocolError | None]:
    """Convert a message to a row; also returns the error of its body (then hex, as stored)."""
    body, encoding, problem = None, None, None
    if query.body != "none":
        stored = query.raw
        try:
            data = message.body if stored else message.payload()
        except RemoteProtocolError as error:
            data, problem, stored = message.body, error, True
        body, encoding = body_text(data, "hex" if problem else query.body)
    row = row_of(message, broker_name, crc_ok=crc_ok, body=body, body_encoding=encoding)
    return row, problem


class Matcher:
    """Tests a query's conditions, first on the record, then on the decoded message."""

    __slots__ = ("_begin", "_end", "_from", "_key", "_queue_id", "_to", "_topic", "query")

    def __init__(self, query: Query) -> None:
        self.query = query
        self._topic = None if query.topic is None else query.topic.encode("utf-8", "replace")
        self._key = None if query.key is None else query.key.encode("utf-8", "replace")
        self._queue_id = query.queue_id
        self._from = query.from_offset
        self._to = query.to_offset
        self._begin = query.begin_ms
        self._end = query.end_ms

    def is_after(self, physical_offset: int | None) -> bool:
        """Whether a physical offset is at or past ``to_offset``."""
        return self._to is not None and physical_offset is not None and physical_offset >= self._to

    def record(self, record: LogRecord) -> bool:
        """Whether the record can match; exact except for keys."""
        if self._topic is not None and record.topic != self._topic:
            return False
        if self._queue_id is not None and record.queue_id != self._queue_id:
            return False
        if self._from is not None and record.physical_offset < self._from:
            return False
        if self._begin is not None and record.store_timestamp < self._begin:
            return False
        if self._end is not None and record.store_timestamp >= self._end:
            return False
        if self._key is None or self._key in record.properties:
            return True
        # The messages of an inner batch and their keys are in its body.
        return bool(record.sys_flag & INNER_BATCH)

    def message(self, message: MessageExt) -> bool:
        """Whether the message has the key of the query, if there is one."""
        key = self.query.key
        if key is None:
            return True
        properties = message.properties
        return properties.get(PROPERTY_UNIQ_KEY) == key or key in split_words(
            properties.get(PROPERTY_KEYS)
        )


def start_by_time(store: StoreDirectory, begin_ms: int | None) -> int:
    """Return the start of the last file before which all records are older than ``begin_ms``."""
    start = 0
    if begin_ms is None:
        return start
    for file in store.log_files():
        try:
            with open_bytes(file.path) as opened:
                if not is_plausible(opened.data, 0, file.start):
                    break
                first = store_timestamp(opened.data, 0)
        except StoreError:
            break  # the scan reports the unreadable file
        if first > begin_ms - CLOCK_STEP_MS:
            break
        start = file.start
    return start
