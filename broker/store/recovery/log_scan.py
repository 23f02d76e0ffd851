"""LogScan: scan the CommitLog during recovery and dispatch its records.

This module decides how recovery treats corruption. Corruption truncates the log only when no
plausible record follows it; otherwise the damaged region is recorded, hidden from readers and
skipped. A record is plausible if it is intact, its physical offset matches its position, it is
not older than the previous record, and its queue offset was not assigned before. Java truncates the
log at the first corruption and loses the intact records after it.

**Source:** RocketMQ CommitLog#recoverNormally, #recoverAbnormally.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from broker.common.sysflag import (
    INNER_BATCH,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from broker.store.commitlog import CommitLog
from broker.store.dispatch.reput import ReputService
from broker.store.dispatch.request import DispatchRequest
from broker.store.format.commitlog import (
    BAD_BLANK,
    BAD_CRC,
    BAD_PROPERTY_CRC,
    BLANK_HERE,
    BLANK_SIZE,
    MAGIC_AT,
    MAGIC_PREFIX,
    NOT_WRITTEN,
    SHAPE_AT,
    check_record,
    file_name,
    is_plausible,
    own_offset,
    peek_dispatch_fields,
    store_timestamp,
)
from broker.store.format.consumequeue import peek_inner_count
from broker.store.format.lost_sectors import LOST_PROPERTIES, find_lost_part
from broker.store.format.vectorized.loops import compiled
from broker.store.format.vectorized.record_count import Tally, walk_plain
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import NOWHERE, MappedFile
from broker.store.recovery.log_files import refuse_moved
from broker.store.recovery.progress import MIB, Progress
from broker.store.recovery.queue_offset_validator import QueueOffsetValidator
from broker.store.recovery.runs.encoded_run import ReadOptions
from broker.store.recovery.runs.parallel_run_reader import ParallelRunReader, process_count
from broker.store.recovery.runs.run_dispatcher import LocalRunReader, RunDispatcher
from broker.store.recovery.store_manifest import StoreManifest
from broker.store.results import FoundDamage, RecoveryReport

if TYPE_CHECKING:
    from broker.store.recovery.runs.vectorized_dispatcher import VectorizedDispatcher

_log = logging.getLogger(__name__)

_SEARCH_BYTES: Final = 1 << 20
# Bytes read between two calls that release mapped pages: bounds resident memory.
PAGE_OUT_BYTES: Final = 16 << 20
# Shorter scans do without the compiled loops: to load them would take longer. If their machine code
# is not in the cache, that is true of scans COMPILING_FACTOR times as long.
VECTORIZED_FROM_BYTES: Final = 32 << 20
COMPILING_FACTOR: Final = 128
# Without the compiled loops, longer scans are read by several processes: to start one takes as long
# as 16 MiB.
PARALLEL_FROM_BYTES: Final = 64 << 20
_PROBE_BYTES: Final = 4096
_FEW_RECORDS: Final = 16
_MAX_SLOW: Final = 4096
# Status besides those of check_record: the record's own physical offset is not its position.
_BAD_POSITION: Final = -16
_REASONS: Final = {
    NOT_WRITTEN: "zeros followed by further records",
    BAD_BLANK: "a blank record that does not extend to the end of the file",
    BAD_CRC: "body CRC mismatch",
    BAD_PROPERTY_CRC: "property CRC mismatch",
    LOST_PROPERTIES: "zeros in place of properties",
    _BAD_POSITION: "wrong physical offset in the record",
}


class LogScan:
    """One scan of the log.

    ``trusted_from`` is a physical offset from which the first position without a record is the end
    of the log: no record can have been stored after it. ``last_timestamp`` is the newest
    storeTimestamp read. With ``power_failed`` single sectors of records may be missing.
    Scans of at least ``vectorized_from_bytes`` bytes use the compiled loops, without these those of
    at least ``parallel_from_bytes`` several processes.
    """

    vectorized_from_bytes = VECTORIZED_FROM_BYTES
    parallel_from_bytes = PARALLEL_FROM_BYTES

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        reput: ReputService,
        manifest: StoreManifest,
        report: RecoveryReport,
    ) -> None:
        self._disk = disk
        self._log = log
        self._reput = reput
        self._manifest = manifest
        self._report = report
        self.check_crc = True
        self.power_failed = False
        self.trusted_from = NOWHERE
        self.last_timestamp = 0
        self._previous_timestamp = 0
        self._progress = Progress("", 0, 0, MIB)
        self._began = 0
        self._paged = -1
        self._dispatcher: RunDispatcher | VectorizedDispatcher | None = None
        self._vectorize_from: int | None = None
        self._parallel = False
        # With LMQ a record can have units in several queues: each is dispatched by itself.
        self._in_runs = not reput.lmq_enabled
        # Records to read one by one before the next attempt to dispatch a run.
        self._slow_records = 0
        self._slow_next = _FEW_RECORDS

    def dispatch_in_order(self) -> None:
        """Add units strictly in log order: no runs of records, whose queues are added in turn."""
        self._in_runs = False

    def run(self, start: int) -> int:
        """Scan and dispatch from physical offset ``start``; return the end of the log."""
        files = self._log.files.files
        end = files[-1].start + files[-1].size if files else start
        self._progress = Progress("recovery: reading the log", start, end, MIB)
        self._began = start
        validator = self._reput.validator = QueueOffsetValidator(
            self._reput.append_repaired, self._mismatched
        )
        if self._in_runs:
            self._dispatcher = RunDispatcher(self._reput, LocalRunReader(self._options))
            self._vectorize_from = self.vectorized_from_bytes
        try:
            end = self._run(start)
        finally:
            self._replace_dispatcher(None)
        validator.finish(
            something_lost=bool(self._report.damaged_regions), log_min=self._log.min_offset
        )
        self._reput.validator = None
        return end

    def check_bodies(self, start: int, end: int) -> int:
        """Check CRCs between two physical offsets; return the first one without an intact record.

        Regions already recorded as damaged are skipped. Returns ``end`` if all records are intact,
        or if CRC checks are off. Does not dispatch: after a kill all but the newest records are
        dispatched already, and the check alone takes a tenth of the time.
        """
        position = start
        file: MappedFile | None = None
        while self.check_crc and position < end:
            if file is None or position >= file.start + file.size:
                file = self._log.files.find(position)
                if file is None:
                    return position
            at = position - file.start
            size = check_record(file.mapping, at, file.size)
            if size > 0 and own_offset(file.mapping, at) == position:
                position += size
            elif size == BLANK_HERE:
                file.page_out()
                position = file.start + file.size
            else:
                known = [stop for begin, stop in self._manifest.damaged if begin <= position < stop]
                if not known:
                    return position
                position = max(known)
        return end

    def inner_batches(self, start: int) -> Iterator[tuple[bytes, int]]:
        """Encoded topic and physical offset of every inner batch from ``start`` on.

        Dispatches nothing and reads no bodies. A record is an inner batch if its sysFlag and its
        INNER_NUM agree: a single flipped bit of sysFlag does not make one.
        """
        for file in self._log.files.files:
            mapping = file.mapping
            paged = position = max(0, start - file.start)
            while 0 <= position <= file.size - BLANK_SIZE:
                if position - paged >= PAGE_OUT_BYTES:
                    paged = position
                    file.page_out()
                # Plain records are not inner batches: the walk skips them, ten times as fast.
                stop = min(paged + PAGE_OUT_BYTES, file.size)
                position, _ = walk_plain(mapping, position, file.start, Tally(), stop)
                size = check_record(mapping, position, file.size, check_crc=False)
                if size > 0:
                    if mapping[position + SHAPE_AT] & INNER_BATCH:
                        *_, topic, properties = peek_dispatch_fields(mapping, position)
                        physical_offset = file.start + position
                        if (
                            peek_inner_count(properties) is not None
                            and own_offset(mapping, position) == physical_offset
                        ):
                            yield topic, physical_offset
                    position += size
                elif size == BLANK_HERE:
                    break
                else:
                    position = self._next_start(file, position + 1)
            file.page_out()

    @property
    def _options(self) -> ReadOptions:
        index = self._reput.index
        indexed_to: int | None = None
        if index is not None:
            indexed_to = index.files[-1].end_physical_offset if index.files else -1
        return ReadOptions(self.check_crc, self.power_failed, indexed_to)

    def _mismatched(self, request: DispatchRequest, code: int, queue_offset: int) -> None:
        """Append a unit for a record with a corrupt queue offset and mark the record as damaged."""
        self._reput.append_repaired(request, code, queue_offset)
        start = request.physical_offset
        file = self._log.files.find(start)
        if file is not None:
            reason = f"queue offset {request.queue_offset}, expected {queue_offset}"
            self._damaged(file, start, request.physical_end, reason)

    def _run(self, start: int) -> int:
        position = start
        end = start
        while True:
            file = self._log.files.find(position)
            if file is None:
                following = [f for f in self._log.files.files if f.start > position]
                if not self._continues_after(position):
                    return end
                name = file_name(position - position % self._log.file_size)
                self._damaged(following[0], position, following[0].start, f"no file {name}")
                position = following[0].start
                continue
            stop, whole = self._scan_file(file, position - file.start)
            file.page_out()
            if stop >= 0:
                end = file.start + stop
            if not whole:
                return end
            position = file.start + file.size

    def _scan_file(self, file: MappedFile, position: int) -> tuple[int, bool]:
        """Dispatch one file from ``position`` on.

        Returns the end of its last record (-1: none) and whether the log goes past this file.
        """
        mapping = file.mapping
        reput = self._reput
        check_crc = self.check_crc
        end = position if position else -1
        if position == 0 and file.start == self._log.min_offset:
            end = 0
        while position <= file.size - BLANK_SIZE:
            self._advance_to(file, position)
            after = self._dispatch_run(file, position)
            if after > position:
                position = end = after
                continue
            size = check_record(mapping, position, file.size, check_crc=check_crc)
            if size > 0 and self.power_failed:
                size = find_lost_part(mapping, position, size)
            if size > 0 and own_offset(mapping, position) != file.start + position:
                refuse_moved(file.path, mapping, position, file.start)
                size = _BAD_POSITION
            if size > 0:
                request = reput.read(mapping, position, file.start)
                reput.dispatch_record(request)
                stored = self._previous_timestamp = request.store_timestamp
                self.last_timestamp = max(self.last_timestamp, stored)
                position += size
                end = position
                continue
            if size == BLANK_HERE:
                return end, True
            after = self._resume_after_damage(file, position, size)
            if after < 0:
                return end, False
            if after == file.size:
                return end, True
            position = after
            if file.start + after <= self.trusted_from < NOWHERE or (
                size == _BAD_POSITION and not self.power_failed
            ):
                end = after  # a damaged record that was completely stored is part of the log
        return end, True

    def _advance_to(self, file: MappedFile, position: int) -> None:
        """Every few MiB: log the progress, release pages, take a faster path if that pays off."""
        if self._paged >= 0 and file.start + position - self._paged < PAGE_OUT_BYTES:
            return
        self._paged = file.start + position
        file.page_out()
        self._progress.at(self._paged)
        least = self._vectorize_from
        if least is not None and self._is_long(least):
            self._vectorize_from = self._vectorize(least)
        if (
            not self._parallel
            and isinstance(self._dispatcher, RunDispatcher)
            and self._is_long(self.parallel_from_bytes)
        ):
            self._read_in_parallel()

    def _read_in_parallel(self) -> None:
        """Let other processes read the log ahead, if there are processors for them."""
        self._parallel = True
        processes = process_count()
        if processes > 0:
            files = self._log.files.files
            reader = ParallelRunReader(files, self._paged, self._options, processes)
            self._replace_dispatcher(RunDispatcher(self._reput, reader))

    def _replace_dispatcher(
        self, dispatcher: "RunDispatcher | VectorizedDispatcher | None"
    ) -> None:
        if self._dispatcher is not None:
            self._dispatcher.close()
        self._dispatcher = dispatcher

    def _vectorize(self, reached: int) -> int | None:
        """Load the compiled loops; return after how many bytes to try again, None for never."""
        if not compiled():
            return None
        from broker.store.recovery.runs.vectorized_dispatcher import VectorizedDispatcher

        later = self.vectorized_from_bytes * COMPILING_FACTOR
        if reached < later and not VectorizedDispatcher.code_is_kept():
            return later
        self._replace_dispatcher(VectorizedDispatcher(self._reput, self._options))
        return None

    def _is_long(self, least: int) -> bool:
        """Return whether the scan is at least that many bytes long, if its content shows that.

        Files are created with their full size: only their content shows how long the log is.
        """
        if self._paged - self._began >= least:
            return True
        probe = self._began + least
        file = self._log.files.find(probe)
        if file is None:
            return False
        at = probe - file.start
        return any(file.mapping[at : at + _PROBE_BYTES])

    def _dispatch_run(self, file: MappedFile, position: int) -> int:
        """Dispatch a run of intact records together; return the position after them.

        Short runs double the number of records read one by one before the next attempt.
        """
        if self._dispatcher is None or self._reput.validator is None:
            return position
        if self._slow_records > 0:
            self._slow_records -= 1
            return position
        run = self._dispatcher.dispatch_run(file, position, self._reput.validator)
        if run.records < _FEW_RECORDS and run.interrupted:
            self._slow_records = self._slow_next = min(2 * self._slow_next, _MAX_SLOW)
        elif run.records >= _FEW_RECORDS:
            self._slow_next = _FEW_RECORDS
        if run.records:
            self._previous_timestamp = run.last_timestamp
            self.last_timestamp = max(self.last_timestamp, run.newest_timestamp)
        return run.next_position

    def _resume_after_damage(self, file: MappedFile, position: int, status: int) -> int:
        """Position where the log resumes after bytes without an intact record, -1 if it ends."""
        mapping = file.mapping
        start = position
        reason = _REASONS.get(status, "no record")
        if status in (BAD_CRC, BAD_PROPERTY_CRC, LOST_PROPERTIES, _BAD_POSITION):
            size = check_record(mapping, position, file.size, check_crc=False)
            # A record with a ConsumeQueue unit was completely stored: it is not a torn write. Nor
            # is an intact one with a wrong offset, unless sectors may be missing.
            moved = status == _BAD_POSITION
            complete = file.start + position + size <= self.trusted_from < NOWHERE
            complete |= moved and not self.power_failed
            if complete or self._continues_at(file, position + size):
                # The header is intact: the unit is kept, the body is hidden from readers.
                if moved or own_offset(mapping, position) == file.start + position:
                    self._reput.dispatch_record(self._reput.read(mapping, position, file.start))
                self._damaged(file, file.start + position, file.start + position + size, reason)
                return position + size
        if file.start + position >= self.trusted_from:
            return -1
        while (after := self._next_start(file, position + 1)) >= 0:
            if self._continues_at(file, after):
                self._damaged(file, file.start + start, file.start + after, reason)
                return after
            position = after
        if self._continues_after(file.start + file.size):
            self._damaged(file, file.start + start, file.start + file.size, reason)
            return file.size
        return -1

    def _next_start(self, file: MappedFile, position: int) -> int:
        """The next position in the file at which a record may start, -1 if there is none."""
        mapping = file.mapping
        while position < file.size:
            start, stop = self._disk.next_data(file.path, position)
            if start < 0:
                return -1
            at = start
            while at < stop:
                end = min(stop, at + _SEARCH_BYTES)
                # The magic code may cross the end of the block.
                block = bytes(mapping[at : end + BLANK_SIZE])
                hit = block.find(MAGIC_PREFIX)
                while hit >= 0:
                    found = at + hit - MAGIC_AT
                    if found >= position and is_plausible(mapping, found, file.start):
                        return found
                    hit = block.find(MAGIC_PREFIX, hit + 1)
                at = end
            position = stop
        return -1

    def _continues_at(self, file: MappedFile, position: int) -> bool:
        """Return whether the bytes at ``position`` can continue the log.

        They can if a plausible record starts there, or a blank record before a plausible file.
        """
        mapping = file.mapping
        size = check_record(mapping, position, file.size)
        if size == BLANK_HERE:
            following = self._log.files.find(file.start + file.size)
            return following is not None and self._plausible_first(following)
        if size <= 0 or own_offset(mapping, position) != file.start + position:
            return False
        # Older than the previous record: a remnant from before a truncation. The newest record
        # read is not the reference, because clocks may have been set back.
        if store_timestamp(mapping, position) < self._previous_timestamp:
            return False
        request = self._reput.read(mapping, position, file.start)
        queue = request.queue
        return (
            request.sys_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
            or request.queue_offset >= queue.max_offset
            or request.physical_offset < queue.max_physical_offset
        )

    def _plausible_first(self, file: MappedFile) -> bool:
        """Return whether the first record of a file can continue the log."""
        return self._continues_at(file, 0)

    def _continues_after(self, physical_offset: int) -> bool:
        """Return whether a file from this offset on has a record that can continue the log.

        Its first record may be damaged, too: corruption may extend over the start of a file.
        """
        for file in self._log.files.files:
            at = 0 if file.start >= physical_offset else -1
            while at >= 0:
                if self._continues_at(file, at):
                    return True
                at = self._next_start(file, at + 1)
        return False

    def _damaged(self, file: MappedFile, start: int, end: int, reason: str) -> None:
        damage = FoundDamage(
            path=file.path,
            physical_offset=start,
            length=end - start,
            reason=reason,
            action="left unchanged; skipped by readers",
        )
        self._report.damaged_regions.append(damage)
        if (start, end) not in self._manifest.damaged:
            self._manifest.damaged.append((start, end))
        _log.warning("%s: %d bytes at %d: %s", file.path, end - start, start, reason)
