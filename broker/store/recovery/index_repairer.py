"""Repair IndexFiles after a crash: keep the valid prefix of entries and rebuild the rest.

After a power failure a file may contain any mixture of old and new sectors, in header, slots and
entries. Entries are only appended, in log order, so the valid entries form a prefix that ends at
the first entry the log does not confirm. An entry is valid if the record at its physical offset is
intact and the entry's hash is that of the record's next key. Slots, links between entries, time
differences and header are derived from the valid entries and rewritten.

**Source:** RocketMQ IndexService#load deletes such files; this broker repairs and completes them.
"""

import importlib.util
from array import array
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from broker.common.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from broker.store.commitlog import CommitLog
from broker.store.dispatch.reput import ReputService
from broker.store.format.checkpoint import Checkpoint
from broker.store.format.commitlog import check_record, own_offset
from broker.store.format.indexfile import (
    ENTRY_SIZE,
    ENTRY_STRUCT,
    HEADER_SIZE,
    SLOT_SIZE,
    key_hash,
    peek_message_keys,
)
from broker.store.index.index_file import IndexFile, repair_slots
from broker.store.index.index_service import IndexService
from broker.store.recovery.progress import Progress, Unit
from broker.store.results import RecoveryReport

_MAX_SECONDS: Final = (1 << 31) - 1
_LINK: Final = Struct(">ii")
_LINK_AT: Final = 12  # byte offset of timeDiffSeconds and previousEntry within an entry


class ValidatedPrefix:
    """Validation state of a file: ``number`` is checked next, entries before ``kept`` are kept.

    ``last`` is the physical offset of the last checked entry, ``taken`` the number of its message's
    keys found so far.
    """

    __slots__ = ("kept", "last", "number", "taken")

    def __init__(self) -> None:
        self.number = self.kept = 1
        self.last = -1
        self.taken = 0


