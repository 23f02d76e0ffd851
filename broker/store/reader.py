"""StoreReader: reads — pulls, key queries, searches by time.

Records are returned as slices of the mapped files; they are neither decoded nor copied here.

**Source:** RocketMQ DefaultMessageStore#getMessage, #queryMessage, #getOffsetInQueueByTime.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.message.record import peek_properties
from broker.store.commitlog import CommitLog
from broker.store.config import MessageStoreConfig
from broker.store.consumequeue.batch_consume_queue import BatchConsumeQueue
from broker.store.consumequeue.consume_queue import ConsumeQueue, Unit
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.faults.unit_mismatches import MAX_REGIONS, UnitMismatches
from broker.store.format.commitlog import RECORD_LEAST, own_extent
from broker.store.format.consumequeue import (
    PRE_BLANK_SIZE,
    UNIT_SIZE,
    ConsumeQueueExtUnit,
    is_ext_address,
)
from broker.store.format.indexfile import topic_prefix
from broker.store.index.index_service import IndexService
from broker.store.pulling.record_slices import Records, RecordSlices
from broker.store.results import (
    ConsumeQueueUnitView,
    GetMessageResult,
    GetMessageStatus,
    QueryMessageResult,
)

if TYPE_CHECKING:
    from broker.store.pulling.record_copies import RecordCopies

# Bytes of units that one filtered pull reads at most. Source: DefaultMessageStore#getMessage.
_SCAN_BYTES: Final = 16_000
_QUERY_ROUNDS: Final = 3
_MAX_BYTES: Final = 128 << 20
_NO_DATA: Final = memoryview(b"")

_S = GetMessageStatus
# Code of a unit that the extension unit has excluded; no tags code is that large.
_SKIPPED: Final = 1 << 40
Matchers = tuple[Callable[[int], bool] | None, Callable[[bytes], bool] | None]
ExtMatcher = Callable[[ConsumeQueueExtUnit], bool]


class StoreReader:
    """The read side of a store.

    ``unchecked_before``: the start of the part of the log that recovery has scanned. Earlier
    records are compared with their position when a pull reads them first.
    ``damaged``: damaged regions of the log, (start, end) physical offsets, hidden from readers.
    The list is shared with the store's manifest, which recovery fills.
    ``in_memory``: maximum messages and bytes of a pull that starts at most ``memory_bytes`` before
    the end of the log.
    """

    def __init__(
        self,
        config: MessageStoreConfig,
        log: CommitLog,
        queues: ConsumeQueueStore,
        index: IndexService | None,
        damaged: list[tuple[int, int]],
    ) -> None:
        self.damaged = damaged
        self.unchecked_before = 0
        self.copies: RecordCopies | None = None
        self._mismatches = UnitMismatches(log, damaged)
        self._config = config
        self.log = log
        self._queues = queues
        self._index = index
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.in_memory = (
            config.max_transfer_count_on_message_in_memory,
            min(config.max_transfer_bytes_on_message_in_memory, _MAX_BYTES),
        )
        self._on_disk = (
            config.max_transfer_count_on_message_in_disk,
            min(config.max_transfer_bytes_on_message_in_disk, _MAX_BYTES),
        )
        self._slices = RecordSlices(self)
        self.memory_bytes = memory * config.access_message_in_memory_max_ratio // 100

    def get_message(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 0,
        *,
        matcher: Callable[[int], bool] | None = None,
        record_matcher: Callable[[bytes], bool] | None = None,
        ext_matcher: ExtMatcher | None = None,
    ) -> GetMessageResult:
        """Records of a queue from ``queue_offset`` on, with status and next offset.

        ``max_bytes`` 0 means the configured limit. ``matcher`` gets the tags code,
        ``record_matcher`` the encoded properties. ``ext_matcher`` gets the extension unit, if the
        message has one, and spares reading records. The first match is returned at any size.

        **Source:** RocketMQ DefaultMessageStore#getMessage.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return GetMessageResult(_S.NO_MATCHED_LOGIC_QUEUE)
        low, high = queue.min_offset, queue.max_offset
        if high == 0:
            status, next_offset = _S.NO_MESSAGE_IN_QUEUE, 0
        elif queue_offset < low:
            status, next_offset = _S.OFFSET_TOO_SMALL, low
        elif queue_offset == high:
            status, next_offset = _S.OFFSET_OVERFLOW_ONE, queue_offset
        elif queue_offset > high:
            status, next_offset = _S.OFFSET_OVERFLOW_BADLY, high
        else:
            result = GetMessageResult(_S.NO_MATCHED_MESSAGE, queue_offset, low, high)
            if queue.topic.batch:
                self._collect_batches(
                    result, queue, (max_count, max_bytes), matcher, record_matcher
                )
            else:
                limits = (max_count, max_bytes)
                if queue.ext is not None:
                    self._collect_ext(result, queue, limits, (matcher, record_matcher), ext_matcher)
                else:
                    filtered = matcher or record_matcher
                    if filtered is None and not self.damaged:
                        found = self._slices.read(queue, queue_offset, max_count, max_bytes)
                        if found is not None:
                            count, result.total_bytes, result.buffers, _ = found
                            result.next_begin_offset = queue_offset + count
                            result.message_count = count
                            self._set_found(result, self.log.max_offset - self._slices.end)
                            return result
                    units = self._units(result, queue, max_count, filtered)
                    self._collect(result, queue, units, limits, (matcher, record_matcher))
            return result
        return GetMessageResult(status, next_offset, low, high)

    def get_ordinary(
        self, topic: str, queue_id: int, queue_offset: int, max_count: int
    ) -> Records | None:
        """Messages of a queue without a filter; None if there is none, or one is unusual.

        Returns number of messages, their bytes, the records, and the queue. The records are valid
        until the next call. :meth:`get_message` finds the same.
        """
        entry = self._queues.topics.get(topic)
        queue = entry.queues.get(queue_id) if entry is not None else None
        if queue is None or queue_offset < queue.min_offset or self.damaged:
            return None
        if queue.topic.batch or queue.ext is not None:
            return None
        if self.copies is not None:
            found = self.copies.read(queue, queue_offset, max_count)
            if found is not None:
                return found
        return self._slices.read(queue, queue_offset, max_count)

    def _units(
        self, result: GetMessageResult, queue: ConsumeQueue, max_count: int, filtered: object
    ) -> list[Unit]:
        """Read the units of a pull: more than asked for if a filter may skip some."""
        window = max(_SCAN_BYTES // UNIT_SIZE, max_count) if filtered is not None else max_count
        return queue.read(result.next_begin_offset, window)

    def _collect_ext(
        self,
        result: GetMessageResult,
        queue: ConsumeQueue,
        limits: tuple[int, int],
        matchers: Matchers,
        ext_matcher: ExtMatcher | None,
    ) -> None:
        """As :meth:`_collect` for a queue with extension units.

        A message whose extension unit is lost passes the filter of tags codes: the client tests the
        tag again.
        """
        matcher, record_matcher = matchers
        if matcher is not None:
            matches = matcher

            def lenient(code: int) -> bool:
                return is_ext_address(code) or matches(code)

            units = self._units(result, queue, limits[0], matcher)
            self._collect(result, queue, units, limits, (lenient, record_matcher))
            return
        filtered = record_matcher if record_matcher is not None else ext_matcher
        window = self._units(result, queue, limits[0], filtered)
        if ext_matcher is None or queue.ext is None:
            self._collect(result, queue, window, limits, matchers)
            return
        units = []
        raw = queue.read_raw(result.next_begin_offset, len(window))
        for unit in raw:
            found = queue.ext.get(unit[2])
            skipped = found is not None and not ext_matcher(found)
            units.append((unit[0], unit[1], _SKIPPED if skipped else 0))
        self._collect(result, queue, units, limits, (_SKIPPED.__ne__, record_matcher))

    def _collect(
        self,
        result: GetMessageResult,
        queue: ConsumeQueue,
        units: list[Unit],
        limits: tuple[int, int],
        matchers: Matchers,
    ) -> None:
        """Fill ``result`` from units at its next offset; adjacent records share one slice."""
        if not units:
            _set_null(result, queue)
            return
        matcher, record_matcher = matchers
        start, damaged, buffers = result.next_begin_offset, self.damaged, result.buffers
        max_count, max_bytes = self.limits(units[0][0], *limits)
        log, log_min = self.log, self.log.min_offset
        unchecked_before = self.compared_before(queue, start, len(units))
        # base to data_end: data of the current file; run_start to run_end: records not in buffers.
        view = _NO_DATA
        run_start = run_end = base = data_end = -1
        count = total = scanned = 0
        for number, (physical_offset, size, code) in enumerate(units, start):
            if physical_offset < log_min or size == PRE_BLANK_SIZE:
                scanned += 1
                result.status = _S.MESSAGE_WAS_REMOVING
                continue
            if count >= max_count or (total and total + size > max_bytes):
                break
            scanned += 1
            if matcher is not None and not matcher(code):
                continue
            if not base <= physical_offset < data_end:
                file = log.files.find(physical_offset)
                if file is None or physical_offset >= file.start + file.written:
                    result.status = _S.MESSAGE_WAS_REMOVING
                    self._mismatches.note_missing(queue, number, physical_offset, size)
                    continue
                if run_end > run_start:
                    buffers.append(view[run_start - base : run_end - base])
                view, base, data_end = file.view, file.start, file.start + file.written
                run_start = run_end = physical_offset
            if damaged and self.is_damaged(physical_offset):
                continue
            at = physical_offset - base
            if physical_offset + size > data_end or (
                physical_offset < unchecked_before and _differs(view, at, size, physical_offset)
            ):
                size = self._mismatches.size_in_log(queue, number, physical_offset, size)
                if not size:
                    continue
            if record_matcher is not None and not record_matcher(peek_properties(view, at)):
                continue
            if _is_filler(queue, number, units, number - start):
                result.status = _S.MESSAGE_WAS_REMOVING
                continue
            if physical_offset != run_end:
                if run_end > run_start:
                    buffers.append(view[run_start - base : run_end - base])
                run_start = physical_offset
            run_end = physical_offset + size
            count += 1
            total += size
        if run_end > run_start:
            buffers.append(view[run_start - base : run_end - base])
        result.next_begin_offset = start + scanned
        result.message_count, result.total_bytes = count, total
        if unchecked_before and matcher is None:
            self._note_checked(queue, start, start + scanned)
        if count:
            self._set_found(result, log.max_offset - run_end)

    def _set_found(self, result: GetMessageResult, behind_bytes: int) -> None:
        """``behind_bytes``: from the end of the last record of the result to that of the log."""
        result.status = _S.FOUND
        result.behind_bytes = behind_bytes
        result.suggest_slave = behind_bytes > self.memory_bytes

    def _collect_batches(
        self,
        result: GetMessageResult,
        queue: ConsumeQueue,
        limits: tuple[int, int],
        matcher: Callable[[int], bool] | None,
        record_matcher: Callable[[bytes], bool] | None,
    ) -> None:
        """Fill ``result`` from a batch queue: whole records, which may start before the offset.

        ``max_count`` limits messages, but the first record is always returned; the client drops
        the messages before the requested offset.
        """
        assert isinstance(queue, BatchConsumeQueue)
        max_count, max_bytes = limits
        start = end = result.next_begin_offset
        first = True
        for unit in queue.read_batches(start, max(_SCAN_BYTES // UNIT_SIZE, max_count)):
            physical_offset, size, code, _, base, number = unit[:6]
            if first:
                max_count, max_bytes = self.limits(physical_offset, max_count, max_bytes)
                first = False
            full = result.message_count + number > max_count
            if result.total_bytes and (full or result.total_bytes + size > max_bytes):
                break
            result.next_begin_offset = base + number
            if matcher is not None and not matcher(code):
                continue
            if self.is_damaged(physical_offset):
                continue
            record = self.log.read(physical_offset, size)
            if record is None or (
                physical_offset < self.unchecked_before
                and _differs(record, 0, size, physical_offset)
            ):
                size = self._mismatches.size_in_log(queue, base, physical_offset, size)
                record = self.log.read(physical_offset, size)
                if record is None:
                    continue
            if record_matcher is not None and not record_matcher(peek_properties(record)):
                continue
            result.buffers.append(record)
            end = physical_offset + size
            result.message_count += number
            result.total_bytes += size
        if result.message_count:
            self._set_found(result, self.log.max_offset - end)

    def is_cold(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a message is so far from the end of the log that it is probably not in memory.

        **Source:** RocketMQ DefaultMessageStore#checkInColdAreaByMsgOffset (asks the page cache).
        """
        queue = self._queues.find(topic, queue_id)
        unit = queue.unit(queue_offset) if queue is not None else None
        return unit is not None and self.log.max_offset - unit[0] > self.memory_bytes

    def limits(self, physical_offset: int, max_count: int, max_bytes: int) -> tuple[int, int]:
        """Maximum messages and bytes of a pull whose first record is at ``physical_offset``.

        Smaller if the record is so far from the end of the log that it is probably not in memory.

        **Source:** RocketMQ DefaultMessageStore#isTheBatchFull, #checkInDiskByCommitOffset.
        """
        is_far = self.log.max_offset - physical_offset > self.memory_bytes
        count, size = self._on_disk if is_far else self.in_memory
        if 0 < max_bytes < size:
            size = max_bytes
        return max_count if max_count < count else count, size

    def query_message(
        self, topic: str, key: str, max_num: int, begin: int, end: int
    ) -> QueryMessageResult:
        """Records indexed under ``key`` of ``topic``, storeTimestamp in ``begin``..``end`` (ms).

        Oldest first, at most maxMsgsNumBatch. The result includes hash collisions: the caller must
        compare topic and keys. The index stores whole seconds: pass ``begin`` a second earlier.

        **Source:** RocketMQ DefaultMessageStore#queryMessage.
        """
        index = self._index
        if index is None:
            return QueryMessageResult([])
        entry = self._queues.topics.get(topic)
        prefix = entry.key_prefix if entry else topic_prefix(topic)
        limit = min(max_num, self._config.max_msgs_num_batch)
        data = key.encode("utf-8", "replace")
        buffers: list[memoryview] = []
        for _ in range(_QUERY_ROUNDS):
            found, timestamp, offset = index.query(prefix, data, limit, begin, end)
            for physical_offset in sorted(set(found)) if len(found) > 1 else found:
                record = self.log.record_at(physical_offset)
                if record is not None and not self.is_damaged(physical_offset):
                    buffers.append(record)
            if buffers or not found:
                break
            # No record could be read: search again up to the time of the oldest one.
            end = self.log.store_timestamp_at(min(found))
            if end < begin:
                break
        return QueryMessageResult(buffers, timestamp, offset)

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: str = "LOWER"
    ) -> int:
        """Queue offset for a storeTimestamp, ms; between min and max offset.

        LOWER: the first offset stored at or after ``timestamp``, or max offset. UPPER: the last
        offset stored at or before it, or min offset. 0 for an unknown queue.

        **Source:** RocketMQ ConsumeQueue#binarySearchInQueueByTime (5.1.1 and later).
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        low, high = queue.min_offset, queue.max_offset
        upper = boundary == "UPPER"
        while low < high:
            middle = (low + high) // 2
            unit = queue.unit(middle)
            stored = self.log.store_timestamp_at(unit[0]) if unit is not None else -1
            if stored < timestamp or (upper and stored == timestamp):
                low = middle + 1
            else:
                high = middle
        return max(low - 1, queue.min_offset) if upper else low

    def store_timestamp_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """storeTimestamp (ms) of the message at a queue offset, -1 if there is none."""
        queue = self._queues.find(topic, queue_id)
        unit = queue.unit(queue_offset) if queue is not None else None
        if unit is None or unit[1] == PRE_BLANK_SIZE:
            return -1
        return self.log.store_timestamp_at(unit[0])

    def earliest_message_time(self, topic: str = "", queue_id: int = 0) -> int:
        """storeTimestamp (ms) of a queue's first message, without a topic of the log's; or -1."""
        if not topic:
            return self.log.store_timestamp_at(self.log.min_offset)
        queue = self._queues.find(topic, queue_id)
        return -1 if queue is None else self.store_timestamp_at(topic, queue_id, queue.min_offset)

    def consume_queue_units(
        self, topic: str, queue_id: int, from_offset: int, count: int
    ) -> list[ConsumeQueueUnitView]:
        """Up to ``count`` units of a queue from ``from_offset`` on, across files."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return []
        units: list[ConsumeQueueUnitView] = []
        queue_offset = max(from_offset, queue.min_offset)
        while len(units) < count:
            part = queue.read(queue_offset, count - len(units))
            if not part:
                break
            units += [
                ConsumeQueueUnitView(queue_offset + number, *unit)
                for number, unit in enumerate(part)
            ]
            queue_offset += len(part)
        return units

    def get_record_at(self, physical_offset: int, size: int | None = None) -> memoryview | None:
        """The record at ``physical_offset``; None if none starts there or its size differs.

        Also None for a record in a damaged region. ``size`` None accepts any size.
        """
        record = self.log.record_at(physical_offset)
        if record is not None and self.is_damaged(physical_offset):
            return None
        if record is not None and size is not None and len(record) != size:
            return None
        return record

    def compared_before(self, queue: ConsumeQueue, start: int, count: int) -> int:
        """Physical offset before which these units' records must be compared, 0 for none.

        Each record is compared by the first pull of it: 0.2 us.
        """
        low, high = queue.checked
        return 0 if low <= start and start + count <= high else self.unchecked_before

    def _note_checked(self, queue: ConsumeQueue, begin: int, end: int) -> None:
        """Compare the records of these queue offsets no more, if every mismatch has a region."""
        if len(self.damaged) < MAX_REGIONS and queue not in self._mismatches.queues:
            queue.note_checked(begin, end)

    def is_damaged(self, physical_offset: int) -> bool:
        """Whether a physical offset is in a damaged region that recovery found."""
        damaged = self.damaged  # mostly empty, and asked for each record of a query
        return bool(damaged) and any(start <= physical_offset < end for start, end in damaged)

    def get_max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset after the last message, 0 for an unknown queue."""
        queue = self._queues.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def get_min_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset of the first message still in the log, -1 for an unknown queue."""
        queue = self._queues.find(topic, queue_id)
        return queue.min_offset if queue is not None else -1

    def queues(self) -> dict[str, list[int]]:
        """Queue ids by topic, sorted; topics without queues are left out."""
        return {
            topic.name: sorted(topic.queues)
            for topic in self._queues.topics.values()
            if topic.queues
        }


def _differs(view: memoryview, position: int, size: int, physical_offset: int) -> bool:
    """Whether size or physical offset of a record differ from those of its unit."""
    return size < RECORD_LEAST or own_extent(view, position) != (size, physical_offset)


def _set_null(result: GetMessageResult, queue: ConsumeQueue) -> None:
    """Set a result without units: the pull continues in the next queue file."""
    result.status = _S.OFFSET_FOUND_NULL
    result.next_begin_offset = queue.next_file_offset(result.next_begin_offset)


def _is_filler(queue: ConsumeQueue, queue_offset: int, units: list[Unit], at: int) -> bool:
    """Whether the unit of an offset, ``units[at]``, is a copy of the next: its message is lost.

    Each message is returned once, at its own queue offset: the last of these units.
    """
    following = units[at + 1] if at + 1 < len(units) else queue.unit(queue_offset + 1)
    return following is not None and following[0] == units[at][0]
