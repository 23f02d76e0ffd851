"""File sizes of an existing store, used where the configuration leaves the defaults.

A store that was written with other sizes opens without its configuration file. Java requires the
settings to be repeated.
"""

from broker.store.config import DEFAULTS
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.logfile.mapped_file import MappedFileQueue
from broker.store.recovery.store_manifest import StoreManifest


def detect_file_sizes(
    log: MappedFileQueue, table: ConsumeQueueStore, manifest: StoreManifest, notes: list[str]
) -> None:
    """Replace default file sizes by the sizes of existing files; add a note for each.

    A single file may have been truncated, so the size in the manifest counts if it is larger.
    """
    found = max(log.detect_size(), manifest.size(0))
    if found and found != log.file_size == DEFAULTS.mapped_file_size_commit_log:
        log.file_size = found
        notes.append(f"CommitLog files have {found} bytes; mappedFileSizeCommitLog is not set")
    found = max(table.detect_file_size(), manifest.size(1))
    if found and found != table.file_size == DEFAULTS.mapped_file_size_consume_queue:
        table.file_size = found
        notes.append(
            f"ConsumeQueue files have {found} bytes; mappedFileSizeConsumeQueue is not set"
        )
    found = max(table.detect_batch_file_size(), manifest.size(2))
    if found and found != table.batch_file_size == DEFAULTS.mapper_file_size_batch_consume_queue:
        table.batch_file_size = found
        notes.append(
            f"batch queue files have {found} bytes; mapperFileSizeBatchConsumeQueue is not set"
        )
