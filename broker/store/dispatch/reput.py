"""Dispatch (reput): from records of the log to ConsumeQueues, index and listeners.

Dispatch has its own position, ``offset``, which may be less than the end of the log: with
SYNC_FLUSH it never exceeds the flushed position. Two paths produce the same derived bytes. The fast
path takes the entries that puts of this process left in ``pending``. The slow path reads the log;
it serves recovery, and records that did not fit into ``pending``.

**Source:** RocketMQ DefaultMessageStore.ReputMessageService, CommitLogDispatcherBuildConsumeQueue,
CommitLogDispatcherBuildIndex.
"""

import logging
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from broker.common.java import INT32_MAX
from broker.common.sysflag import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from broker.errors import FileNameError, StoreError
from broker.store.commitlog import CommitLog
from broker.store.consumequeue import multi_dispatch
from broker.store.consumequeue.batch_consume_queue import BatchConsumeQueue
from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic, Unit
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.dispatch.block import (
    BATCH_PART,
    BLOCK,
    PendingBlocks,
    RecordBlock,
    add_block,
    batch_blocks,
)
from broker.store.dispatch.record_run import LEAST_RUN, RUN, RecordRun
from broker.store.dispatch.request import DispatchRequest, PendingBatch, PendingRecord
from broker.store.dispatch.tag_codes import TagCodes, schedule_code
from broker.store.format.commitlog import (
    BLANK_HERE,
    RECORD_LEAST,
    Buffer,
    check_record,
    peek_dispatch_fields,
)
from broker.store.format.consumequeue import (
    UNIT_SIZE,
    ConsumeQueueExtUnit,
    is_ext_address,
    peek_tags,
)
from broker.store.format.ha import ReplicatedRecord
from broker.store.format.indexfile import peek_message_keys
from broker.store.index.index_service import IndexService
from broker.store.logfile.mapped_file import MappedFileQueue
from broker.store.recovery.queue_offset_validator import QueueOffsetValidator

_log = logging.getLogger(__name__)

ArrivingListener = Callable[[str, int, int, int, int, bytes], None]

# One event-loop turn adds far fewer entries; above the limit dispatch reads the log instead.
MAX_PENDING: Final = 65_536
# Records that cannot be dispatched are logged one by one up to this number; then only counted.
MAX_QUARANTINE_LOGS: Final = 100


