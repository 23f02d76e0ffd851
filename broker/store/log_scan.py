"""LogScan: recovery's reading of the log from a start to its end, dispatching what it reads.

What a damage means is decided here. It ends the log if nothing behind it is plausible; otherwise
it is noted, kept from readers, and passed over. Plausible is a record that says that it belongs
where it stands, is whole, is not older than what was read, and has a queue offset not given out
before. Java cuts the log at the first damage and loses the good records behind it.

**Source:** RocketMQ CommitLog#recoverNormally, #recoverAbnormally.
"""

import importlib.util
import logging
from typing import TYPE_CHECKING, Final

from broker.common.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from broker.store.commitlog import CommitLog
from broker.store.files import Disk
from broker.store.format.commitlog import (
    BAD_CRC,
    BAD_PROPERTY_CRC,
    BLANK_HERE,
    BLANK_SIZE,
    NOT_WRITTEN,
    check_record,
    file_name,
    is_plausible,
    own_offset,
    store_timestamp,
)
from broker.store.mapped_file import MappedFile
from broker.store.progress import MIB, Progress
from broker.store.queue_ends import QueueEnds
from broker.store.queue_order import QueueOrder
from broker.store.reput import Dispatch, ReputService
from broker.store.results import FoundDamage, RecoveryReport

if TYPE_CHECKING:
    from broker.store.column_lane import ColumnLane

_log = logging.getLogger(__name__)

_MAGIC_START: Final = b"\xda\xa3\x20"
_SEARCH_BYTES: Final = 1 << 20
# Read so much, then take the pages off this process's memory again.
_PAGE_OUT_BYTES: Final = 16 << 20
# Fewer bytes are read before the compiled loops are loaded.
LANE_FROM_BYTES: Final = 32 << 20
_FEW_RECORDS: Final = 16
_MOST_SLOW: Final = 4096
_REASONS: Final = {
    NOT_WRITTEN: "zeros, but the log goes on behind them",
    BAD_CRC: "the body is not the one that was stored (CRC)",
    BAD_PROPERTY_CRC: "the record is not the one that was stored (property CRC)",
}


def _column_lane(reput: ReputService) -> "ColumnLane | None":
    """The quick way, where numba is installed and no record has units in several queues."""
    if reput.light_queues or importlib.util.find_spec("numba") is None:
        return None
    from broker.store.column_lane import ColumnLane

    return ColumnLane(reput)


