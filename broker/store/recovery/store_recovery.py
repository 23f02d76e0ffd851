"""Recovery: determine and restore the contents of a store when it is opened.

The ``abort`` file and ``queueEnds.json`` distinguish five cases:

====================  ========================================  ==================================
last stop             condition                                 scanned part of the log
====================  ========================================  ==================================
clean, this broker    no ``abort``, ``queueEnds.json`` matches  from the newest unit's record on
clean, other broker   no ``abort``                              the whole log, once
killed, other broker  ``abort``, no ``queueEnds.json``          the whole log, once
killed, same kernel   ``abort`` has this kernel and directory   from the newest unit's record on;
                                                                CRCs since the checkpoint
any other             ``abort``                                 from the checkpoint's file on
====================  ========================================  ==================================

If log files or queues are missing or truncated, the whole log is scanned in each case.

A killed process loses no stored bytes: the page cache belongs to the kernel, so the files are
complete while the same kernel runs. A copied directory has another identity. After either kind of
crash the scan starts earlier if the last file of a queue is full: a further file may have been
lost.

Every scanned record is dispatched; queues and index ignore the ones they already contain. A lost or
truncated queue is therefore rebuilt, where Java leaves it at [0,0]. Index files that may not be on
disk are removed before the scan, which fills them again: no record is read twice. Corruption
truncates the log only when no plausible record follows it (see
:mod:`broker.store.recovery.log_scan`). Java truncates the log there and loses the intact records
after it.

**Source:** RocketMQ DefaultMessageStore#load, CommitLog#recoverNormally, #recoverAbnormally,
StoreCheckpoint.
"""

import logging
import os
import time
from itertools import pairwise
from typing import Any, Final

from broker.common.encoding.java_json import loads
from broker.errors import DiskFullError
from broker.store.commitlog import CommitLog
from broker.store.config import MessageStoreConfig
from broker.store.config_file import ConfigFile
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.dispatch.reput import ReputService
from broker.store.flushing.flush import StoreCheckpoint
from broker.store.format.commitlog import (
    BLANK_HERE,
    check_record,
    file_name,
    own_offset,
    store_timestamp,
)
from broker.store.format.consumequeue import PRE_BLANK_SIZE
from broker.store.format.state import ABORT, CONFIG_DIR, encode_abort
from broker.store.index.index_file import repair_slots
from broker.store.index.index_service import IndexService
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import NOWHERE
from broker.store.recovery.consume_queue_validator import MAX_NOTES, ConsumeQueueValidator
from broker.store.recovery.index_repairer import IndexRepairer
from broker.store.recovery.log_scan import LogScan
from broker.store.recovery.queue_type import QueueTypeResolver
from broker.store.recovery.store_manifest import StoreManifest
from broker.store.results import FoundDamage, RecoveryReport

_log = logging.getLogger(__name__)

SYNC_FAILED: Final = b"sync failed\n"


def abort_content(disk: Disk, root: str) -> bytes:
    """Content of ``abort`` while the store is open: pid, boot ID, identity of the store directory.

    Java checks only whether the file exists; 5.x writes the pid.
    """
    device, inode = disk.identity(root)
    identity = f"\nboot={disk.boot_id()} folder={device}:{inode}\n"
    return encode_abort(os.getpid()) + identity.encode()


def same_kernel(disk: Disk, root: str) -> bool:
    """Return whether ``abort`` was written under the running kernel and in this directory."""
    try:
        found = disk.read(os.path.join(root, ABORT)).split(b"\n", 1)
    except OSError:
        return False
    ours = abort_content(disk, root).split(b"\n", 1)
    return bool(disk.boot_id()) and len(found) == 2 and found[1] == ours[1]