class ReputService:
    """The dispatcher.

    All records before physical offset ``offset`` are dispatched. With ``recovering`` a queue whose
    offsets restart (its topic was deleted and recreated) is truncated and refilled; otherwise
    units with an old queue offset are dropped.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueueStore,
        index: IndexService | None,
        delay_levels: Mapping[int, int],
        *,
        lmq_enabled: bool = False,
    ) -> None:
        self.offset = 0
        self.pending: list[PendingRecord] = []
        self.overflow = False
        self.recovering = False
        # Whether recovery replaces a unit whose tags code differs from the record's. Only after a
        # crash: after a clean stop the unit may come from a broker with other delay levels.
        self.compare_codes = False
        self.skip: Callable[[Topic, int], bool] | None = None
        # During recovery: the physical offset before which no queue lacks a unit.
        self.units_from = 0
        # Whether a record of a topic, or a unit of a further queue, precedes its deletion.
        self.is_deleted: Callable[[str, int], bool] = lambda topic, physical_offset: False
        self.has_record: Callable[[ConsumeQueue, int, Unit], bool] | None = None
        self.validator: QueueOffsetValidator | None = None
        self.last_store_timestamp = 0
        # For the recovery report: the fast path of run() does not count its records.
        self.dispatched = 0
        # Number of records in the log that could not be dispatched to all of their queues.
        self.quarantined = 0
        # (topic, properties) → Bloom bits of the groups whose filter accepts the message
        self.calculate_bit_map: Callable[[str, bytes], bytes] | None = None
        self.on_quarantined: Callable[[int, int, str], None] | None = None
        self._log = log
        self.queues = queues
        self.index = index
        self._delay_levels = delay_levels
        self.lmq_enabled = lmq_enabled
        self.tag_codes = TagCodes()
        # Placeholder queue for records whose topic is not a valid name.
        self._nowhere = ConsumeQueue(
            Topic("/"), 0, MappedFileQueue(queues.disk, "", UNIT_SIZE), lambda queue: None
        )
        self._listeners: list[tuple[ArrivingListener, Container[str] | None]] = []
        self._blocks = PendingBlocks()
        self._done = 0  # entries of ``pending`` that the current run() has dispatched

    def add_listener(
        self, listener: ArrivingListener, topics: Container[str] | None = None
    ) -> None:
        """Call ``listener(topic, queue_id, max_queue_offset, tags_code, store_timestamp, raw)``.

        Called for each dispatched message in the appending thread; ``raw``: its encoded
        properties. With ``topics`` only for topics it contains at dispatch: pass a live container,
        such as the table of suspended pulls.
        """
        self._listeners.append((listener, topics))

    def tags_code(self, properties: bytes) -> int:
        """The tags code of a message's properties, 0 without TAGS."""
        tags = peek_tags(properties)
        return self.tag_codes.code(tags) if tags else 0

    def note(self, entry: PendingRecord) -> None:
        """Queue a newly appended record for the fast path; when full, switch to the slow path."""
        if len(self.pending) < MAX_PENDING - self._blocks.more:
            self.pending.append(entry)
        else:
            self._overflow()

    def note_batch(self, batch: PendingBatch) -> None:
        """Queue newly appended records of one queue; as :meth:`note` for each of them."""
        if self._fits(len(batch.properties)):
            for block in batch_blocks(batch, self.tag_codes.code, BATCH_PART):
                self.pending.append(self._blocks.add(block))

    def note_block(self, block: RecordBlock) -> None:
        """Queue the newly appended records of a block; as :meth:`note` for each of them."""
        if self._fits(block.records):
            self.pending.append(self._blocks.add(block))

    def _fits(self, records: int) -> bool:
        """Whether further records can be queued; if not, switch to the slow path."""
        if len(self.pending) + self._blocks.more + records > MAX_PENDING:
            self._overflow()
            return False
        return True

    def _overflow(self) -> None:
        """Switch to the slow path."""
        self._clear_pending()
        self.overflow = True

    def _clear_pending(self) -> None:
        self.pending.clear()
        self._blocks.clear()

    def note_replica(self, physical_offset: int, records: Sequence[ReplicatedRecord]) -> None:
        """Queue appended records of a master for the fast path; without ``records`` read the log.

        They start at ``physical_offset``.
        """
        pending = self.pending
        end = pending[-1][0] + pending[-1][1] if pending else self.offset
        if not records or end != physical_offset or len(pending) + len(records) > MAX_PENDING:
            self._overflow()
        elif not self.overflow:
            queues = self.queues
            for offset, size, stored, sys_flag, queue_offset, queue_id, name, properties in records:
                topic = queues.topic_of_data(name)
                queue = queues.queue(topic, queue_id) if topic.usable else self._nowhere
                pending.append(
                    (offset, size, stored, sys_flag, queue_offset, queue, properties, None)
                )

    def forget(self, topics: Container[str]) -> None:
        """Mark pending records of these deleted topics as prepared: they get keys, but no units."""
        if self.lmq_enabled:
            return  # they keep their units in further queues: _append skips the others
        requests = map(DispatchRequest._make, self._blocks.expanded(self.pending, topics))
        self.pending = [
            request._replace(sys_flag=TRANSACTION_PREPARED)
            if request.queue.topic.name in topics
            and request.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK
            else request
            for request in requests
        ]

    def run(self, limit: int, max_count: int | None = None) -> None:
        """Dispatch up to physical offset ``limit``, at most ``max_count`` records.

        DiskFullError or StoreError if a derived file cannot be created; ``offset`` is then the
        start of the record that needs it.
        """
        if self.overflow:
            self._clear_pending()
            self.run_log(limit, max_count)
            if self.offset >= self._log.max_offset:
                self.overflow = False
            return
        pending = self.pending
        if not pending or pending[0][0] >= limit:
            return
        self._done = 0
        try:
            self._run_pending(limit, max_count)
        finally:
            # Also after an error: the dispatched entries must not be dispatched twice.
            done = self._done
            if done:
                last = pending[done - 1]
                self.offset = last[0] + last[1]
                if done == len(pending):
                    pending.clear()
                else:
                    del pending[:done]
            if self.index is not None:
                self.index.flush_header()

    def _run_pending(self, limit: int, max_count: int | None) -> None:
        """Dispatch entries of ``pending``; ``_done`` counts them."""
        pending = self.pending
        most = INT32_MAX if max_count is None else max_count
        count = min(len(pending), most)
        plain = not (self.lmq_enabled or self.queues.ext_enabled)
        records = 0
        while self._done < count and records < most:
            done = self._done
            entries = pending[done : min(count, done + RUN)]
            if plain and entries[0][3] == BLOCK:
                added = self._dispatch_batches(entries, limit, most - records)
                records += added
                if added:
                    continue
            if plain and len(entries) >= LEAST_RUN and self._dispatch_run(entries, limit):
                self._done += len(entries)
                records += len(entries)
                continue
            records += self._dispatch_singly(entries, limit, most - records, plain=plain)
            if self._done < done + len(entries):
                return

    def _dispatch_batches(self, entries: Sequence[PendingRecord], limit: int, most: int) -> int:
        """Dispatch the batches at the start of ``entries`` together; return their records, or 0."""
        block = self._blocks.joined(entries, limit, most, self.tag_codes.code)
        if block is None or not self._dispatch_at_once(block):
            return 0
        self.last_store_timestamp = block.store_timestamp
        self._blocks.remove(*(batch.offsets[0] for batch in block.batches))
        self._done += len(block.batches)
        return block.records

    def _dispatch_run(self, entries: Sequence[PendingRecord], limit: int) -> bool:
        """Dispatch plain entries together; False: dispatch them one by one, as after an error."""
        try:
            run = RecordRun.of(entries, limit, TRANSACTION_MASK | INNER_BATCH | BLOCK)
            if run is None:
                return False
            index = self.index
            if index is not None and not index.ends_before(run.physical_offsets[0]):
                return False
            codes = run.add(index, self.tag_codes.code)
            names = {queue.topic.name for queue in set(run.queues)}
            if any(
                topics is None or name in topics for _, topics in self._listeners for name in names
            ):
                for entry, code in zip(entries, codes, strict=True):
                    self._notify(entry[5], entry[4], code, entry[2], entry[6])
        except Exception as error:
            _log.debug("%d records are dispatched singly: %s", len(entries), error)
            return False
        self.last_store_timestamp = entries[-1][2]
        return True

    def _dispatch_singly(
        self, entries: Sequence[PendingRecord], limit: int, most: int, *, plain: bool
    ) -> int:
        """Dispatch entries up to ``limit``, at most ``most`` records; return their number."""
        codes = self.tag_codes.codes
        index = self.index
        listeners = self._listeners
        rare = TRANSACTION_MASK | INNER_BATCH | BLOCK
        records = 0
        for entry in entries:
            physical_offset, size, stored, sys_flag, queue_offset, queue, properties, code = entry
            if physical_offset + size > limit or records >= most:
                break
            topic = queue.topic
            if plain and not topic.special and not sys_flag & rare:
                # Inlined dispatch_record for a plain message: this loop is the hot path.
                try:
                    if code is None:
                        tags = peek_tags(properties)
                        code = (codes.get(tags) or self.tag_codes.code(tags)) if tags else 0
                    queue.append(queue_offset, physical_offset, size, code)
                    if listeners:
                        self._notify(queue, queue_offset, code, stored, properties)
                    if index is not None and (keys := peek_message_keys(properties)):
                        index.put_keys(topic.key_prefix, keys, physical_offset, stored)
                except Exception as error:
                    self._quarantine(DispatchRequest._make(entry), error)
                self.last_store_timestamp = stored
            elif sys_flag == BLOCK:
                records += self._dispatch_block(physical_offset, plain=plain) - 1
            else:
                self.dispatch_record(DispatchRequest._make(entry))
            records += 1
            self._done += 1
        return records

    def _dispatch_block(self, physical_offset: int, *, plain: bool) -> int:
        """Dispatch a block of ``pending``; return the number of its records.

        The records are dispatched one by one unless they are plain and continue their queues, and
        also after an error, which then concerns one record or is raised again.
        """
        block = self._blocks.get(physical_offset)
        if not plain or not self._dispatch_at_once(block):
            for entry in block.expand():
                self.dispatch_record(DispatchRequest._make(entry))
        self.last_store_timestamp = block.store_timestamp
        self._blocks.remove(physical_offset)
        return block.records

    def _dispatch_at_once(self, block: RecordBlock) -> bool:
        """Dispatch the records of a block together; False if they cannot be, or after an error.

        Units and entries written before the error are skipped by the dispatch one by one.
        """
        try:
            special = any(queue.topic.special for queue in block.queues)
            if special or not add_block(block, self.index):
                return False
            names = {queue.topic.name for queue in block.queues}
            if any(
                topics is None or name in topics for _, topics in self._listeners for name in names
            ):
                self._notify_all(block)
        except Exception as error:
            _log.debug("a block of %d records is dispatched singly: %s", block.records, error)
            return False
        return True

    def _notify_all(self, block: RecordBlock) -> None:
        """Call the listeners for each record of a block whose units are in their queues."""
        for _, _, stored, _, queue_offset, queue, properties, code in block.expand():
            if code is None:
                code = self.tags_code(properties)
            self._notify(queue, queue_offset, code, stored, properties)

    def run_log(self, limit: int, max_count: int | None = None) -> None:
        """Dispatch up to ``limit``, at most ``max_count`` records, by reading the log.

        Stops where no record can be read; recovery skips such damaged regions.
        """
        try:
            for request in islice(self._requests(limit), max_count):
                self.dispatch_record(request)
                self.offset = request.physical_end
        finally:
            if self.index is not None:
                self.index.flush_header()

    def dispatch_record(self, request: DispatchRequest) -> None:
        """Add one record to its queues and the index; for recovery and for non-plain records."""
        try:
            self._dispatch(request)
        except Exception as error:
            self._quarantine(request, error)
        self.last_store_timestamp = request.store_timestamp

    def _quarantine(self, request: DispatchRequest, error: Exception) -> None:
        """Count and report a record that cannot be dispatched, so that dispatch continues after it.

        Called in the ``except`` block of ``error``. An error that would occur for every record (a
        full disk, a file that cannot be created) is raised again: dispatch of the record is then
        retried later.
        """
        every_record = isinstance(error, (OSError, StoreError, MemoryError))
        if every_record and not isinstance(error, FileNameError):
            raise error
        self.quarantined += 1
        physical_offset, size, queue = request.physical_offset, request.size, request.queue
        reason = f"{queue.topic.name!r:.80} queue {queue.queue_id}: {error}"
        if self.quarantined <= MAX_QUARANTINE_LOGS:
            _log.error(
                "the record at physical offset %d (%d bytes) is in the log, not in all of its"
                " queues: %s",
                *(physical_offset, size, reason),
            )
        if self.on_quarantined is not None:
            self.on_quarantined(physical_offset, size, reason)

    def _dispatch(self, request: DispatchRequest) -> None:
        physical_offset, _, stored, sys_flag, queue_offset, queue, properties, code = request
        topic = queue.topic
        kind = sys_flag & TRANSACTION_MASK
        if kind == 0 or kind == TRANSACTION_COMMIT:
            if topic.scheduled:
                code = schedule_code(properties, stored, self._delay_levels)
            if code is None:
                tags = peek_tags(properties)
                code = self.tag_codes.code(tags) if tags else 0
            if self.recovering:
                self._append_again(request, code)
            else:
                self._append(request, code, queue_offset)
                self._notify(queue, queue_offset, code, stored, properties)
        elif kind == TRANSACTION_ROLLBACK:
            return
        index = self.index
        if index is not None and topic.usable:
            keys = peek_message_keys(properties)
            if keys:
                index.put_keys(topic.key_prefix, keys, physical_offset, stored)
        self.dispatched += 1

    def _append(self, request: DispatchRequest, code: int, queue_offset: int) -> None:
        """Add the units of a record to its queue and its further queues."""
        queue, physical_offset, size = request.queue, request.physical_offset, request.size
        if self.lmq_enabled:
            self._append_lmq(request, code)
            if self.is_deleted(queue.topic.name, physical_offset):
                return  # the record has waited for a flush meanwhile
        if isinstance(queue, BatchConsumeQueue):
            stamp = request.store_timestamp, request.messages
            queue.append_batch(queue_offset, physical_offset, size, code, stamp)
        else:
            unit_code = self._ext_code(request, code) if queue.ext is not None else code
            queue.append(queue_offset, physical_offset, size, unit_code)

    def _ext_code(self, request: DispatchRequest, code: int) -> int:
        """Write an extension unit; return its address, or the tags code if it cannot be written.

        **Source:** RocketMQ ConsumeQueue#putMessagePositionInfoWrapper.
        """
        queue, place = request.queue, (request.queue_offset, request.physical_offset)
        if not self.queues.ext_enabled or queue.ext is None:
            return code
        if place[0] < queue.max_offset and not queue.restart_if_recreated(*place):
            return code  # the queue has the unit already
        bits = b""
        if self.calculate_bit_map is not None:
            bits = self.calculate_bit_map(queue.topic.name, request.properties)
        try:
            return queue.ext.put(ConsumeQueueExtUnit(code, request.store_timestamp, bits))
        except (OSError, StoreError) as error:
            _log.warning("%s: no extension unit: %s", queue.topic.name, error)
            return code

    def _notify(
        self, queue: ConsumeQueue, queue_offset: int, code: int, stored: int, properties: bytes
    ) -> None:
        """Call the listeners registered for the topic of a message."""
        name = queue.topic.name
        for listener, topics in self._listeners:
            if topics is None or name in topics:
                listener(name, queue.queue_id, queue_offset + 1, code, stored, properties)

    def _append_again(self, request: DispatchRequest, code: int) -> None:
        """During recovery: add a record's unit, unless its topic was deleted."""
        topic = request.queue.topic
        skip = self.skip
        if not topic.usable:
            return
        if skip is not None and skip(topic, request.physical_offset):
            if self.lmq_enabled and request.physical_offset >= self.units_from:
                self._append_lmq(request, code)
            return
        if self.validator is not None:
            self.validator.accept(request, code)
        else:
            self.append_repaired(request, code)

    def append_repaired(self, request: DispatchRequest, code: int, queue_offset: int = -1) -> None:
        """During recovery: store a record's unit in its queue, truncating the queue if needed.

        ``queue_offset`` -1 takes the record's own; another value replaces a damaged one.
        """
        if queue_offset < 0:
            queue_offset = request.queue_offset
        unit = (request.physical_offset, request.size, code)
        self._truncate_at_mismatch(request.queue, queue_offset, unit)
        self._append(request, code, queue_offset)

    def _truncate_at_mismatch(self, queue: ConsumeQueue, queue_offset: int, unit: Unit) -> None:
        """During recovery: truncate a queue at a unit that differs from the log.

        The later units are dispatched again, since the log is read to its end. A unit differs if a
        power cut left an older state of the file, or if a topic was deleted and recreated: the
        later record wins. A queue whose first offset is above ``queue_offset`` has lost files.
        """
        if queue_offset < queue.first_offset:
            queue.truncate_units(0)
        elif queue_offset < queue.max_offset:
            stored = queue.unit(queue_offset)
            if (
                stored is None
                or stored[:2] != unit[:2]
                or (self.compare_codes and stored[2] != unit[2] and not is_ext_address(stored[2]))
            ) and not self._restart_if_recreated(queue, queue_offset, stored, unit[0]):
                queue.truncate_units(queue_offset)

    def _restart_if_recreated(
        self, queue: ConsumeQueue, queue_offset: int, stored: Unit | None, physical_offset: int
    ) -> bool:
        """During recovery: whether a record restarts its topic, whose queues are then empty.

        The unit that it replaces must be that of an earlier record with the same queue offset: for
        a damaged unit the other queues are kept.
        """
        return (
            stored is not None
            and stored[0] < physical_offset
            and self.has_record is not None
            and self.has_record(queue, queue_offset, stored)
            and queue.restart_if_recreated(queue_offset, physical_offset)
        )

    def _append_lmq(self, request: DispatchRequest, code: int) -> None:
        """Add the record's units in further queues; a failed one does not prevent the others."""
        physical_offset, size = request.physical_offset, request.size
        units = multi_dispatch.units(request.queue.topic.name, request.properties)
        for name, queue_offset in units:
            try:
                queue = multi_dispatch.queue_of(self.queues, name, request.queue.queue_id)
                if self.is_deleted(queue.topic.name, physical_offset):
                    continue
                lost = queue_offset - queue.max_offset
                free_bytes = max(0, physical_offset - max(0, queue.max_physical_offset))
                if lost * RECORD_LEAST > free_bytes * len(units):
                    raise ValueError(
                        f"offset {queue_offset} in queue {name[:40]!r}, which ends at"
                        f" {queue.max_offset}: the space between cannot hold so many records"
                    )
                if self.recovering:
                    unit = (physical_offset, size, code)
                    self._truncate_at_mismatch(queue, queue_offset, unit)
                queue.append(queue_offset, physical_offset, size, code)
                if not self.recovering:
                    stored = request.store_timestamp
                    self._notify(queue, queue_offset, code, stored, request.properties)
            except Exception as error:
                self._quarantine(request, error)

    def _requests(self, limit: int) -> Iterator[DispatchRequest]:
        """Records from ``offset`` up to ``limit``, read from the log."""
        log = self._log
        while self.offset < limit:
            file = log.files.find(self.offset)
            if file is None:
                return
            position = self.offset - file.start
            mapping = file.mapping
            end = min(file.written, limit - file.start, file.size)
            while position < end:
                size = check_record(mapping, position, end, check_crc=False)
                if size <= 0:
                    break
                yield self.read(mapping, position, file.start)
                position += size
            else:
                if position < file.size:
                    return
            if position < file.size and check_record(mapping, position) != BLANK_HERE:
                return
            self.offset = file.start + file.size

    def read(self, mapping: Buffer, position: int, base: int) -> DispatchRequest:
        """Decode the fields that dispatch needs from the valid record at ``position``.

        ``base`` is the physical offset of the file. The physical offset is computed from the
        record's position, not read from the record: a unit must never refer to other bytes.
        """
        size, queue_id, queue_offset, sys_flag, stored, name, properties = peek_dispatch_fields(
            mapping, position
        )
        topic = self.queues.topic_of_data(name)
        queue = self.queues.queue(topic, queue_id) if topic.usable else self._nowhere
        # Half the cost of a call of the type.
        return tuple.__new__(
            DispatchRequest,
            (base + position, size, stored, sys_flag, queue_offset, queue, properties, None),
        )