class LogScan:
    """One reading of the log.

    ``trusted_from`` is a physical offset from which on a place without a record is the end:
    nothing can have been stored behind it. ``last_timestamp`` is the newest storeTimestamp read.
    From ``lane_from`` bytes on the column lane reads with.
    """

    lane_from = LANE_FROM_BYTES

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        reput: ReputService,
        ends: QueueEnds,
        report: RecoveryReport,
    ) -> None:
        self._disk = disk
        self._log = log
        self._reput = reput
        self._ends = ends
        self._report = report
        self.check_crc = True
        self.trusted_from = 1 << 63
        self.last_timestamp = 0
        self._previous_timestamp = 0
        self._progress = Progress("", 0, 0, MIB)
        self._began = 0
        self._paged = -1
        # The quick way, for long logs where it can be had, and when to try it again.
        self._lane: ColumnLane | None = None
        self._slow_records = 0
        self._slow_next = _FEW_RECORDS

    def run(self, start: int) -> int:
        """Read and dispatch from ``start``; the end of the log."""
        files = self._log.files.files
        end = files[-1].start + files[-1].size if files else start
        self._progress = Progress("recovery: reading the log", start, end, MIB)
        self._began = start
        order = self._reput.order = QueueOrder(self._reput.place_again, self._misplaced)
        end = self._run(start)
        order.finish(something_lost=bool(self._report.damages), log_min=self._log.min_offset)
        self._reput.order = None
        return end

    def _misplaced(self, entry: Dispatch, code: int, queue_offset: int) -> None:
        """Keep the place of a record whose queue offset is damaged, and readers from it."""
        self._reput.place_again(entry, code, queue_offset)
        file = self._log.files.find(entry[0])
        if file is not None:
            reason = f"queue offset {entry[4]}, its place is {queue_offset}"
            self._damaged(file, entry[0], entry[0] + entry[1], reason)

    def _run(self, start: int) -> int:
        position = start
        end = start
        while True:
            file = self._log.files.find(position)
            if file is None:
                following = [f for f in self._log.files.files if f.start > position]
                if not following or not self._plausible_first(following[0]):
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
        """Dispatch one file from ``position``: end of its last record (-1: none), go on behind?"""
        mapping = file.mapping
        reput = self._reput
        check_crc = self.check_crc
        end = position if position else -1
        if position == 0 and file.start == self._log.min_offset:
            end = 0
        while position <= file.size - BLANK_SIZE:
            self._came_to(file, position)
            after = self._quickly(file, position)
            if after > position:
                position = end = after
                continue
            size = check_record(mapping, position, file.size, check_crc=check_crc)
            if size > 0:
                entry = reput.read(mapping, position, file.start)
                reput.dispatch_record(entry)
                self._previous_timestamp = entry[2]
                self.last_timestamp = max(self.last_timestamp, entry[2])
                position += size
                end = position
                continue
            if size == BLANK_HERE:
                return end, True
            after = self._behind_damage(file, position, size)
            if after < 0:
                return end, False
            if after == file.size:
                return end, True
            position = after
        return end, True

    def _came_to(self, file: MappedFile, position: int) -> None:
        """Now and then tell how far the reading is, and give pages back."""
        if self._paged >= 0 and file.start + position - self._paged < _PAGE_OUT_BYTES:
            return
        self._paged = file.start + position
        file.page_out()
        self._progress.at(self._paged)
        if self._lane is None and self._paged - self._began >= self.lane_from:
            self._lane = _column_lane(self._reput)

    def _quickly(self, file: MappedFile, position: int) -> int:
        """Dispatch a run of clean records in one go; where the slow way goes on.

        Where the lane finds little it is left alone for a while.
        """
        if self._lane is None or self._reput.order is None:
            return position
        if self._slow_records > 0:
            self._slow_records -= 1
            return position
        batch = self._lane.batch(file, position, self._reput.order, check_crc=self.check_crc)
        if batch.count < _FEW_RECORDS:
            self._slow_records = self._slow_next = min(2 * self._slow_next, _MOST_SLOW)
        else:
            self._slow_next = _FEW_RECORDS
        if batch.count:
            stored = batch.column("store_timestamp")
            self._previous_timestamp = int(stored[-1])
            self.last_timestamp = max(self.last_timestamp, int(stored.max()))
            return batch.next_position
        return position

    def _behind_damage(self, file: MappedFile, position: int, status: int) -> int:
        """Where the log goes on behind bytes that are no good record, -1 if it ends there."""
        mapping = file.mapping
        start = position
        reason = _REASONS.get(status, "no record")
        if status in (BAD_CRC, BAD_PROPERTY_CRC):
            size = check_record(mapping, position, file.size, check_crc=False)
            if self._goes_on(file, position + size):
                # The head is whole: its unit keeps its place, readers are kept from the body.
                if own_offset(mapping, position) == file.start + position:
                    self._reput.dispatch_record(self._reput.read(mapping, position, file.start))
                self._damaged(file, file.start + position, file.start + position + size, reason)
                return position + size
        if file.start + position >= self.trusted_from:
            return -1
        while (after := self._next_start(file, position + 1)) >= 0:
            if self._goes_on(file, after):
                self._damaged(file, file.start + start, file.start + after, reason)
                return after
            position = after
        following = self._log.files.find(file.start + file.size)
        if following is not None and self._plausible_first(following):
            self._damaged(file, file.start + start, file.start + file.size, reason)
            return file.size
        return -1

    def _next_start(self, file: MappedFile, position: int) -> int:
        """The next place in the file where a record may begin, -1 if there is none."""
        mapping = file.mapping
        while position < file.size:
            start, stop = self._disk.next_data(file.path, position)
            if start < 0:
                return -1
            at = start
            while at < stop:
                end = min(stop, at + _SEARCH_BYTES)
                # The magic stands 4 bytes behind the begin.
                hit = bytes(mapping[at : end + 8]).find(_MAGIC_START)
                while hit >= 0:
                    found = at + hit - 4
                    if found >= position and is_plausible(mapping, found, file.start):
                        return found
                    hit = bytes(mapping[at : end + 8]).find(_MAGIC_START, hit + 1)
                at = end
            position = stop
        return -1

    def _goes_on(self, file: MappedFile, position: int) -> bool:
        """Whether what stands at ``position`` can be the continuation of the log."""
        mapping = file.mapping
        size = check_record(mapping, position, file.size)
        if size == BLANK_HERE:
            following = self._log.files.find(file.start + file.size)
            return following is not None and self._plausible_first(following)
        if size <= 0 or own_offset(mapping, position) != file.start + position:
            return False
        # Older than the record before: left over from before a truncation. (Not older than the
        # newest one: clocks have been set back.)
        if store_timestamp(mapping, position) < self._previous_timestamp:
            return False
        entry = self._reput.read(mapping, position, file.start)
        return (
            entry[3] & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
            or entry[4] >= entry[5].max_offset
            or entry[0] < entry[5].max_physical_offset
        )

    def _plausible_first(self, file: MappedFile) -> bool:
        """Whether a file begins with a record that can follow what was read."""
        return self._goes_on(file, 0)

    def _damaged(self, file: MappedFile, start: int, end: int, reason: str) -> None:
        damage = FoundDamage(
            path=file.path,
            physical_offset=start,
            length=end - start,
            reason=reason,
            action="left as it is; reading goes on behind it",
        )
        self._report.damages.append(damage)
        if (start, end) not in self._ends.damaged:
            self._ends.damaged.append((start, end))
        _log.warning("%s: %d bytes at %d: %s", file.path, end - start, start, reason)
