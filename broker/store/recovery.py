"""Recovery: what a store holds when it is opened, after a clean stop and after any other.

Four cases, told apart by the ``abort`` file and by what this broker leaves beside it:

====================  =======================================  ==================================
last stop             how it is known                          what is read
====================  =======================================  ==================================
clean, by us          no ``abort``, ``queueEnds.json`` fits     the log from the newest unit on
clean, by Java        no ``abort``                              the whole log once, lengths only
killed, same kernel   ``abort`` names this kernel and folder    the log from the newest unit on
anything else         ``abort``                                 from the checkpoint's file on
====================  =======================================  ==================================

A killed process loses nothing that it stored: the page cache belongs to the kernel, so if the
same kernel still runs, files hold what was stored. A copied folder has another identity. After
either crash the log is read from further back where a queue ends exactly with its last file: one
more file may have been there.

Every record read is dispatched; queues and index drop what they have. So a lost or short queue
comes back, where Java leaves it at [0,0]. A damage ends the log only if nothing behind it is
plausible: same log position, no older time, no queue offset given out before. Java cuts the log
there and loses the good records behind.

**Source:** RocketMQ DefaultMessageStore#load, CommitLog#recoverNormally, #recoverAbnormally,
StoreCheckpoint.
"""

import logging
import os
import time
from itertools import pairwise
from typing import Any, Final

from broker.errors import DiskFullError
from broker.store.commitlog import CommitLog
from broker.store.config import MessageStoreConfig
from broker.store.config_file import ConfigFile
from broker.store.files import Disk
from broker.store.flush import StoreCheckpoint
from broker.store.format.commitlog import (
    BLANK_HERE,
    check_record,
    file_name,
    own_offset,
    store_timestamp,
)
from broker.store.format.state import ABORT, CONFIG_DIR
from broker.store.index import IndexService
from broker.store.index_file import repair_slots
from broker.store.index_repair import IndexHealing, IndexProof
from broker.store.log_scan import LogScan
from broker.store.mapped_file import NOWHERE
from broker.store.queue_check import QueueCheck
from broker.store.queue_ends import QueueEnds
from broker.store.queue_table import ConsumeQueueTable
from broker.store.reput import ReputService
from broker.store.results import FoundDamage, RecoveryReport

_log = logging.getLogger(__name__)

SYNC_FAILED: Final = b"sync failed\n"


def abort_content(disk: Disk, root: str) -> bytes:
    """What ``abort`` holds while the store is open: pid, kernel, identity of the folder.

    Java looks only at whether the file exists; 5.x writes the pid.
    """
    device, inode = disk.identity(root)
    return f"{os.getpid()}\nboot={disk.boot_id()} folder={device}:{inode}\n".encode()


def same_kernel(disk: Disk, root: str) -> bool:
    """Whether the kernel that the last owner ran on still runs, and the folder is no copy."""
    try:
        found = disk.read(os.path.join(root, ABORT)).split(b"\n", 1)
    except OSError:
        return False
    ours = abort_content(disk, root).split(b"\n", 1)
    return bool(disk.boot_id()) and len(found) == 2 and found[1] == ours[1]


