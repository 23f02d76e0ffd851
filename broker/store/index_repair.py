"""Repair of an IndexFile behind a crash: keep what the log proves, lead every slot to it.

After a power cut a file may hold any mixture of old and new sectors, header, slots and entries
alike. Entries are only ever appended, in the order of the log, so what is good is a prefix: the
entries up to the first one that the log does not prove. An entry is proven when the record at its
physical offset is whole and its hash is that of the record's next key. Slots, links between
entries, seconds and header all follow from the proven entries and are written anew.

**Source:** RocketMQ IndexService#load deletes such files; ours keeps them and fills them up again.
"""

import importlib.util
from array import array
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from broker.common.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from broker.store.commitlog import CommitLog
from broker.store.format.checkpoint import Checkpoint
from broker.store.format.commitlog import check_record, own_offset
from broker.store.format.indexfile import (
    ENTRY_SIZE,
    ENTRY_STRUCT,
    HEADER_SIZE,
    SLOT_SIZE,
)
from broker.store.index import IndexService
from broker.store.index_file import IndexFile, key_hash, repair_slots
from broker.store.progress import Progress, Unit
from broker.store.reput import ReputService, message_keys
from broker.store.results import RecoveryReport

_MOST_SECONDS: Final = (1 << 31) - 1
_LINK: Final = Struct(">ii")
_LINK_AT: Final = 12  # seconds and the previous entry's number, within an entry


class Proven:
    """How far the entries of a file are proven: ``number`` is judged next, ``kept`` would be cut.

    ``last`` is the physical offset of the last entry judged, ``taken`` how many keys of its message
    have been met.
    """

    __slots__ = ("kept", "last", "number", "taken")

    def __init__(self) -> None:
        self.number = self.kept = 1
        self.last = -1
        self.taken = 0


