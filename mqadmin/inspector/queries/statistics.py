"""Count the messages of a log by topic, tag, key, producer host or size, with bounded memory."""

from collections.abc import Iterator
from typing import Final

import msgspec

from broker.common.address import IPV4_HOST_SIZE, IPV6_HOST_SIZE, decode_ip
from broker.common.sysflag import BORNHOST_V6, INNER_BATCH
from broker.message.message import KEY_SEPARATOR, PROPERTY_KEYS, PROPERTY_TAGS
from broker.message.properties import peek_property
from broker.store.format.commitlog import RECORD, LogRecord
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogItem, LogWalk
from mqadmin.inspector.queries.messages import Matcher, record_rows, start_by_time
from mqadmin.inspector.queries.summary import count_in_two_processes, count_records
from mqadmin.inspector.query import ALL_ROWS, Query
from mqadmin.inspector.rows import DamageRow

TOPIC: Final = "topic"
TAG: Final = "tag"
KEY: Final = "key"
HOST: Final = "host"
SIZE: Final = "size"
ATTRIBUTES: Final = (TOPIC, TAG, KEY, HOST, SIZE)

MAX_BYTES: Final = 64 << 20
"""Bound of the memory for groups."""
MAX_DAMAGED_REGIONS: Final = 1000
"""Damaged regions described one by one; more are only counted."""
# Memory of a group besides its name: entries of two containers and their integers (measured 290).
_GROUP_BYTES: Final = 300
_PORT_BYTES: Final = 4
_HOST_AT: Final = RECORD.offset("bornHost")
_TAGS: Final = PROPERTY_TAGS.encode()
_KEYS: Final = PROPERTY_KEYS.encode()
_BLANK: Final = KEY_SEPARATOR.encode()


class StatsRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Messages and stored bytes of one value of an attribute.

    ``value`` is None for messages without a tag or key. ``share`` is the fraction of all counted
    bytes, 0 to 1. ``fromBytes`` and ``toBytes`` (inclusive) bound the stored size of a message,
    only for sizes. ``maxMissed`` is greater than 0 if the group may have been dropped and entered
    again because of the memory bound: at most so many more messages belong to it.
    """

    by: str
    value: str | None
    messages: int
    bytes: int
    share: float
    average_bytes: float
    from_bytes: int | None = None
    to_bytes: int | None = None
    max_missed: int = 0


class Statistics(msgspec.Struct, kw_only=True):
    """The result of a scan: rows with the most bytes first, sizes in ascending order.

    ``messages`` and ``bytes`` are totals of the matching messages; a message with two keys is in
    two rows, but once in the totals. ``damaged_count`` counts the damaged regions, of which
    ``damaged_regions`` describes the first MAX_DAMAGED_REGIONS. ``dropped_messages`` belong to
    groups that are in no row because of the memory bound.
    """

    rows: list[StatsRow]
    messages: int
    bytes: int
    damaged_count: int
    damaged_regions: list[DamageRow]
    dropped_messages: int


class GroupCounter:
    """Counts messages and bytes by value; keeps the largest groups within a number of bytes.

    When the bound is reached, the half of the groups with the fewest messages is dropped. A group
    that appears later may be one of these, with at most ``_floor`` messages.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._used_bytes = 0
        self._groups: dict[bytes | int | None, list[int]] = {}
        self._floor = 0
        self.dropped_messages = 0

    def add(self, value: bytes | int | None, messages: int, size: int) -> None:
        """Count messages of one value."""
        group = self._groups.get(value)
        if group is not None:
            group[0] += messages
            group[1] += size
            return
        if self._used_bytes >= self._max_bytes:
            self._drop_half()
        self._groups[value] = [messages, size, self._floor]
        self._used_bytes += _bytes_of(value)

    def _drop_half(self) -> None:
        ordered = sorted(self._groups.items(), key=lambda item: item[1][0])
        for value, (messages, _, missed) in ordered[: (len(ordered) + 1) // 2]:
            self._floor = max(self._floor, messages + missed)
            self.dropped_messages += messages
            self._used_bytes -= _bytes_of(value)
            del self._groups[value]

    def totals(self) -> Iterator[tuple[bytes | int | None, int, int, int]]:
        """Value, messages, bytes, and the number of messages that may be missing."""
        for value, (messages, size, missed) in self._groups.items():
            yield value, messages, size, missed


def _bytes_of(value: bytes | int | None) -> int:
    return _GROUP_BYTES + (len(value) if isinstance(value, bytes) else 0)


class _Counting:
    """The counts of one scan."""

    def __init__(self, by: str, max_bytes: int) -> None:
        self.by = by
        self.groups = GroupCounter(max_bytes)
        self.messages = 0
        self.bytes = 0
        self.damaged_count = 0
        self.damaged_regions: list[DamageRow] = []

    def damage(self, row: DamageRow) -> None:
        self.damaged_count += 1
        if len(self.damaged_regions) < MAX_DAMAGED_REGIONS:
            self.damaged_regions.append(row)

    def add(self, values: list[bytes | int | None], messages: int, size: int) -> None:
        self.messages += messages
        self.bytes += size
        for value in values:
            self.groups.add(value, messages, size)

    def record(self, item: LogItem, record: LogRecord) -> None:
        """Count a record with one message."""
        self.add(self._values(item, record), 1, record.total_size)

    def _values(self, item: LogItem, record: LogRecord) -> list[bytes | int | None]:
        if self.by == TOPIC:
            return [record.topic]
        if self.by == SIZE:
            return [record.total_size.bit_length()]
        if self.by == HOST:
            wide = record.sys_flag & BORNHOST_V6
            length = (IPV6_HOST_SIZE if wide else IPV4_HOST_SIZE) - _PORT_BYTES
            at = record.position + _HOST_AT
            return [bytes(item.file.data[at : at + length])]
        if self.by == TAG:
            return [peek_property(record.properties, _TAGS)]
        return _keys(peek_property(record.properties, _KEYS))

    def batch(self, item: LogItem, record: LogRecord, match: Matcher) -> None:
        """Count the messages of an inner batch; they share the bytes of the record."""
        messages = []
        for row in record_rows(item, match, None):
            if isinstance(row, DamageRow):
                self.damage(row)
            else:
                messages.append(row)
        for number, row in enumerate(messages):
            size = record.total_size // len(messages)
            size += number < record.total_size % len(messages)
            if self.by == TAG:
                values: list[bytes | int | None] = [row.tags.encode() if row.tags else None]
            elif self.by == KEY:
                values = [*(key.encode() for key in row.keys)] or [None]
            elif self.by == SIZE:
                values = [size.bit_length()]
            else:
                values = self._values(item, record)
            self.add(values, 1, size)

    def result(self) -> Statistics:
        rows = [self._row(*total) for total in self.groups.totals()]
        if self.by == SIZE:
            rows.sort(key=lambda row: row.from_bytes or 0)
        else:
            rows.sort(key=lambda row: (-row.bytes, row.value or ""))
        return Statistics(
            rows=rows,
            messages=self.messages,
            bytes=self.bytes,
            damaged_count=self.damaged_count,
            damaged_regions=self.damaged_regions,
            dropped_messages=self.groups.dropped_messages,
        )

    def _row(self, value: bytes | int | None, messages: int, size: int, missed: int) -> StatsRow:
        first = last = None
        text: str | None
        if isinstance(value, int):
            first, last = (1 << value) >> 1, (1 << value) - 1
            text = f"{first}..{last}"
        elif value is not None and self.by == HOST:
            text = decode_ip(value)
        else:
            text = None if value is None else value.decode("utf-8", "replace")
        return StatsRow(
            by=self.by,
            value=text,
            messages=messages,
            bytes=size,
            share=round(size / self.bytes, 6) if self.bytes else 0.0,
            average_bytes=round(size / messages, 1),
            from_bytes=first,
            to_bytes=last,
            max_missed=missed,
        )


def _keys(text: bytes | None) -> list[bytes | int | None]:
    found: list[bytes | int | None] = []
    found += {word for word in (text or b"").split(_BLANK) if word}
    return found or [None]


def statistics(
    store: StoreDirectory, by: str, query: Query = ALL_ROWS, *, max_bytes: int = MAX_BYTES
) -> Statistics:
    """Count the messages that match ``query`` by ``by``, one of ATTRIBUTES, in one scan.

    A record with a damaged body is counted if its fields can be read, and its region is reported.
    ``max_bytes`` bounds the memory for groups.
    """
    counting = _Counting(by, max_bytes)
    if by == TOPIC and query == Query(check_crc=False):
        _count_whole_log(store, counting)
        return counting.result()
    match = Matcher(query)
    for item in LogWalk(
        store, start=start_by_time(store, query.begin_ms), check_crc=query.check_crc
    ):
        if item.damage is not None:
            counting.damage(item.damage)
        elif item.record is not None and match.record(item.record):
            if item.record.sys_flag & INNER_BATCH:
                counting.batch(item, item.record, match)
            else:
                counting.record(item, item.record)
    return counting.result()


def _count_whole_log(store: StoreDirectory, counting: _Counting) -> None:
    """Count by topic without reading properties: ten times as fast, with two processes."""
    for part in count_in_two_processes(store, False) or [count_records(store, False)]:
        for row in part.damaged_regions:
            counting.damage(row)
        for topic, _, messages, size in part.queues:
            counting.add([topic], messages, size)