class Recovery:
    """One run over the parts of a store that is being opened."""

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
        self._ends = parts.ends
        self._scan = LogScan(disk, parts.log, parts.reput, parts.ends, self.report)
        self._scan.check_crc = config.check_crc_on_recover
        self._check = QueueCheck(parts.log, parts.queues, parts.reput, parts.ends, self.report)
        # Whether files hold what was stored: no power cut came between.
        self._intact = False
        self._rewrite = False

    def run(self) -> RecoveryReport:
        """Find the end of the log, cut or fill what is derived from it, open the log there."""
        started = time.monotonic()
        report = self.report
        abort = os.path.join(self._config.root, ABORT)
        report.clean = not self._disk.exists(abort)
        if not report.clean and self._sync_failed(abort):
            report.notes.append("a sync had failed: everything is stored to once more")
            self._rewrite = True
        files = self._log_files.files.files
        for file in files:
            file.written = file.size
        if files:
            self._check.known = self._configured_topics()
            self._reput.skip = self._check.is_gone
            self._reput.recovering = True
            self._reput.compare_codes = not report.clean
            self._intact = report.clean or same_kernel(self._disk, self._config.root)
            self._check.drop_unproven(intact=self._intact)
            full = [] if report.clean else self._check.full()
            newest = self._queues.max_physical_offset()
            # What a queue whose newest file is missing has lost lies behind its last record.
            perhaps_lost = min((queue.max_physical_offset for queue, _ in full), default=NOWHERE)
            start = self._start(newest, perhaps_lost)
            report.scanned_from = start
            end = self._scan.run(start)
            self._check.tell_mended(full)
            self._report_lost(end)
            report.scanned_bytes = max(0, end - start)
            report.removed_files += [file.path for file in files if file.start > end]
            self._cut(end)
            self._reput.recovering = False
            self._reput.skip = None
        else:
            self._forget_queues()
            if self._index is not None and self._index.files:
                report.removed_files += self._index.drop_from(0)
            # The log begins anew, below every end that was noted.
            self._ends.deleted.clear()
            self._ends.damaged.clear()
            self._log_files.open_at(0, 0)
        self._settle()
        report.milliseconds = (time.monotonic() - started) * 1000
        return report

    # --- where to begin -----------------------------------------------------------------------

    def _start(self, newest: int, perhaps_lost: int) -> int:
        """Physical offset to read the log from; after a crash not behind ``perhaps_lost``."""
        report = self.report
        log_min = self._log_files.min_offset
        if self._log_incomplete() or self._check.missing():
            self._announce(whole=True)
            report.notes.append("files are missing or short: the whole log is read")
            self._heal_index(trusted=self._intact)
            return log_min
        if report.clean:
            return self._start_after_stop(newest)
        if self._intact:
            report.notes.append("killed, but the same kernel runs: files hold what was stored")
            self._trust(newest)
            index_start = self._heal_index(trusted=True)
            if index_start < 0:
                # The last record that has its unit may be the first one to be indexed.
                index_start = self._newest_record()
            return self._known_good(min(newest, index_start, perhaps_lost))
        index_start = self._heal_index(trusted=False)
        start = min(self._file_of_checkpoint(), self._known_good(perhaps_lost))
        return max(log_min, min(start, index_start) if index_start >= 0 else start)

    def _start_after_stop(self, newest: int) -> int:
        report = self.report
        log_min = self._log_files.min_offset
        doubtful = self._index is not None and self._index.first_doubtful() is not None
        if doubtful:
            self._announce()
        index_start = self._heal_index(trusted=True) if doubtful else -1
        end = self._quick_end(newest)
        if self._index is not None:
            report.removed_files += self._index.cut(end)
            if self._index.files:
                # A start after a clean stop may have been killed before it had noted so.
                repair_slots(self._index.files[-1])
        if self._ends.log_end > end:
            self._announce(whole=True)
            report.notes.append("the log has lost its end: the whole log is read")
            return log_min
        if self._ends.log_end != end:
            self._announce(whole=True)
            report.notes.append("last stopped by another broker: the whole log is read once")
            return log_min
        if doubtful:
            report.notes.append("the index is filled from the log")
            return max(log_min, index_start)
        if self._index is not None and self._index.end_physical_offset < self._ends.indexed:
            self._announce()
            report.notes.append("index files are missing: they are filled from the log")
            return max(log_min, self._heal_index(trusted=True))
        self._trust(newest)
        start = self._known_good(newest)
        if start < end:
            self._announce()
        return start

    def _announce(self, *, whole: bool = False) -> None:
        """Before files of a clean stop are changed: a power cut must not leave them looking so.

        ``whole``: the next start must read all of the log then.
        """
        if not self.report.clean:
            return
        try:
            if whole and not self._ends.reread:
                self._ends.demand_reading()
            self._disk.write(os.path.join(self._config.root, ABORT), b"")
            self._disk.sync_folder(self._config.root)
        except DiskFullError as error:
            # Reads need no space; the danger is a power cut within this start.
            _log.warning("not noted that this start changes files: %s", error.message)

    def _log_incomplete(self) -> bool:
        """Whether the log must be read as a whole because of its files.

        One of them was short, or is missing and was not known to be; or a start that had begun to
        mend files was cut off.
        """
        files = self._log_files.files
        if self._ends.reread or files.short_from < NOWHERE:
            return True
        for before, after in pairwise(files.files):
            begin, end = before.start + files.file_size, after.start
            if begin < end and not any(s <= begin and end <= e for s, e in self._ends.damaged):
                return True
        return False

    def _trust(self, newest: int) -> None:
        """No queue is short: behind the newest unit's record is only what follows without a gap."""
        if newest >= 0:
            self._scan.trusted_from = newest

    def _newest_record(self) -> int:
        """Physical offset of the newest record that any queue knows, -1 if none does."""
        newest = -1
        for queue in self._queues.all():
            unit = queue.unit(queue.max_offset - 1) if queue.max_offset > 0 else None
            if unit is not None:
                newest = max(newest, unit[0])
        return newest

    def _file_of_checkpoint(self) -> int:
        """Start of the newest file whose first record is older than the checkpoint.

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
        """``physical_offset`` if records begin (or may begin) there, else its file's start."""
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
        """End of the log by walking from the newest unit; no CRC, nothing dispatched."""
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
        """Whether the last owner met a failed sync.

        The kernel may then hold pages that are on no disk and take them for clean: a further sync
        would pass over them. They are stored to once more.
        """
        try:
            return self._disk.read(abort).endswith(SYNC_FAILED)
        except OSError:
            return False

    def _heal_index(self, *, trusted: bool) -> int:
        """Make the index fit to go on from; where dispatch to it must begin, -1: nowhere."""
        if self._index is None:
            return -1
        proof = IndexProof(self._log_files, self._reput)
        start = IndexHealing(self._index, proof, self.report).run(
            None if trusted else self._checkpoint.value, self._ends.indexed
        )
        # Before anything new is put: no file that was removed may come back, and none that is
        # filled again may count as synced.
        self._settle_index_files()
        return start

    def _settle_index_files(self) -> None:
        if self._index is not None and self._index.removed:
            self._index.settle_removed()
            self._checkpoint.set_index(
                min(self._checkpoint.value.index_msg_timestamp, self._index.full_until())
            )
            self._checkpoint.flush()

    # --- what is known ------------------------------------------------------------------------

    def _configured_topics(self) -> set[str] | None:
        """Topics of topics.json, None if it cannot be read: then every topic counts."""
        from broker.common.java_json import loads

        path = os.path.join(self._config.root, CONFIG_DIR, "topics.json")
        file = ConfigFile(path, self._disk)
        texts = [file.load(), file.load_backup()]
        for text in texts:
            try:
                content: Any = loads(text)
                table = content["topicConfigTable"]
                if table:
                    self._queues.set_batch_topics(
                        name
                        for name, topic in table.items()
                        if topic.get("attributes", {}).get("queue.type") == "BatchCQ"
                    )
                    return set(table)
            except Exception:
                continue
        return None

    def _report_lost(self, end: int) -> None:
        """Say what the log held when it was last noted, and does not hold now."""
        bounds = self._ends.bounds
        folder = self._log_files.files.folder
        log_min = self._log_files.min_offset
        if 0 <= bounds.log_min < log_min:
            path = os.path.join(folder, file_name(bounds.log_min))
            if self.report.clean:
                self._lost(path, bounds.log_min, log_min, "the first files of the log are missing")
            else:
                self.report.notes.append(f"the log began at {bounds.log_min}, now at {log_min}")
        if end < bounds.log_end:
            last = self._log_files.files.files[-1]
            what = f"the log had come to {bounds.log_end}, its end is missing"
            self._lost(last.path, end, bounds.log_end, what)

    def _lost(self, path: str, start: int, end: int, reason: str) -> None:
        self.report.damages.append(
            FoundDamage(
                path=path,
                physical_offset=start,
                length=end - start,
                reason=reason,
                action="the store goes on without",
            )
        )

    # --- after the scan -----------------------------------------------------------------------

    def _cut(self, end: int) -> None:
        self._log_files.open_at(end, self._scan.last_timestamp or self._timestamp_before(end))
        if self._index is not None:
            self.report.removed_files += self._index.cut(end)
        # A deletion was noted at an end of the log that a power cut took back: what is stored
        # from here on belongs to the topic's next life.
        for topic, noted in self._ends.deleted.items():
            self._ends.deleted[topic] = min(noted, end)
        self._ends.damaged[:] = [(s, min(e, end)) for s, e in self._ends.damaged if s < end]
        for queue in self._queues.all():
            if queue.truncate_to_log(end):
                self.report.notes.append(f"{queue.topic.name}/{queue.queue_id}: cut to the log")
        self.report.log_end = end
        self.report.dispatched = self._reput.dispatched

    def _timestamp_before(self, end: int) -> int:
        """storeTimestamp of the record that ends at ``end`` if a queue knows it, else 0."""
        for queue in self._queues.all():
            if queue.max_physical_offset == end and queue.max_offset > 0:
                unit = queue.unit(queue.max_offset - 1)
                if unit is not None:
                    return max(0, self._log_files.store_timestamp_at(unit[0]))
        return self._checkpoint.value.physic_msg_timestamp

    def _forget_queues(self) -> None:
        """Without a log no queue leads anywhere.

        **Source:** RocketMQ ConsumeQueueStore#destroy in CommitLog#recoverNormally.
        """
        for queue in self._queues.all():
            if queue.files.files:
                self.report.notes.append(f"{queue.topic.name}/{queue.queue_id}: no log, removed")
            queue.destroy()

    def _settle(self) -> None:
        """Drop queues that only records of deleted topics named; set the counters."""
        log_min = self._log_files.min_offset
        for topic in list(self._queues.topics.values()):
            for queue_id, queue in list(topic.queues.items()):
                if not queue.files.files:
                    if not self._disk.exists(queue.files.folder):
                        del topic.queues[queue_id]
                    continue
                queue.next_offset = queue.max_offset
                queue.correct_min_offset(log_min)
        if self._index is not None:
            self._index.settle()
        self._settle_flushed()
        self._reput.offset = self._log_files.max_offset
        self._reput.last_store_timestamp = self._log_files.last_store_timestamp

    def _touch_everything(self) -> None:
        """Make every page dirty again."""
        for file in self._log_files.files.files:
            file.rewrite()
        for queue in self._queues.all():
            for file in queue.files.files:
                file.rewrite()
        for index in self._index.files if self._index is not None else ():
            index.file.rewrite()

    def _settle_flushed(self) -> None:
        """After a clean stop everything is on the disk; otherwise nothing is known to be.

        What a killed process left in the page cache counts as flushed from here on, so the log is
        synced now (at no cost where nothing is dirty), and the queues with their next flush.
        """
        if self.report.clean and not self.report.dispatched:
            for queue in self._queues.all():
                queue.mark_flushed()
            return
        self._log_files.files.settle_removed()
        if self._rewrite:
            self._touch_everything()
        for file in self._log_files.files.files:
            file.sync()
        for queue in self._queues.all():
            queue.files.settle_removed()
            queue.mark_dirty()
        self._settle_index_files()


class StoreParts:
    """The parts of a store that recovery works on."""

    __slots__ = ("checkpoint", "ends", "index", "log", "queues", "reput")

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueueTable,
        index: IndexService | None,
        reput: ReputService,
        notes: tuple[StoreCheckpoint, QueueEnds],
    ) -> None:
        self.log = log
        self.queues = queues
        self.index = index
        self.reput = reput
        self.checkpoint, self.ends = notes