class IndexProof:
    """Compares the entries of index files with the records they lead to."""

    def __init__(self, log: CommitLog, reput: ReputService) -> None:
        self.log = log
        self.reput = reput
        self._at = -1
        self._hashes: list[int] = []
        self._timestamp = 0

    def proven(self, index: IndexFile, progress: Callable[[int], None] | None = None) -> int:
        """Number of the first entry of ``index`` that the log does not prove; at least 1.

        A message counts with all its keys or not at all. Entries of records that the log does not
        hold any more cannot be judged and count as good.
        """
        state = Proven()
        while state.number < index.max_entries and self._step(index, state):
            if progress is not None and state.number % 65_536 == 0:
                progress(state.number)
        return state.kept

    def _step(self, index: IndexFile, state: "Proven") -> bool:
        """Judge one more entry; False if the log does not prove it."""
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
                return False  # the message before lacks a key
            if not self._look(physical_offset):
                return False
            state.taken = 0
            if number == 1 and hashed in self._hashes:
                # The file may begin in the middle of a message.
                state.taken = self._hashes.index(hashed)
        elif state.taken == len(self._hashes):
            state.taken = 0  # indexed twice, as Java does with the first message after a restart
        if state.taken >= len(self._hashes) or self._hashes[state.taken] != hashed:
            return False
        state.taken += 1
        state.last = physical_offset
        if state.taken == len(self._hashes):
            state.kept = number + 1
        return True

    def restore(self, index: IndexFile, kept: int) -> None:
        """Cut ``index`` behind entry ``kept`` - 1 and write anew what follows from the entries."""
        index.open_for_writing()
        mapping: Any = index.file.mapping
        entries_at = HEADER_SIZE + index.slots * SLOT_SIZE
        self._set_begin(index, mapping, entries_at)
        slots = self._link(index, kept)
        first = entries_at + kept * ENTRY_SIZE
        # What stands behind is no entry; a later repair must not take it for one.
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
        index.settled = index.synced = False
        index.settle()

    def _link(self, index: IndexFile, kept: int) -> "array[int]":
        """Write seconds and links of the entries before ``kept``; each slot's newest entry."""
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
        return min((self._timestamp - begin) // 1000, _MOST_SECONDS)

    def _look(self, physical_offset: int) -> bool:
        """Take in the record at ``physical_offset``; False if there is no whole one."""
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
        entry = self.reput.read(mapping, position, file.start)
        self._at = physical_offset
        self._timestamp = entry[2]
        self._hashes = []
        if entry[3] & TRANSACTION_MASK != TRANSACTION_ROLLBACK and entry[5].topic.usable:
            prefix = entry[5].topic.key_prefix
            self._hashes = [key_hash(prefix, key) for key in message_keys(entry[6])]
        return True

    def _zero_is_good(self) -> bool:
        """Whether an entry of zeros can be one: hash 0 of the record at 0."""
        return self.log.min_offset == 0 and self._look(0) and 0 in self._hashes


class IndexHealing:
    """Makes the files of an index fit to go on from, before the log is read.

    Files with more than ``columns_from`` entries are proven by columns.
    """

    columns_from = 32_768

    def __init__(self, index: IndexService, proof: IndexProof, report: RecoveryReport) -> None:
        self._index = index
        self._proof = proof
        self._report = report

    def run(self, checkpoint: Checkpoint | None, indexed: int) -> int:
        """Physical offset to fill the index from, -1 if it was never begun.

        Without ``checkpoint`` files hold what was stored, and only slots behind the last header
        are led back. With it, files newer than it keep the entries that the log proves.
        ``indexed`` is the physical offset that the index had come to when it was last noted.
        """
        index = self._index
        doubtful = index.first_doubtful()
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
            # Begun by the batch that was cut short: its header counts nothing yet.
            self._report.removed_files += index.drop_from(len(index.files) - 1)
        if index.files:
            repair_slots(index.files[-1])
        return self._end()

    def _end(self) -> int:
        files = self._index.files
        return files[-1].end_physical_offset if files else 0

    def _proof_for(self, file: IndexFile) -> IndexProof:
        """The quick proof for a file with many entries, where numba is installed."""
        at = HEADER_SIZE + file.slots * SLOT_SIZE + self.columns_from * ENTRY_SIZE
        many = file.max_entries > self.columns_from and any(file.file.mapping[at : at + ENTRY_SIZE])
        if not many or importlib.util.find_spec("numba") is None:
            return self._proof
        from broker.store.index_columns import ColumnProof

        return ColumnProof(self._proof.log, self._proof.reput)

    def _prove(self, number: int) -> int:
        """Keep what is proven of file ``number``, and of the next ones as long as all of it is."""
        index = self._index
        while number < len(index.files) and number != index.whole_files:
            file = index.files[number]
            proof = self._proof_for(file)
            kept = proof.proven(file, self._progress(file))
            if kept <= 1:
                break
            proof.restore(file, kept)
            file.erase_behind()
            number += 1
            if kept < file.max_entries:
                self._report.notes.append(
                    f"{file.file.path}: {kept - 1} entries proven, to physical offset"
                    f" {file.end_physical_offset}; the rest is read from the log"
                )
                break
        self._report.removed_files += index.drop_from(number)
        return self._end()

    def _progress(self, file: IndexFile) -> Callable[[int], None]:
        most = file.count if 1 < file.count <= file.max_entries else file.max_entries
        return Progress(f"recovery of {file.file.path}", 0, most, Unit("entries")).at


def _is_safe(file: IndexFile, checkpoint: Checkpoint) -> bool:
    """Whether an index file was synced as a whole, and so were the records it leads to."""
    return (
        # One that is not full may have begun in the millisecond in which the last one ended.
        file.full
        and file.end_timestamp <= checkpoint.index_msg_timestamp
        # A full file may be on the disk before the records that its last entries lead to.
        and file.end_timestamp < checkpoint.physic_msg_timestamp
    )