class IndexValidator:
    """Compare the entries of index files with the records they refer to."""

    def __init__(self, log: CommitLog, reput: ReputService) -> None:
        self.log = log
        self.reput = reput
        self._at = -1
        self._hashes: list[int] = []
        self._timestamp = 0

    def proven(self, index: IndexFile, progress: Callable[[int], None] | None = None) -> int:
        """Number of the first entry of ``index`` that the log does not confirm; at least 1.

        A message is valid only with all its keys. Entries of records that have expired from the log
        cannot be checked and count as valid.
        """
        state = ValidatedPrefix()
        while state.number < index.max_entries and self._step(index, state):
            if progress is not None and state.number % 65_536 == 0:
                progress(state.number)
        return state.kept

    def _step(self, index: IndexFile, state: "ValidatedPrefix") -> bool:
        """Check the next entry; return False if the log does not confirm it."""
        number = state.number
        at = HEADER_SIZE + index.slots * SLOT_SIZE + number * ENTRY_SIZE
        hashed, physical_offset, _, _ = ENTRY_STRUCT.unpack_from(index.file.mapping, at)
        if physical_offset < state.last or not (hashed or physical_offset or self._zero_is_good()):
            return False
        state.number = number + 1
        log_min = self.log.min_offset
        if physical_offset < log_min:
            state.kept, state.last = number + 1, physical_offset
            return True
        if physical_offset != state.last:
            if state.last >= log_min and state.taken < len(self._hashes):
                return False  # a key of the previous message is missing
            if not self._look(physical_offset):
                return False
            state.taken = 0
            if number == 1 and hashed in self._hashes:
                # The file may start in the middle of a message's keys.
                state.taken = self._hashes.index(hashed)
        elif state.taken == len(self._hashes):
            state.taken = 0  # indexed twice: Java does so with the first message after a restart
        if state.taken >= len(self._hashes) or self._hashes[state.taken] != hashed:
            return False
        state.taken += 1
        state.last = physical_offset
        if state.taken == len(self._hashes):
            state.kept = number + 1
        return True

    def restore(self, index: IndexFile, kept: int) -> None:
        """Truncate ``index`` after entry ``kept`` - 1 and rewrite header, slots and links."""
        index.open_for_writing()
        mapping: Any = index.file.mapping
        entries_at = HEADER_SIZE + index.slots * SLOT_SIZE
        self._set_begin(index, mapping, entries_at)
        slots = self._link(index, kept)
        first = entries_at + kept * ENTRY_SIZE
        # Clear the next entry: a later repair_slots would take its old bytes for an entry.
        mapping[first : first + ENTRY_SIZE] = bytes(len(mapping[first : first + ENTRY_SIZE]))
        last = ENTRY_STRUCT.unpack_from(mapping, entries_at + (kept - 1) * ENTRY_SIZE)
        index.end_physical_offset = last[1]
        if self._look(last[1]):
            index.end_timestamp = self._timestamp
        else:
            index.end_timestamp = index.begin_timestamp + last[2] * 1000
        index.used_slots = len(slots) - slots.count(0)
        index.count = kept
        slots.byteswap()
        mapping[HEADER_SIZE:entries_at] = slots.tobytes()
        index.header_flushed = index.synced = False
        index.flush_header()

    def _link(self, index: IndexFile, kept: int) -> "array[int]":
        """Correct time differences and links of the entries before ``kept``; return the slots.

        Each slot has the number of its newest entry, 0 for none.
        """
        mapping: Any = index.file.mapping
        entries_at = HEADER_SIZE + index.slots * SLOT_SIZE
        slots = array("i", bytes(4 * index.slots))
        for number in range(1, kept):
            at = entries_at + number * ENTRY_SIZE
            hashed, physical_offset, seconds, previous = ENTRY_STRUCT.unpack_from(mapping, at)
            slot = hashed % index.slots
            expected = seconds
            if number > 1 and (physical_offset == self._at or self._look(physical_offset)):
                expected = self._seconds(index.begin_timestamp)
            if previous != slots[slot] or seconds != expected:
                _LINK.pack_into(mapping, at + _LINK_AT, expected, slots[slot])
            slots[slot] = number
        return slots

    def _set_begin(self, index: IndexFile, mapping: Any, entries_at: int) -> None:
        first = ENTRY_STRUCT.unpack_from(mapping, entries_at + ENTRY_SIZE)
        index.begin_physical_offset = first[1]
        if self._look(first[1]):
            index.begin_timestamp = self._timestamp

    def _seconds(self, begin: int) -> int:
        if not 0 < begin <= self._timestamp:
            return 0
        return min((self._timestamp - begin) // 1000, _MAX_SECONDS)

    def _look(self, physical_offset: int) -> bool:
        """Load timestamp and key hashes of the record at ``physical_offset``; False without one."""
        if physical_offset == self._at:
            return True
        file = self.log.files.find(physical_offset)
        if file is None:
            return False
        mapping = file.mapping
        position = physical_offset - file.start
        if (
            check_record(mapping, position, file.size) <= 0
            or own_offset(mapping, position) != physical_offset
        ):
            return False
        request = self.reput.read(mapping, position, file.start)
        self._at = physical_offset
        self._timestamp = request.store_timestamp
        self._hashes = []
        topic = request.queue.topic
        if request.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK and topic.usable:
            keys = peek_message_keys(request.properties)
            self._hashes = [key_hash(topic.key_prefix, key) for key in keys]
        return True

    def _zero_is_good(self) -> bool:
        """Return whether an entry of zeros is valid: the record at offset 0 has a key of hash 0."""
        return self.log.min_offset == 0 and self._look(0) and 0 in self._hashes


class IndexRepairer:
    """Repair the files of an index before the log scan, so that dispatch can append to them.

    Files with more than ``columns_from`` entries are validated with the vectorized validator.
    """

    columns_from = 32_768

    def __init__(self, index: IndexService, proof: IndexValidator, report: RecoveryReport) -> None:
        self._index = index
        self._proof = proof
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
                    return self._prove(number)
            return self._end()
        if doubtful is not None:
            return self._prove(doubtful)
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

    def _proof_for(self, file: IndexFile) -> IndexValidator:
        """The vectorized validator for a file with many entries if numba is installed."""
        at = HEADER_SIZE + file.slots * SLOT_SIZE + self.columns_from * ENTRY_SIZE
        many = file.max_entries > self.columns_from and any(file.file.mapping[at : at + ENTRY_SIZE])
        if not many or importlib.util.find_spec("numba") is None:
            return self._proof
        from broker.store.index.vectorized import VectorizedIndexValidator

        return VectorizedIndexValidator(self._proof.log, self._proof.reput)

    def _prove(self, number: int) -> int:
        """Keep the valid entries of the files from ``number`` on, up to the first invalid entry."""
        index = self._index
        while number < len(index.files) and number != index.whole_files:
            file = index.files[number]
            proof = self._proof_for(file)
            kept = proof.proven(file, self._progress(file))
            if kept <= 1:
                break
            proof.restore(file, kept)
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
