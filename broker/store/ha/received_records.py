"""ReceivedRecords: validates replicated bytes before they are appended and acknowledged.

Transfers may end in the middle of a record. Only whole records whose magic, lengths, body CRC and
own physical offset are valid are released for appending, so that the slave's log always ends with
a record and an acknowledged offset means valid records. The blank part at the end of a file is
released as a whole, too: the next connection, or a slave that becomes the master, could not
distinguish its rest from records. Only a blank part longer than the longest record, which repairs
write, is released in parts; ``blank_end`` resumes it.

Records are released up to the first one of a topic that is not in ``known_topics``: the topic's
attributes decide the kind of its queues, so they must be on this disk before the record.

**Source:** no Java counterpart; DefaultHAClient#dispatchReadRequest appends without a check.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple

from broker.errors import StoreError
from broker.message.record import peek_record_size
from broker.store.format.commitlog import (
    BAD_BLANK,
    BLANK_HERE,
    BLANK_SIZE,
    TRUNCATED,
    check_record,
    decode_blank,
    fits,
    own_offset,
)
from broker.store.format.ha import ReplicatedRecord, decode_replicated, peek_replicated

_NO_TIMESTAMP: Final = 0


class Validated(NamedTuple):
    """Bytes to append at ``physical_offset``; the storeTimestamp (ms) of the last record in them.

    ``store_timestamp`` is 0 if they contain no record (the blank part at the end of a file).
    ``records``: those in ``data``; empty if it contains anything that they do not describe.
    """

    physical_offset: int
    data: bytes
    store_timestamp: int
    records: Sequence[ReplicatedRecord] = ()


class ReceivedRecords:
    """The bytes after the slave's last record, until they form whole records.

    ``physical_offset`` is the next offset to append at, ``file_size`` the length of a CommitLog
    file and ``max_record_size`` the longest record accepted, both in bytes. ``blank_end`` is the
    end of a blank part that earlier connections have released a part of. ``known_topics`` holds
    encoded names; None accepts every topic. ``deleted_before``: a topic that is not known → the
    physical offset before which its records are accepted nevertheless.
    """

    def __init__(
        self,
        physical_offset: int,
        file_size: int,
        max_record_size: int,
        blank_end: int = 0,
        *,
        known_topics: Container[bytes] | None = None,
        deleted_before: Mapping[bytes, int] | None = None,
    ) -> None:
        self._start = physical_offset
        self._file_size = file_size
        self._max_record_size = max_record_size
        self._pending = b""
        self._known_topics = known_topics
        self._deleted_before = {} if deleted_before is None else deleted_before
        # Topic of the first record that is not released; None if every complete one is.
        self.unknown_topic: bytes | None = None
        # End of the long blank part that is being received; 0 outside of one.
        self.blank_end = blank_end if blank_end > physical_offset else 0

    @property
    def next_offset(self) -> int:
        """Physical offset of the next byte to receive."""
        return self._start + len(self._pending)

    @property
    def pending_bytes(self) -> int:
        """Received bytes that are not released: part of a record, or an unknown topic's records."""
        return len(self._pending)

    def start_at(self, physical_offset: int) -> None:
        """Start an empty log at the master's first offset; StoreError if bytes were received."""
        if self._start or self._pending:
            raise StoreError(f"replication has started at physical offset {self._start}")
        self._start = physical_offset

    def feed(self, physical_offset: int, data: bytes) -> Validated | None:
        """Return the bytes that are complete now, None while a record is incomplete.

        Empty ``data`` releases records of a topic that was unknown before.
        StoreError naming the physical offset if ``data`` does not continue the log or a record is
        invalid.
        """
        if physical_offset != self.next_offset:
            raise StoreError(
                f"the master sent physical offset {physical_offset}, expected {self.next_offset}",
                "the slave connects again and reports its own end",
                physical_offset=physical_offset,
            )
        data = self._pending + data if self._pending else data
        self.unknown_topic = None
        start = self._start
        records: list[ReplicatedRecord] = []
        position, timestamp, complete = self._scan(data, records)
        self._pending = data[position:]
        self._start = start + position
        if not position:
            return None
        valid = data[:position] if self._pending else data
        return Validated(start, valid, timestamp, records if complete else ())

    def _scan(self, data: bytes, records: list[ReplicatedRecord]) -> tuple[int, int, bool]:
        """Return the end of the last whole record in ``data`` and its storeTimestamp.

        Fills ``records``; the third value is whether they describe everything up to the end.
        """
        position, timestamp, complete = 0, _NO_TIMESTAMP, True
        known = self._known_topics
        while True:
            offset = self._start + position
            if self.blank_end:
                complete = False
                taken = min(len(data) - position, self.blank_end - offset)
                position += taken
                if offset + taken < self.blank_end:
                    return position, timestamp, complete
                self.blank_end = 0
                continue
            rest_of_file = self._file_size - offset % self._file_size
            record = peek_replicated(data, position, offset)
            if record is None:
                size = check_record(data, position)
                # ``data`` need not extend to the end of the file: the length is checked here.
                if size in (BLANK_HERE, BAD_BLANK):
                    if decode_blank(data, position) != rest_of_file:
                        raise self._invalid(offset, "a blank record of a wrong length")
                    if rest_of_file > self._max_record_size:
                        self.blank_end = offset + rest_of_file
                        continue
                    if len(data) - position < rest_of_file:
                        return position, timestamp, complete
                    complete = False
                    position += rest_of_file
                    continue
                if size == TRUNCATED:
                    self._check_rest(data, position, rest_of_file)
                    return position, timestamp, complete
                if size < 0:
                    raise self._invalid(offset, "an invalid record")
                record = decode_replicated(data, position, offset)
            size = record.size
            if size > self._max_record_size or not fits(size, rest_of_file):
                raise self._invalid(offset, f"a record of {size} bytes")
            if own_offset(data, position) != offset:
                raise self._invalid(offset, f"a record of offset {own_offset(data, position)}")
            if (
                known is not None
                and record.topic not in known
                and offset >= self._deleted_before.get(record.topic, 0)
            ):
                self.unknown_topic = record.topic
                return position, timestamp, complete
            timestamp = record.store_timestamp
            records.append(record)
            position += size

    def _check_rest(self, data: bytes, position: int, rest_of_file: int) -> None:
        """Check the length of an incomplete record, if it was received: it must fit the file."""
        if len(data) - position >= BLANK_SIZE:
            size = peek_record_size(data, position)
            if size > self._max_record_size or not fits(size, rest_of_file):
                raise self._invalid(self._start + position, f"a record of {size} bytes")

    def _invalid(self, offset: int, description: str) -> StoreError:
        return StoreError(
            f"the master sent {description} at physical offset {offset}",
            "check the master's store: mqadmin store verify",
            physical_offset=offset,
        )
