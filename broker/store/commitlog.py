"""CommitLog: the log of all messages; append, roll to the next file, read.

Only one thread appends, so there is no lock. ``max_offset`` advances after the whole record is
written, so other threads may read up to it at any time.

**Source:** RocketMQ CommitLog, DefaultAppendMessageCallback.
"""

from collections.abc import Callable, Sequence
from typing import Final

from broker.common.encoding.checksum import crc32
from broker.common.sysflag import BORNHOST_V6, STOREHOST_V6
from broker.errors import StoreError
from broker.message.record import (
    BODY_CRC_MASK,
    FIXED_SIZES,
    FIXED_STRUCTS,
    HOST_SHAPE_SHIFT,
    HOST_V6_SIZE,
    PROPERTIES_LENGTH_SIZE,
)
from broker.store.consumequeue.consume_queue import Topic
from broker.store.encoded_batch import EncodedBatch, Place
from broker.store.format.commitlog import (
    BLANK_SIZE,
    check_record,
    encode_blank,
    own_offset,
    peek_store_timestamp,
)
from broker.store.logfile.file_preparer import FilePreparer
from broker.store.logfile.mapped_file import MappedFile, MappedFileQueue
from broker.store.logfile.page_loader import LOADED_BYTES, PageLoader
from broker.store.results import MessageExtBrokerInner, RecordTooLargeError

# A batch keeps the storeTimestamp of the start of its encoding if it is appended within this time.
MAX_STAMP_AGE_MS: Final = 10
GATHERED_BYTES: Final = 256 << 10
"""Bytes of appended records that a broker writes at once, at the latest."""

_V6_BITS: Final = BORNHOST_V6 | STOREHOST_V6
# Bytes of a record besides body, topic (with its length) and properties, per host shape.
_SIZES: Final = tuple(size + PROPERTIES_LENGTH_SIZE for size in FIXED_SIZES)
_PACKS: Final = tuple(fixed.pack for fixed in FIXED_STRUCTS)


