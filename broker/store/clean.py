"""Cleaning: delete expired CommitLog files, then queue and index files that refer only to them.

==============  ==========================================================================
expired         last modified more than fileReservedTime ago; deleted in the hours of
                deleteWhen, and at any hour on request or above diskMaxUsedSpaceRatio
over 85 %       the oldest files are deleted, expired or not (cleanFileForciblyEnable)
over 90 %       the same, and puts are refused until usage is below the limit again
==============  ==========================================================================

The percentages are defaults. The last file is never deleted. Views that readers have of a deleted
file stay valid.

**Source:** RocketMQ DefaultMessageStore.CleanCommitLogService, CleanConsumeQueueService.
"""

import logging
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from broker.errors import StoreError
from broker.store.commitlog import CommitLog
from broker.store.config import MessageStoreConfig, delete_hours
from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.reput import ReputService
from broker.store.dispatch.scheduler import Defer
from broker.store.flushing.derived_flush import FlushConsumeQueueService
from broker.store.logfile.disk import Disk

_log = logging.getLogger(__name__)

# Queues that one iteration of the event loop cleans, in about 10 ms.
QUEUES_PER_SLICE: Final = 128


class CleanReport(msgspec.Struct, kw_only=True):
    """Result of one cleaning round; ``disk_ratio`` is used space in percent.

    Queue files that the round removes after its first slice are in the report of the next one.
    """

    removed_commit_log_files: list[str] = msgspec.field(default_factory=list)
    removed_consume_queue_files: int = 0
    removed_index_files: int = 0
    disk_ratio: int = 0
    over_warning_level: bool = False


def disk_ratio(used: int, usable: int) -> int:
    """Used space in percent of used plus usable space, rounded up; both in bytes.

    **Source:** RocketMQ UtilAll#getDiskPartitionSpaceUsedPercent.
    """
    total = used + usable
    return -(-used * 100 // total) if total > 0 else 0


class CleanService:
    """Cleaning rounds of one store; :meth:`run` is called every cleanResourceInterval."""

    def __init__(
        self,
        config: MessageStoreConfig,
        disk: Disk,
        log: CommitLog,
        reput: ReputService,
        queue_flush: FlushConsumeQueueService,
        *,
        defer: Defer | None = None,
    ) -> None:
        self._config = config
        self._disk = disk
        self._log = log
        self._reput = reput
        self._queue_flush = queue_flush
        # Start of the log up to which queues and index have been cleaned; -1: not yet.
        self._cleaned_to = -1
        self._defer = defer
        self._rest: Iterator[ConsumeQueue] = iter(())  # queues that the round still has to clean
        self._removed = 0  # queue files removed since the last report
        self._stopped = False

    def set_config(self, config: MessageStoreConfig) -> None:
        """Apply changed settings from the next round on."""
        self._config = config

    def run(self, now_ms: int, *, manual: bool) -> CleanReport:
        """Run one round; delete at most deleteFileBatchMax CommitLog files.

        With ``manual`` expired files are deleted at any hour.
        """
        config = self._config
        report = CleanReport()
        if self._disk.exists(config.commit_log_folder):
            report.disk_ratio = self._disk_ratio()
        forcibly = config.clean_file_forcibly_enable and (
            report.disk_ratio > config.disk_space_clean_forcibly_ratio
        )
        if (
            manual
            or forcibly
            or report.disk_ratio > config.disk_max_used_space_ratio
            or time.localtime(now_ms / 1000).tm_hour in delete_hours(config)
        ):
            self._delete_log_files(report, now_ms, forcibly=forcibly)
        report.over_warning_level = report.disk_ratio > config.disk_space_warning_level_ratio
        if self._cleaned_to != self._log.min_offset:
            self._clean_derived_files(report)
        report.removed_consume_queue_files, self._removed = self._removed, 0
        if report.removed_commit_log_files:
            _log.info(
                "deleted %d CommitLog files up to %s, %d ConsumeQueue files, %d index files; "
                "the disk is %d %% full",
                len(report.removed_commit_log_files),
                report.removed_commit_log_files[-1],
                report.removed_consume_queue_files,
                report.removed_index_files,
                report.disk_ratio,
            )
        return report

    def _disk_ratio(self) -> int:
        return disk_ratio(*self._disk.space(self._config.commit_log_folder))

    def _delete_log_files(self, report: CleanReport, now_ms: int, *, forcibly: bool) -> None:
        """Delete the oldest CommitLog files that are expired, with ``forcibly`` any."""
        config = self._config
        files = self._log.files
        reserved_ms = config.file_reserved_time * 3_600_000
        while len(files.files) > 1:
            if forcibly and report.removed_commit_log_files:
                # Java deletes a whole batch; here deletion stops once the disk is below the ratio.
                report.disk_ratio = self._disk_ratio()
                forcibly = report.disk_ratio > config.disk_space_clean_forcibly_ratio
            first = files.files[0]
            end = first.start + first.size
            if len(report.removed_commit_log_files) >= config.delete_file_batch_max:
                return
            # A file that is not fully dispatched and flushed is needed, whatever its age.
            if end > min(self._reput.offset, self._log.flushed_where):
                return
            if not forcibly and self._disk.modified_ms(first.path) + reserved_ms > now_ms:
                return
            if not self._queue_flush.sync_before_delete(end):
                return
            try:
                files.remove_first()
            except (OSError, StoreError) as error:
                _log.error("%s: not deleted: %s", first.path, error)
                return
            report.removed_commit_log_files.append(first.path)

    def _clean_derived_files(self, report: CleanReport) -> None:
        """Remove the parts of queues and index that refer to records before the log's start."""
        log_min = self._log.min_offset
        queues, index = self._reput.queues, self._reput.index
        self._rest = queues.visit()
        self._clean_queues(log_min)
        if index is not None:
            report.removed_index_files = index.delete_expired(log_min)
        self._cleaned_to = log_min

    def _clean_queues(self, log_min: int) -> None:
        """Clean queues, with ``defer`` a slice of them, and schedule the next slice.

        A pull at an offset that is not corrected yet skips the records that are gone, as in Java,
        where another thread corrects it.
        """
        visited = 0
        for queue in islice(self._rest, None if self._defer is None else QUEUES_PER_SLICE):
            visited += 1
            self._removed += queue.delete_expired(log_min)
        if self._defer is not None and visited == QUEUES_PER_SLICE:
            self._defer(partial(self._clean_more, log_min))

    def _clean_more(self, log_min: int) -> None:
        """Clean the next slice, unless the store was stopped or a newer round has started."""
        if self._stopped or log_min != self._cleaned_to:
            return
        try:
            self._clean_queues(log_min)
        except (OSError, StoreError) as error:
            self._cleaned_to = -1  # the next round starts with the first queue
            _log.error("ConsumeQueues are not cleaned up to %d: %s", log_min, error)

    def stop(self) -> None:
        """End the round: the queues are about to be closed."""
        self._stopped = True
