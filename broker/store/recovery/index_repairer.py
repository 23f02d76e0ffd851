"""Repair IndexFiles after a crash: keep the files known to be complete, rebuild the others.

After a power failure a file may contain any mixture of old and new sectors, in header, slots and
entries. Every entry can be derived from the log, and recovery scans the log anyway. So a doubtful
file is removed together with the files after it, and the log scan stores their entries again: this
reads each record once, where a comparison of the entries with the log reads it twice.

**Source:** RocketMQ IndexService#load also removes such files; this broker rebuilds their entries.
"""

from broker.store.format.checkpoint import Checkpoint
from broker.store.index.index_file import IndexFile, repair_slots
from broker.store.index.index_service import IndexService
from broker.store.results import RecoveryReport


class IndexRepairer:
    """Prepare the files of an index for the log scan, which adds the missing entries."""

    def __init__(self, index: IndexService, report: RecoveryReport) -> None:
        self._index = index
        self._report = report

    def run(self, checkpoint: Checkpoint | None, indexed: int) -> int:
        """Physical offset from which the index must be rebuilt, -1 if it never had an entry.

        Without ``checkpoint`` the files contain everything that was stored, and only slots that
        point past the last header's count are repaired. With it, files newer than the checkpoint
        are removed. ``indexed`` is the last indexed physical offset recorded in the store manifest.
        """
        index = self._index
        doubtful = index.first_unverified()
        if checkpoint is not None:
            for number in range(len(index.files)):
                if number == doubtful or not _is_safe(index.files[number], checkpoint):
                    return self._remove_from(number)
            return self._end()
        if doubtful is not None:
            return self._remove_from(doubtful)
        if not index.files and indexed < 0:
            return -1
        while index.files and index.files[-1].count <= 1:
            # Created by the interrupted batch: its header does not count any entry yet.
            self._report.removed_files += index.drop_from(len(index.files) - 1)
        if index.files:
            repair_slots(index.files[-1])
        return self._end()

    def _end(self) -> int:
        files = self._index.files
        return files[-1].end_physical_offset if files else 0

    def _remove_from(self, number: int) -> int:
        """Remove the files from ``number`` on; return where the log scan must start for them."""
        removed = self._index.drop_from(number)
        self._report.removed_files += removed
        self._report.notes += [f"{path}: rebuilt from the log" for path in removed]
        return self._end()


def _is_safe(file: IndexFile, checkpoint: Checkpoint) -> bool:
    """Return whether an index file and the records it refers to are completely on disk."""
    return (
        # A file that is not full may have started in the millisecond in which the full one ended.
        file.full
        and file.end_timestamp <= checkpoint.index_msg_timestamp
        # A full file may be on disk before the records that its last entries refer to.
        and file.end_timestamp < checkpoint.physic_msg_timestamp
    )