class Recovery:
    """One recovery run over the parts of a store that is being opened."""

    def __init__(
        self,
        disk: Disk,
        config: MessageStoreConfig,
        parts: "StoreParts",
    ) -> None:
        self._disk = disk
        self._config = config
        self._log_files = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._checkpoint = parts.checkpoint
        self._reput = parts.reput
        self.report = RecoveryReport()
        self._manifest = parts.manifest
        self._scan = LogScan(disk, parts.log, parts.reput, parts.manifest, self.report)
        self._scan.check_crc = config.check_crc_on_recover
        self._check = ConsumeQueueValidator(
            parts.log, parts.queues, parts.reput, parts.manifest, self.report
        )
        self._types = QueueTypeResolver(parts.queues, parts.manifest, self.report)
        # Whether the files contain everything that was stored: no power failure occurred.
        self._intact = False
        self._rewrite = False

    def run(self) -> RecoveryReport:
        """Find the end of the log, truncate or rebuild queues and index, and open the log."""
        started = time.monotonic()
        report = self.report
        abort = os.path.join(self._config.root, ABORT)
        report.clean = not self._disk.exists(abort)
        if not report.clean and self._sync_failed(abort):
            report.notes.append(
                "a sync failed before the last stop: all data is rewritten and synced"
            )
            self._rewrite = True
        files = self._log_files.files.files
        for file in files:
            file.written = file.size
        if files:
            self._check.known = self._configured_topics()
            self._reput.skip = self._check.is_gone
            self._reput.has_record = self._check.has_record
            self._reput.recovering = True
            self._reput.on_quarantined = self._note_quarantined
            self._reput.compare_codes = not report.clean
            self._intact = report.clean or same_kernel(self._disk, self._config.root)
            self._scan.power_failed = not self._intact
            self._check.drop_unvalidated(intact=self._intact)
            full = [] if report.clean else self._check.full()
            newest = self._queues.max_physical_offset()
            # If the newest file of a queue is missing, its lost records follow its last known one.
            perhaps_lost = min((queue.max_physical_offset for queue, _ in full), default=NOWHERE)
            start = self._start(newest, perhaps_lost)
            report.scanned_from = start
            if self._intact and not (self._index and self._index.files):
                # If this start is killed, the next one continues at the newest unit.
                self._scan.dispatch_in_order()
            if self._check.known is None:
                self._types.declare(self._scan.inner_batches(start))
            end = self._scan.run(start)
            if self._check.known is None:
                self._types.report_topics()
            self._check.report_repaired(full)
            self._report_lost(end)
            report.scanned_bytes = max(0, end - start)
            report.removed_files += [file.path for file in files if file.start > end]
            self._cut(end)
            self._reput.recovering = False
            self._reput.skip = self._reput.has_record = self._reput.on_quarantined = None
            self._reput.units_from = 0
        else:
            self._forget_queues()
            if self._index is not None and self._index.files:
                report.removed_files += self._index.drop_from(0)
            # The log restarts at 0, below every recorded physical offset.
            self._manifest.deleted.clear()
            self._manifest.damaged.clear()
            self._log_files.open_at(0, 0)
        self._settle()
        report.milliseconds = (time.monotonic() - started) * 1000
        return report

    def _note_quarantined(self, physical_offset: int, size: int, reason: str) -> None:
        if len(self.report.notes) < MAX_NOTES:
            self.report.notes.append(
                f"record at {physical_offset} ({size} bytes) is not in all of its queues: {reason}"
            )

    # --- start of the scan -----------------------------------------------------------------------

    def _start(self, newest: int, perhaps_lost: int) -> int:
        """Physical offset from which to scan the log; after a crash at most ``perhaps_lost``."""
        report = self.report
        log_min = self._log_files.min_offset
        if self._log_incomplete() or self._check.missing():
            self._announce(whole=True)
            report.notes.append("files are missing or short: the whole log is read")
            self._repair_index(trusted=self._intact)
            return log_min
        if not report.clean and not self._manifest.found:
            # Nothing records the queues: one that lost units would stay short.
            self._announce(whole=True)
            report.notes.append("last run by another broker: the whole log is read once")
            self._repair_index(trusted=self._intact)
            return log_min
        if report.clean:
            return self._start_after_stop(newest)
        if self._intact:
            report.notes.append(
                "the process was killed, the kernel still runs: all stored data is in the files"
            )
            self._trust(newest)
            index_start = self._repair_index(trusted=True)
            if index_start < 0:
                # The newest record has a unit, but may not be indexed yet.
                index_start = self._newest_record()
            start = self._known_good(min(newest, index_start, perhaps_lost))
            return self._scan.check_bodies(self._written_since_checkpoint(), start)
        index_start = self._repair_index(trusted=False)
        start = max(log_min, min(self._file_of_checkpoint(), self._known_good(perhaps_lost)))
        return self._start_for_index(start, index_start)

    def _start_for_index(self, start: int, index_start: int) -> int:
        """Start of a scan that also fills the index from ``index_start`` on (-1: no index).

        The queues are complete before ``start``: the records before it are only indexed.
        """
        if not 0 <= index_start < start:
            return start
        is_gone = self._check.is_gone
        self._reput.units_from = start
        self._reput.skip = lambda topic, offset: offset < start or is_gone(topic, offset)
        return max(self._log_files.min_offset, index_start)

    def _start_after_stop(self, newest: int) -> int:
        report = self.report
        log_min = self._log_files.min_offset
        doubtful = self._index is not None and self._index.first_unverified() is not None
        if doubtful:
            self._announce()
        index_start = self._repair_index(trusted=True) if doubtful else -1
        end = self._quick_end(newest)
        if self._index is not None:
            report.removed_files += self._index.cut(end)
            if self._index.files:
                # A start after a clean stop may have been killed before it wrote abort.
                repair_slots(self._index.files[-1])
        if self._manifest.log_end > end:
            self._announce(whole=True)
            report.notes.append("the end of the log is missing: the whole log is read")
            return log_min
        if self._manifest.log_end != end:
            self._announce(whole=True)
            report.notes.append("last stopped by another broker: the whole log is read once")
            return log_min
        if doubtful:
            report.notes.append("the index is rebuilt from the log")
            return max(log_min, index_start)
        if self._index is not None and self._index.end_physical_offset < self._manifest.indexed:
            self._announce()
            report.notes.append("index files are missing: they are rebuilt from the log")
            return max(log_min, self._repair_index(trusted=True))
        self._trust(newest)
        start = self._known_good(newest)
        if start < end:
            self._announce()
        return start

    def _announce(self, *, whole: bool = False) -> None:
        """Write down that files are about to be changed, for a start after this one is killed.

        After a clean stop ``abort`` is written: otherwise the store would look cleanly stopped.
        ``whole``: the next start must scan the whole log. Queues that this start has rebuilt in
        part would look complete to it.
        """
        try:
            if whole and not self._manifest.reread:
                self._manifest.require_full_scan()
            if self.report.clean:
                self._disk.write(os.path.join(self._config.root, ABORT), b"")
                self._disk.sync_folder(self._config.root)
        except DiskFullError as error:
            # Reading needs no space; the only risk is a power failure during this start.
            _log.warning("not noted that this start changes files: %s", error.message)

    def _log_incomplete(self) -> bool:
        """Return whether the state of the log files requires a full scan.

        It does if a file was truncated, if a file is missing and not recorded as damaged, or if an
        earlier start was interrupted while it repaired files.
        """
        files = self._log_files.files
        if self._manifest.reread or files.short_from < NOWHERE:
            return True
        for before, after in pairwise(files.files):
            begin, end = before.start + files.file_size, after.start
            if begin < end and not any(s <= begin and end <= e for s, e in self._manifest.damaged):
                return True
        return False

    def _trust(self, newest: int) -> None:
        """Mark the log as gapless after the newest unit's record: no queue is truncated."""
        if newest >= 0:
            self._scan.trusted_from = newest

    def _written_since_checkpoint(self) -> int:
        """Physical offset up to which the log was on disk according to the checkpoint.

        Uses a binary search by storeTimestamp in each queue: a scan of the last log file would take
        seconds.
        """
        limit = self._checkpoint.value.physic_msg_timestamp
        log = self._log_files
        start = log.min_offset
        for queue in self._queues.visit():
            low, high = queue.first_offset, queue.max_offset
            middle = high - 1  # most queues have no newer unit
            while low < high:
                unit = queue.unit(middle)
                if unit is None or log.store_timestamp_at(unit[0]) < limit:
                    low = middle + 1
                else:
                    high = middle
                middle = (low + high) // 2
            last = queue.unit(low - 1)
            if last is not None and last[1] != PRE_BLANK_SIZE:
                start = max(start, last[0] + last[1])
        return start

    def _newest_record(self) -> int:
        """Highest physical offset of the last units of all queues, -1 if there are none."""
        newest = -1
        for queue in self._queues.visit():
            unit = queue.unit(queue.max_offset - 1) if queue.max_offset > 0 else None
            if unit is not None:
                newest = max(newest, unit[0])
        return newest

    def _file_of_checkpoint(self) -> int:
        """Start of the newest file whose first record is not newer than the checkpoint.

        The first file if there is none.

        **Source:** RocketMQ CommitLog#isMappedFileMatchedRecover.
        """
        config = self._config
        checkpoint = self._checkpoint.value
        limit = checkpoint.min_timestamp
        if config.message_index_enable and config.message_index_safe:
            limit = checkpoint.min_timestamp_index
        files = self._log_files.files.files
        for file in reversed(files):
            mapping = file.mapping
            if check_record(mapping, 0, check_crc=False) > 0:
                stored = store_timestamp(mapping, 0)
                if 0 < stored <= limit:
                    return file.start
        return files[0].start

    def _known_good(self, physical_offset: int) -> int:
        """``physical_offset`` if a log file contains it, else the start of the last earlier file.

        The log's min offset if it is negative or no file precedes it.
        """
        files = self._log_files.files
        file = files.find(physical_offset)
        if physical_offset < 0 or file is None:
            return (
                self._log_files.min_offset
                if physical_offset < 0
                else max(
                    (f.start for f in files.files if f.start <= physical_offset),
                    default=self._log_files.min_offset,
                )
            )
        return physical_offset

    def _quick_end(self, newest: int) -> int:
        """End of the log, found from the newest unit by record lengths; no CRC, no dispatch."""
        position = self._known_good(newest)
        while True:
            file = self._log_files.files.find(position)
            if file is None:
                return position
            at = position - file.start
            size = check_record(file.mapping, at, file.size, check_crc=False)
            if size > 0 and own_offset(file.mapping, at) == position:
                position += size
            elif size == BLANK_HERE and self._log_files.files.find(file.start + file.size):
                position = file.start + file.size
                following = self._log_files.files.find(position)
                if following is None or check_record(following.mapping, 0, check_crc=False) <= 0:
                    return file.start + at
            else:
                return position

    def _sync_failed(self, abort: str) -> bool:
        """Return whether a sync of the last owner failed.

        The kernel may then have marked unwritten pages as clean, so that a further sync would skip
        them. Recovery therefore rewrites all pages.
        """
        try:
            return self._disk.read(abort).endswith(SYNC_FAILED)
        except OSError:
            return False

    def _repair_index(self, *, trusted: bool) -> int:
        """Repair the index; return the physical offset to fill it from, -1 if it has no entries."""
        if self._index is None:
            return -1
        start = IndexRepairer(self._index, self.report).run(
            None if trusted else self._checkpoint.value, self._manifest.indexed
        )
        # Before new entries are added: a removed file must not reappear after a power failure, and
        # a file that is refilled must not count as synced.
        self._finalise_index_files()
        return start

    def _finalise_index_files(self) -> None:
        if self._index is not None and self._index.removed:
            self._index.finalise_removed()
            self._checkpoint.set_index(
                min(self._checkpoint.value.index_msg_timestamp, self._index.full_until())
            )
            self._checkpoint.flush()

    # --- topics and losses --------------------------------------------------------------------

    def _configured_topics(self) -> set[str] | None:
        """Topics of topics.json or its backup; None if neither can be read or lists a topic.

        Also registers the topics with batch queues.
        """
        path = os.path.join(self._config.root, CONFIG_DIR, "topics.json")
        file = ConfigFile(path, self._disk)
        texts = [file.load(), file.load_backup()]
        for text in texts:
            try:
                content: Any = loads(text)
                table = content["topicConfigTable"]
                batch = [
                    name
                    for name, topic in table.items()
                    if topic.get("attributes", {}).get("queue.type") == "BatchCQ"
                ]
                known = set(table)
            except Exception:
                continue
            if known:
                self._types.configure(batch)
                return known
        return None

    def _report_lost(self, end: int) -> None:
        """Report the parts of the log that the manifest recorded and that are now missing."""
        bounds = self._manifest.bounds
        folder = self._log_files.files.folder
        log_min = self._log_files.min_offset
        if 0 <= bounds.log_min < log_min:
            path = os.path.join(folder, file_name(bounds.log_min))
            if self.report.clean:
                self._lost(path, bounds.log_min, log_min, "the first files of the log are missing")
            else:
                self.report.notes.append(f"the log started at {bounds.log_min}, now at {log_min}")
        if end < bounds.log_end:
            last = self._log_files.files.files[-1]
            state = f"the end is missing: the log ended at {bounds.log_end}"
            self._lost(last.path, end, bounds.log_end, state)

    def _lost(self, path: str, start: int, end: int, reason: str) -> None:
        self.report.damaged_regions.append(
            FoundDamage(
                path=path,
                physical_offset=start,
                length=end - start,
                reason=reason,
                action="skipped",
            )
        )

    # --- after the scan -----------------------------------------------------------------------

    def _cut(self, end: int) -> None:
        self._log_files.open_at(end, self._scan.last_timestamp or self._timestamp_before(end))
        if not self.report.clean:
            # Bytes of a dropped record stay dropped: a start after a clean stop checks less, and
            # would take a record without some sectors of its properties for a stored message.
            self._log_files.erase_after_end()
        if self._index is not None:
            self.report.removed_files += self._index.cut(end)
        # A deletion may be recorded at a log end that a power failure reverted: records stored from
        # here on belong to the recreated topic.
        for topic, noted in self._manifest.deleted.items():
            self._manifest.deleted[topic] = min(noted, end)
        self._manifest.damaged[:] = [(s, min(e, end)) for s, e in self._manifest.damaged if s < end]
        for queue in self._queues.visit():
            if queue.truncate_to_log(end):
                self.report.notes.append(
                    f"{queue.topic.name}/{queue.queue_id}: truncated to the end of the log"
                )
                # Its last unit may be one of a lost record, which the removed ones were after.
                self._check.drop_without_record(queue)
        self.report.log_end = end
        self.report.dispatched = self._reput.dispatched

    def _timestamp_before(self, end: int) -> int:
        """storeTimestamp of the record that ends at ``end`` if a queue has its unit.

        Otherwise the CommitLog timestamp of the checkpoint.
        """
        for queue in self._queues.visit():
            if queue.max_physical_offset == end and queue.max_offset > 0:
                unit = queue.unit(queue.max_offset - 1)
                if unit is not None:
                    return max(0, self._log_files.store_timestamp_at(unit[0]))
        return self._checkpoint.value.physic_msg_timestamp

    def _forget_queues(self) -> None:
        """Remove all ConsumeQueues: without a log their units refer to no record.

        **Source:** RocketMQ ConsumeQueueStore#destroy in CommitLog#recoverNormally.
        """
        for queue in self._queues.visit():
            if queue.files.files:
                self.report.notes.append(f"{queue.topic.name}/{queue.queue_id}: no log, removed")
            queue.destroy()

    def _settle(self) -> None:
        """Remove queues without files and set offsets, counters and the flushed position."""
        log_min = self._log_files.min_offset
        for queue in self._queues.visit():
            if queue.files.files:
                queue.next_offset = queue.max_offset
                queue.correct_min_offset(log_min)
            elif not self._disk.exists(queue.files.folder):
                del queue.topic.queues[queue.queue_id]
        if self._index is not None:
            self._index.flush_header()
        self._set_flushed_position()
        self._reput.offset = self._log_files.max_offset
        self._reput.last_store_timestamp = self._log_files.last_store_timestamp

    def _touch_everything(self) -> None:
        """Rewrite every file in place so that the kernel marks all pages dirty."""
        for file in self._log_files.files.files:
            file.rewrite()
        for queue in self._queues.visit():
            for file in queue.files.files:
                file.rewrite()
        for index in self._index.files if self._index is not None else ():
            index.file.rewrite()

    def _set_flushed_position(self) -> None:
        """Set the flushed positions: everything after a clean stop, otherwise sync the log first.

        Bytes that a killed process left in the page cache count as flushed from here on, so the log
        is synced now (free if no page is dirty), and the queues with their next flush.
        """
        if self.report.clean and not self.report.dispatched:
            for queue in self._queues.visit():
                queue.mark_flushed()
            return
        self._log_files.files.finalise_removed()
        if self._rewrite:
            self._touch_everything()
        for file in self._log_files.files.files:
            file.sync()
        for queue in self._queues.visit():
            queue.files.finalise_removed()
            queue.mark_dirty()
        self._finalise_index_files()


class StoreParts:
    """The parts of a store that recovery works on."""

    __slots__ = ("checkpoint", "index", "log", "manifest", "queues", "reput")

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueueStore,
        index: IndexService | None,
        reput: ReputService,
        notes: tuple[StoreCheckpoint, StoreManifest],
    ) -> None:
        self.log = log
        self.queues = queues
        self.index = index
        self.reput = reput
        self.checkpoint, self.manifest = notes
