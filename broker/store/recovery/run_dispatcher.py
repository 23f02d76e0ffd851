"""RunDispatcher: recovery's fast path for runs of valid, plain records.

A record by itself takes recovery some 13 us. Here a few hundred records are read as columns, and
the units of each queue and the index entries are stored together. Other records are dispatched one
by one and in log order: transactions, schedule and batch topics, and queues whose offsets do not
increase by one or whose units differ from the log. So both paths produce the same bytes.

:class:`~broker.store.recovery.vectorized_dispatcher.VectorizedDispatcher` does the same in compiled
loops; it needs numba and takes time to load.

**Source:** no Java counterpart; RocketMQ dispatches record by record in recovery too.
"""

from itertools import pairwise
from typing import Final, NamedTuple

from broker.common.sysflag import TRANSACTION_PREPARED
from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.dispatch_rows import read_rows
from broker.store.dispatch.reput import ReputService
from broker.store.format.consumequeue import UNIT_SIZE, UNIT_STRUCT
from broker.store.format.property_columns import peek_columns
from broker.store.logfile.mapped_file import MappedFile
from broker.store.recovery.queue_offset_validator import QueueOffsetValidator

# Records dispatched together.
ROWS: Final = 512

_pack: Final = UNIT_STRUCT.pack


class DispatchedRun(NamedTuple):
    """Records dispatched together: their number and end, and their storeTimestamps in ms.

    ``next_position``: of the first record after them, in its file; ``last_timestamp``: of the last
    record; ``newest_timestamp``: the highest. Both are 0 without records.
    """

    records: int
    next_position: int
    last_timestamp: int = 0
    newest_timestamp: int = 0


class _Columns(NamedTuple):
    """Each field of :data:`~broker.store.dispatch.dispatch_rows.DispatchRow`, of all records."""

    physical_offset: tuple[int, ...]
    size: tuple[int, ...]
    store_timestamp: tuple[int, ...]
    sys_flag: tuple[int, ...]
    queue_offset: tuple[int, ...]
    queue_id: tuple[int, ...]
    topic: tuple[bytes, ...]
    properties: tuple[bytes, ...]


class RunDispatcher:
    """Dispatches runs of records; one instance per recovery."""

    def __init__(self, reput: ReputService) -> None:
        self._reput = reput
        self._queues = reput.queues

    def dispatch_run(
        self,
        file: MappedFile,
        position: int,
        validator: QueueOffsetValidator,
        *,
        check_crc: bool,
        power_failed: bool,
    ) -> DispatchedRun:
        """Dispatch the valid records from ``position`` on, up to ROWS of them.

        The caller reads the record at ``next_position`` by itself if there are none. With
        ``power_failed`` a record with a missing sector is not valid.
        """
        rows, after = read_rows(
            file.mapping,
            (position, file.size),
            file.start,
            ROWS,
            check_crc=check_crc,
            power_failed=power_failed,
        )
        if not rows:
            return DispatchedRun(0, position)
        columns = _Columns._make(zip(*rows, strict=True))
        self._dispatch(file, columns, validator)
        stored = columns.store_timestamp
        return DispatchedRun(len(rows), after, stored[-1], max(stored))

    def _dispatch(
        self, file: MappedFile, columns: "_Columns", validator: QueueOffsetValidator
    ) -> None:
        keys, tags = peek_columns(columns.properties)
        of_queue: dict[tuple[bytes, int], list[int]] = {}
        for number, key in enumerate(zip(columns.topic, columns.queue_id, strict=True)):
            of_queue.setdefault(key, []).append(number)
        reput = self._reput
        code = reput.tag_codes.code
        physical, sys_flag = columns.physical_offset, columns.sys_flag
        records = len(physical)
        prefixes = [0] * records
        singly: list[int] = []
        for (name, queue_id), numbers in of_queue.items():
            topic = self._queues.topic_of_data(name)
            # All rows of a queue take the same path, so that they keep their order. Damaged names
            # can be those of one topic once decoded.
            plain = not (topic.special or topic.batch or topic.data != name or queue_id < 0)
            if plain and not any(sys_flag[number] & TRANSACTION_PREPARED for number in numbers):
                codes = [code(tags[number]) if tags[number] else 0 for number in numbers]
                queue = self._queues.queue(topic, queue_id)
                plain = self._place(queue, columns, numbers, codes, validator)
            else:
                plain = False
            if not plain:
                singly += numbers
            for number in numbers:
                prefixes[number] = topic.key_prefix
        singly.sort()
        for before, number in pairwise([-1, *singly, records]):
            between = slice(before + 1, number)
            if reput.index is not None and before + 1 < number:
                reput.index.put_batch(
                    prefixes[between],
                    physical[between],
                    keys[between],
                    columns.store_timestamp[between],
                )
            if number < records:
                position = physical[number] - file.start
                reput.dispatch_record(reput.read(file.mapping, position, file.start))
        reput.last_store_timestamp = columns.store_timestamp[-1]
        reput.dispatched += records - len(singly)

    def _place(
        self,
        queue: ConsumeQueue,
        columns: "_Columns",
        numbers: list[int],
        codes: list[int],
        validator: QueueOffsetValidator,
    ) -> bool:
        """Store the units of a queue's records; False if they must be dispatched one by one."""
        physical = [columns.physical_offset[number] for number in numbers]
        sizes = [columns.size[number] for number in numbers]
        offsets = [columns.queue_offset[number] for number in numbers]
        skip = self._reput.skip
        if skip is not None:
            gone = skip(queue.topic, physical[0])
            if gone != skip(queue.topic, physical[-1]):
                return False
            if gone:
                return True
        first, count = offsets[0], len(numbers)
        if offsets != list(range(first, first + count)):
            return False
        if not queue.first_offset <= first <= queue.max_offset:
            return False
        units = b"".join(map(_pack, physical, sizes, codes))
        there = min(count, queue.max_offset - first)
        if there and not self._has(queue, first, units[: there * UNIT_SIZE]):
            return False
        end = physical[-1] + sizes[-1]
        if there < count and physical[there] + sizes[there] <= queue.max_physical_offset:
            return False
        if not validator.accept_run(queue, first, count, physical[0]):
            return False
        if there < count:
            queue.append_units(units[there * UNIT_SIZE :], end)
        return True

    def _has(self, queue: ConsumeQueue, first: int, units: bytes) -> bool:
        """Return whether the queue's units from offset ``first`` on are exactly ``units``."""
        done = 0
        while done < len(units):
            left = len(units) - done
            data = queue.packed(first + done // UNIT_SIZE, left // UNIT_SIZE)
            if not data or not units.startswith(data, done):
                return False
            done += len(data)
        return True