class CommitLog:
    """The log's files and its end.

    ``max_offset`` is the physical offset after the last written record, ``flushed_where`` the
    offset up to which everything is on the disk, ``last_store_timestamp`` the storeTimestamp (ms)
    of the last record, ``written_store_timestamp`` that of the last one below ``max_offset``.

    Each record is written when it is appended, or after :meth:`gather` together with others.
    """

    def __init__(self, files: MappedFileQueue, preparer: FilePreparer) -> None:
        self.files = files
        self.preparer = preparer
        self.pages = PageLoader(preparer.run)
        self.max_offset = 0
        self.flushed_where = 0
        self.last_store_timestamp = 0
        self.written_store_timestamp = 0
        self._file: MappedFile | None = None
        # Position in the current file up to which a record may extend (a blank record must fit
        # after it); -1 without a current file.
        self._limit = -1
        # Parts of the records that are appended and not yet written, and the position in the
        # current file after them; without any it is that file's ``written``.
        self._gathered: list[bytes | memoryview] = []
        self._gather_limit = 0
        self._end = 0

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte still in the log, 0 without files."""
        return self.files.files[0].start if self.files.files else 0

    @property
    def file_size(self) -> int:
        """Length of one file, bytes."""
        return self.files.file_size

    def open_at(self, end: int, last_store_timestamp: int) -> None:
        """Truncate the log to physical offset ``end``, found by recovery, and append there."""
        self.files.truncate(end)
        self.max_offset = self.flushed_where = end
        self.last_store_timestamp = self.written_store_timestamp = last_store_timestamp
        self._file = None
        self._limit = -1
        if self.files.files:
            last = self.files.files[-1]
            for file in self.files.files[:-1]:
                file.written = file.flushed = file.size
                file.release_descriptor()
            if last.start <= end <= last.start + last.size:
                self._file = last
                self._limit = last.size - BLANK_SIZE
                self.pages.start_file(last.written + LOADED_BYTES // 2)
                last.expect_writes(last.written)
                self._end = last.written

    def erase_after_end(self) -> None:
        """Overwrite the bytes of the last file after the end of the log with zeros, without a sync.

        Costs a write of the bytes that are not zeros, in blocks of at most 1 MiB.
        """
        if self._file is not None:
            self._file.clear_after(self._file.written)

    def append(
        self, inner: MessageExtBrokerInner, topic: Topic, queue_offset: int, now: int
    ) -> tuple[int, int]:
        """Append one message; (physical offset, size of its record in bytes).

        DiskFullError or StoreError if the next file cannot be created, RecordTooLargeError if the
        record is longer than a file; nothing is written then. The caller must have checked the
        limits of body, topic and properties.
        """
        body = inner.body
        properties = inner.properties
        born_host = inner.born_host
        store_host = inner.store_host
        body_size = len(body)
        properties_size = len(properties)
        shape = (len(born_host) == HOST_V6_SIZE) | (len(store_host) == HOST_V6_SIZE) << 1
        size = _SIZES[shape] + body_size + topic.stored_size + properties_size
        file = self._file
        if file is None or self._end + size > self._limit:
            file = self._roll(size)
        position = self._end
        physical_offset = file.start + position
        # storeTimestamp never decreases, even if the clock is set back: searches by time are
        # binary searches.
        store_timestamp = self.last_store_timestamp
        if now > store_timestamp:
            store_timestamp = now
        self._gathered += (
            _PACKS[shape](
                size,
                topic.magic,
                crc32(body) & BODY_CRC_MASK,
                inner.queue_id,
                inner.flag,
                queue_offset,
                physical_offset,
                inner.sys_flag & ~_V6_BITS | shape << HOST_SHAPE_SHIFT,
                inner.born_timestamp,
                born_host,
                store_timestamp,
                store_host,
                inner.reconsume_times,
                inner.prepared_transaction_offset,
                body_size,
            ),
            body,
            topic.stored,
            properties_size.to_bytes(PROPERTIES_LENGTH_SIZE, "big"),
            properties,
        )
        self.last_store_timestamp = store_timestamp
        self._end = position + size
        if self._end - file.written >= self._gather_limit:
            self.write_gathered()
        return physical_offset, size

    @staticmethod
    def check_numbers(inner: MessageExtBrokerInner) -> None:
        """Raise struct.error if a number of the message does not fit its field.

        For puts that create a ConsumeQueue file: :meth:`append` raises it after that.
        """
        _PACKS[0](
            *(0, 0, 0, inner.queue_id, inner.flag, 0, 0, inner.sys_flag, inner.born_timestamp),
            *(b"", 0, b"", inner.reconsume_times, inner.prepared_transaction_offset, 0),
        )

    def gather(self) -> Callable[[], None]:
        """From now on gather the appended records; return the function that writes them.

        It must be called before the response to a put is sent. Written one by one, records of 1 KiB
        cost a fault per page, and an interrupt of all processors per page that is written back.
        """
        self._gather_limit = GATHERED_BYTES
        return self.write_gathered

    def write_gathered(self) -> None:
        """Write the gathered records; until then no reader sees them.

        Only in the thread that appends: records that it gathers meanwhile would be lost.
        """
        parts = self._gathered
        file = self._file
        if not parts or file is None:
            return
        self._write(file, file.written, b"".join(parts))
        parts.clear()
        self._written_to(file, self._end)

    def _written_to(self, file: MappedFile, position: int) -> None:
        """Show readers the records up to ``position`` of the current file."""
        file.written = self._end = position
        self.max_offset = file.start + position
        self.written_store_timestamp = self.last_store_timestamp  # last: a flush reads it first

    @property
    def appended_offset(self) -> int:
        """Physical offset after the last record, gathered ones included."""
        return self.next_offset if self._gathered else self.max_offset

    @property
    def next_offset(self) -> int:
        """Physical offset of the next record, if the current file has space for it.

        Not :attr:`max_offset` after a put that failed when the next file was current already.
        """
        file = self._file
        return file.start + self._end if file is not None else self.max_offset

    def next_place(self, queue_offset: int, now: int) -> Place:
        """Place of a batch that is appended next, if the current file has space for it."""
        return Place(self.next_offset, queue_offset, max(now, self.last_store_timestamp))

    def append_batch(self, batch: EncodedBatch, queue_offset: int, now: int) -> int:
        """Append the records of a batch consecutively in one file; return the first's offset.

        ``queue_offset`` is that of the first record; the result is a physical offset. Errors as in
        :meth:`append`; nothing is written then. Readers see all records or none: ``max_offset``
        advances once.
        """
        size = len(batch.data)
        self.write_gathered()
        file = self.ensure_capacity(size)
        position = file.written
        physical_offset = file.start + position
        place = Place(physical_offset, queue_offset, max(now, self.last_store_timestamp))
        if (
            batch.place[:2] != place[:2]
            or place.store_timestamp - batch.place.store_timestamp > MAX_STAMP_AGE_MS
        ):
            batch.move(place)
        self.last_store_timestamp = batch.place.store_timestamp
        self._write(file, position, batch.data)
        self._written_to(file, position + size)
        return physical_offset

    def append_encoded(self, data: bytes | memoryview, store_timestamp: int) -> None:
        """Append records that were encoded for :attr:`next_offset` and ``store_timestamp``.

        They must fit into the current file: at most :attr:`capacity` bytes.
        """
        self.write_gathered()
        file = self._file
        assert file is not None, "capacity is 0 without a current file"
        position = file.written
        end = position + len(data)
        if end > self._limit:
            raise ValueError(f"{len(data)} bytes of records, {self._limit - position} fit")
        self._write(file, position, data)
        self.last_store_timestamp = store_timestamp
        self._written_to(file, end)

    def _write(self, file: MappedFile, position: int, data: bytes | bytearray | memoryview) -> None:
        file.write(position, data)
        self.pages.note_write(file, len(data))

    def load_ahead(self, *, sync_flush: bool) -> None:
        """Request the pages that the next appends write; called once per event-loop iteration."""
        if self._file is not None:
            self.pages.request(self._file, self.last_store_timestamp, sync_flush=sync_flush)

    @property
    def capacity(self) -> int:
        """Bytes of records that fit into the current file, 0 without one."""
        return self._limit - self._end if self._file is not None else 0

    def ensure_capacity(self, size: int) -> MappedFile:
        """Return the file for the next ``size`` bytes: the current one if they fit, else the next.

        Keeps the records of a batch consecutive in one file. Errors as in :meth:`append`.
        """
        file = self._file
        if file is None or self._end + size > self._limit:
            file = self._roll(size)
        return file

    def append_replica(
        self, data: bytes | memoryview, physical_offset: int, last_store_timestamp: int
    ) -> None:
        """Append validated bytes of the master's log at ``physical_offset``, unchanged.

        They must lie in one file. StoreError if they do not continue the log; an empty log starts
        at the start of a file. DiskFullError or StoreError if the file cannot be created.

        **Source:** RocketMQ CommitLog#appendData.
        """
        self.write_gathered()
        position = physical_offset % self.file_size
        if self.files.files and physical_offset != self.max_offset:
            raise StoreError(
                f"replicated bytes of physical offset {physical_offset}, the log ends at"
                f" {self.max_offset}",
                physical_offset=physical_offset,
            )
        if not self.files.files and position:
            raise StoreError(
                f"the first replicated byte has physical offset {physical_offset}, which is not"
                " the start of a file",
                physical_offset=physical_offset,
            )
        file = self._file
        if file is not None and file.start > physical_offset:
            file = self._remove_empty_file(position)
        if file is None or not position:
            file = self._append_file(self.preparer.take(physical_offset))
        self._write(file, position, data)
        self.last_store_timestamp = max(self.last_store_timestamp, last_store_timestamp)
        self._written_to(file, position + len(data))

    def record_size(self, inner: MessageExtBrokerInner, topic: Topic) -> int:
        """Length of a message's record, bytes."""
        born, store = inner.born_host, inner.store_host
        shape = (len(born) == HOST_V6_SIZE) | (len(store) == HOST_V6_SIZE) << 1
        return _SIZES[shape] + len(inner.body) + topic.stored_size + len(inner.properties)

    def read(self, physical_offset: int, size: int) -> memoryview | None:
        """``size`` bytes at ``physical_offset``; None outside the log or across two files.

        **Source:** RocketMQ CommitLog#getMessage.
        """
        end = physical_offset + size
        if size <= 0 or end > self.max_offset:
            return None
        file = self.files.find(physical_offset)
        if file is None:
            return None
        position = physical_offset - file.start
        if position + size > file.size:
            return None
        return file.view[position : position + size]

    def record_at(self, physical_offset: int) -> memoryview | None:
        """The record that starts at ``physical_offset``; None if none does.

        Magic, lengths and the record's own physical offset must be valid, so that bytes inside
        another record are not taken for a record.

        **Source:** RocketMQ DefaultMessageStore#selectOneMessageByOffset (checks no more than the
        length).
        """
        file = self.files.find(physical_offset)
        if file is None or physical_offset < 0:
            return None
        position = physical_offset - file.start
        data_end = min(file.written, file.size)
        if data_end - position < BLANK_SIZE:
            return None
        mapping = file.mapping
        size = check_record(mapping, position, data_end, check_crc=False)
        if size <= 0 or own_offset(mapping, position) != physical_offset:
            return None
        return file.view[position : position + size]

    def store_timestamp_at(self, physical_offset: int) -> int:
        """storeTimestamp (ms) of the record at ``physical_offset``, -1 if there is none.

        Only the magic is checked: the offset must come from a queue unit or the start of the log.
        """
        file = self.files.find(physical_offset)
        if file is None:
            return -1
        return peek_store_timestamp(file.mapping, physical_offset - file.start)

    def rest_of_file(self, physical_offset: int) -> memoryview | None:
        """Bytes from ``physical_offset`` to the end of the data in its file; None past the end.

        **Source:** RocketMQ CommitLog#getData.
        """
        file = self.files.find(physical_offset)
        if file is None or physical_offset >= self.max_offset:
            return None
        return file.view[physical_offset - file.start : file.written]

    def files_from(self, physical_offset: int) -> Sequence[MappedFile]:
        """The files with data after ``physical_offset``, oldest first."""
        return [file for file in list(self.files.files) if file.end > physical_offset]

    def _roll(self, size: int) -> MappedFile:
        """End the current file with a blank record and make the next one current."""
        old = self._file
        files = self.files
        if old is None:
            # Without a current file the next one contains max_offset, or follows the last file.
            start = self.max_offset - self.max_offset % files.file_size
            if files.files and files.files[-1].start >= start:
                start = files.files[-1].start + files.file_size
        else:
            start = old.start + files.file_size
        if size > files.file_size - BLANK_SIZE:
            raise RecordTooLargeError(f"record of {size} bytes, a file has {files.file_size}")
        # Before the blank record is written: after a DiskFullError the log must be unchanged.
        new = self.preparer.take(start)
        self.write_gathered()
        if old is not None and old.written < old.size:
            blank = encode_blank(old.size - old.written)
            old.mapping[old.written : old.written + BLANK_SIZE] = blank
            old.written = old.size
        return self._append_file(new)

    def _remove_empty_file(self, position: int) -> MappedFile:
        """Remove the current file, left by a put that failed; return the one before it.

        Its bytes from ``position`` on, a blank record at most, are replaced by the caller.
        """
        self.files.remove_last()
        file = self.files.files[-1]
        file.written = position
        file.flushed = min(file.flushed, position)
        self._file = file
        self._end = position
        return file

    def _append_file(self, new: MappedFile) -> MappedFile:
        """Make ``new`` the current file and request the one after it."""
        self.pages.start_file(LOADED_BYTES // 2 if self._file is None else 0)
        new.expect_writes()
        self._file = new
        self._end = new.written
        self.files.files.append(new)
        self._limit = new.size - BLANK_SIZE
        self.preparer.request(new.start + new.size)
        return new

    def ready(self) -> None:
        """Reserve the space of the current file and request the next one; DiskFullError.

        A current file that Java created may be sparse.
        """
        if self._file is not None:
            self._file.reserve()
            self.preparer.request(self._file.start + self.files.file_size)
