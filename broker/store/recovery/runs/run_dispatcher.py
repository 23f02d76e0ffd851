"""RunDispatcher: recovery's fast path for runs of valid, plain records.

A record by itself takes recovery some 13 us. Here a few hundred records are read as columns, and
the units of each queue and the index entries are stored together. Other records are dispatched one
by one and in log order: transactions, schedule and batch topics, and queues whose offsets do not
increase by one or whose units differ from the log. So both paths produce the same bytes.

:class:`~broker.store.recovery.runs.vectorized_dispatcher.VectorizedDispatcher` does the same in
compiled loops; it needs numba and takes time to load.

**Source:** no Java counterpart; RocketMQ dispatches record by record in recovery too.
"""

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple, Protocol

from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.reput import ReputService
from broker.store.dispatch.tag_codes import TagCodes
from broker.store.format.consumequeue import UNIT_SIZE, UNIT_STRUCT
from broker.store.format.indexfile import peek_message_keys
from broker.store.logfile.mapped_file import MappedFile
from broker.store.recovery.queue_offset_validator import QueueOffsetValidator
from broker.store.recovery.runs.encoded_run import (
    EncodedRun,
    QueueUnits,
    ReadOptions,
    encode_run,
)

_unpack: Final = UNIT_STRUCT.unpack_from


class DispatchedRun(NamedTuple):
    """Records dispatched together: their number and end, and their storeTimestamps in ms.

    ``next_position``: of the first record after them, in its file; ``last_timestamp``: of the last
    record; ``newest_timestamp``: the highest. Both are 0 without records. ``interrupted``: the next
    record is probably not valid, so that a run does not start there.
    """

    records: int
    next_position: int
    last_timestamp: int = 0
    newest_timestamp: int = 0
    interrupted: bool = True


class RunReader(Protocol):
    """Reads the runs of a scan."""

    def read(self, file: MappedFile, position: int) -> EncodedRun | None:
        """The run that starts at a position of a file; None if no valid record does."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


class LocalRunReader:
    """Reads runs when they are needed."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._tag_codes = TagCodes()

    def read(self, file: MappedFile, position: int) -> EncodedRun | None:
        """The run that starts at a position of a file; None if no valid record does."""
        positions = (position, file.size, file.size)
        return encode_run(file.mapping, positions, file.start, self._options, self._tag_codes)

    def close(self) -> None:
        """Do nothing."""


class RunDispatcher:
    """Dispatches the runs of ``reader``; one instance per recovery."""

    def __init__(self, reput: ReputService, reader: RunReader) -> None:
        self._reput = reput
        self._queues = reput.queues
        self._reader = reader

    def dispatch_run(
        self, file: MappedFile, position: int, validator: QueueOffsetValidator
    ) -> DispatchedRun:
        """Dispatch the valid records from ``position`` on, up to those of one run.

        The caller reads the record at ``next_position`` by itself if there are none.
        """
        run = self._reader.read(file, position)
        if run is None:
            return DispatchedRun(0, position)
        self._dispatch(file, run, validator)
        return DispatchedRun(
            run.records,
            run.end - file.start,
            run.last_timestamp,
            run.newest_timestamp,
            run.interrupted,
        )

    def close(self) -> None:
        """Release the reader's resources."""
        self._reader.close()

    def _dispatch(self, file: MappedFile, run: EncodedRun, validator: QueueOffsetValidator) -> None:
        reput = self._reput
        # Physical offsets of the records to dispatch one by one.
        singly: list[int] = []
        for units in run.queues:
            topic = self._queues.topic_of_data(units.topic)
            # All rows of a queue take the same path, so that they keep their order. Damaged names
            # can be those of one topic once decoded.
            plain = not (topic.special or topic.batch or topic.data != units.topic)
            if (
                not plain
                or units.prepared
                or units.queue_id < 0
                or not self._place(self._queues.queue(topic, units.queue_id), units, validator)
            ):
                singly += [offset for offset, _, _ in UNIT_STRUCT.iter_unpack(units.units)]
        singly.sort()
        self._index(file, run, singly)
        reput.last_store_timestamp = run.last_timestamp
        reput.dispatched += run.records - len(singly)

    def _index(self, file: MappedFile, run: EncodedRun, singly: list[int]) -> None:
        """Add the index entries, and dispatch the records ``singly`` in their places."""
        reput, index = self._reput, self._reput.index
        hashes, offsets, stamps = run.hashes, run.offsets, run.store_timestamps
        if index is not None and index.files:
            known = index.files[-1].end_physical_offset
            if run.start <= known < run.end and known not in singly:
                self._add_missing_keys(file, run, known)
            first = bisect_right(offsets, known)
            if first:
                hashes, offsets, stamps = hashes[first:], offsets[first:], stamps[first:]
        done = 0
        for physical_offset in singly:
            end = bisect_left(offsets, physical_offset, done)
            if index is not None and done < end:
                index.put_entries(hashes[done:end], offsets[done:end], stamps[done:end])
            reput.dispatch_record(
                reput.read(file.mapping, physical_offset - file.start, file.start)
            )
            done = bisect_left(offsets, physical_offset + 1, end)
        if index is not None and done < len(hashes):
            index.put_entries(hashes[done:], offsets[done:], stamps[done:])

    def _add_missing_keys(self, file: MappedFile, run: EncodedRun, known: int) -> None:
        """Add the missing keys of the last indexed record: a kill may have left only some."""
        index = self._reput.index
        assert index is not None
        if not any(
            known == offset
            for group in run.queues
            for offset, _, _ in UNIT_STRUCT.iter_unpack(group.units)
        ):
            return
        request = self._reput.read(file.mapping, known - file.start, file.start)
        if keys := peek_message_keys(request.properties):
            prefix = request.queue.topic.key_prefix
            index.put_keys(prefix, keys, known, request.store_timestamp)

    def _place(
        self, queue: ConsumeQueue, group: QueueUnits, validator: QueueOffsetValidator
    ) -> bool:
        """Store the units of a queue's records; False if they must be dispatched one by one."""
        units, first = group.units, group.first_offset
        count = len(units) // UNIT_SIZE
        physical_offset = _unpack(units)[0]
        last_offset, last_size, _ = _unpack(units, len(units) - UNIT_SIZE)
        skip = self._reput.skip
        if skip is not None:
            gone = skip(queue.topic, physical_offset)
            if gone != skip(queue.topic, last_offset):
                return False
            if gone:
                return True
        if not queue.first_offset <= first <= queue.max_offset:
            return False
        there = min(count, queue.max_offset - first)
        if there and not self._has(queue, first, units[: there * UNIT_SIZE]):
            return False
        if there < count:
            offset, size, _ = _unpack(units, there * UNIT_SIZE)
            if offset + size <= queue.max_physical_offset:
                return False
        if not validator.accept_run(queue, first, count, physical_offset):
            return False
        if there < count:
            queue.append_units(units[there * UNIT_SIZE :], last_offset + last_size)
        return True

    def _has(self, queue: ConsumeQueue, first: int, units: bytes) -> bool:
        """Return whether the queue's units from offset ``first`` on are exactly ``units``."""
        done = 0
        while done < len(units):
            left = len(units) - done
            data = queue.packed(first + done // UNIT_SIZE, left // UNIT_SIZE)
            if not data or units[done : done + len(data)] != data:
                return False
            done += len(data)
        return True
