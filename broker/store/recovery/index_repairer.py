"""Repair IndexFiles after a crash: keep the valid prefix of entries and rebuild the rest.

After a power failure a file may contain any mixture of old and new sectors, in header, slots and
entries. Entries are only appended, in log order, so the valid entries form a prefix that ends at
the first entry the log does not confirm. An entry is valid if the record at its physical offset is
intact and the entry's hash is that of the record's next key
(:mod:`broker.store.recovery.index_validator`). Slots, links between entries, time differences and
header are derived from the valid entries and rewritten.

**Source:** RocketMQ IndexService#load deletes such files; this broker repairs and completes them.
"""

import importlib.util
from collections.abc import Callable

from broker.store.format.checkpoint import Checkpoint
from broker.store.format.indexfile import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
)
from broker.store.index.index_file import IndexFile, repair_slots
from broker.store.index.index_service import IndexService
from broker.store.recovery.index_validator import IndexValidator
from broker.store.recovery.progress import Progress, Unit
from broker.store.results import RecoveryReport


class IndexRepairer:
    """Repair the files of an index before the log scan, so that dispatch can append to them.

    Files with more than ``columns_from`` entries are validated with the vectorized validator.
    """

    columns_from = 32_768

    def __init__(
        self, index: IndexService, validator: IndexValidator, report: RecoveryReport
    ) -> None:
        self._index = index
        self._validator = validator
        self._report = report

    def run(self, checkpoint: Checkpoint | None, indexed: int) -> int:
        """Physical offset from which the index must be rebuilt, -1 if it never had an entry.

        Without ``checkpoint`` the files contain everything that was stored, and only slots that
        point past the last header's count are repaired. With it, files newer than the checkpoint
        keep the entries that the log confirms. ``indexed`` is the last indexed physical offset
        recorded in the store manifest.
        """
        index = self._index
        doubtful = index.first_unverified()
        if checkpoint is not None:
            for number in range(len(index.files)):
                if number == doubtful or not _is_safe(index.files[number], checkpoint):
                    return self._validate(number)
            return self._end()
        if doubtful is not None:
            return self._validate(doubtful)
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

    def _validator_for(self, file: IndexFile) -> IndexValidator:
        """The vectorized validator for a file with many entries if numba is installed."""
        at = HEADER_SIZE + file.slots * SLOT_SIZE + self.columns_from * ENTRY_SIZE
        many = file.max_entries > self.columns_from and any(file.file.mapping[at : at + ENTRY_SIZE])
        if not many or importlib.util.find_spec("numba") is None:
            return self._validator
        from broker.store.recovery.vectorized_index import VectorizedIndexValidator

        return VectorizedIndexValidator(self._validator.log, self._validator.reput)

    def _validate(self, number: int) -> int:
        """Keep the valid entries of the files from ``number`` on, up to the first invalid entry."""
        index = self._index
        while number < len(index.files) and number != index.whole_files:
            file = index.files[number]
            validator = self._validator_for(file)
            kept = validator.valid_entries(file, self._progress(file))
            if kept <= 1:
                break
            validator.restore(file, kept)
            file.erase_after()
            number += 1
            if kept < file.max_entries:
                self._report.notes.append(
                    f"{file.file.path}: {kept - 1} valid entries, to physical offset"
                    f" {file.end_physical_offset}; the rest is rebuilt from the log"
                )
                break
        self._report.removed_files += index.drop_from(number)
        return self._end()

    def _progress(self, file: IndexFile) -> Callable[[int], None]:
        most = file.count if 1 < file.count <= file.max_entries else file.max_entries
        return Progress(f"recovery of {file.file.path}", 0, most, Unit("entries")).at


def _is_safe(file: IndexFile, checkpoint: Checkpoint) -> bool:
    """Return whether an index file and the records it refers to are completely on disk."""
    return (
        # A file that is not full may have started in the millisecond in which the full one ended.
        file.full
        and file.end_timestamp <= checkpoint.index_msg_timestamp
        # A full file may be on disk before the records that its last entries refer to.
        and file.end_timestamp < checkpoint.physic_msg_timestamp
    )
