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
from typing import TYPE_CHECKING

import msgspec

from broker.errors import StoreError
from broker.store.config import delete_hours

if TYPE_CHECKING:
    from broker.store.message_store import MessageStore

_log = logging.getLogger(__name__)


class CleanReport(msgspec.Struct, kw_only=True):
    """Result of one cleaning round; ``disk_ratio`` is used space in percent."""

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


def run_cleaning(store: "MessageStore", now_ms: int, *, manual: bool) -> CleanReport:
    """Run one round; delete at most deleteFileBatchMax CommitLog files."""
    config = store.config
    folder = config.commit_log_folder
    report = CleanReport()
    if store.disk.exists(folder):
        report.disk_ratio = disk_ratio(*store.disk.space(folder))
    forcibly = config.clean_file_forcibly_enable and (
        report.disk_ratio > config.disk_space_clean_forcibly_ratio
    )
    due = (
        manual
        or forcibly
        or report.disk_ratio > config.disk_max_used_space_ratio
        or time.localtime(now_ms / 1000).tm_hour in delete_hours(config)
    )
    files = store.log.files
    reserved_ms = config.file_reserved_time * 3_600_000
    while due and len(files.files) > 1:
        if forcibly and report.removed_commit_log_files:
            # Java deletes a whole batch; here deletion stops once the disk is below the ratio.
            report.disk_ratio = disk_ratio(*store.disk.space(folder))
            forcibly = report.disk_ratio > config.disk_space_clean_forcibly_ratio
        first = files.files[0]
        if len(report.removed_commit_log_files) >= config.delete_file_batch_max:
            break
        # A file that is not fully dispatched and flushed is needed, whatever its age.
        if first.start + first.size > min(store.reput.offset, store.log.flushed_where):
            break
        if not forcibly and store.disk.modified_ms(first.path) + reserved_ms > now_ms:
            break
        if not store.sync_before_delete(first.start + first.size):
            break
        try:
            files.remove_first()
        except (OSError, StoreError) as error:
            _log.error("%s: not deleted: %s", first.path, error)
            break
        report.removed_commit_log_files.append(first.path)
    report.over_warning_level = report.disk_ratio > config.disk_space_warning_level_ratio
    if store.followed_log_min != store.log.min_offset:
        _follow(store, report)
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


def _follow(store: "MessageStore", report: CleanReport) -> None:
    """Remove the parts of queues and index that refer to records before the start of the log."""
    log_min = store.log.min_offset
    for queue in store.queue_table.all():
        queue.correct_min_offset(log_min)
    for queue in store.queue_table.all():
        report.removed_consume_queue_files += queue.delete_expired(log_min)
    if store.index is not None:
        report.removed_index_files = store.index.delete_expired(log_min)
    store.followed_log_min = log_min
