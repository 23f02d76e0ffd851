"""IndexValidator: compare the entries of an IndexFile with the records they refer to.

The entries that the log confirms form a prefix. :class:`ValidatedPrefix` is the state of the
comparison, so that the vectorized validator can take over between two entries.

**Source:** no Java counterpart; RocketMQ deletes the index files written since the checkpoint.
"""

from array import array
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from broker.common.java import INT32_MAX
from broker.common.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from broker.store.commitlog import CommitLog
from broker.store.dispatch.reput import ReputService
from broker.store.format.commitlog import check_record, own_offset
from broker.store.format.indexfile import (
    ENTRY,
    ENTRY_SIZE,
    ENTRY_STRUCT,
    HEADER_SIZE,
    SLOT_SIZE,
    key_hash,
    peek_message_keys,
)
from broker.store.index.index_file import IndexFile

_LINK: Final = Struct(">ii")  # timeDiffSeconds and previousEntry
_LINK_AT: Final = ENTRY.offset("timeDiffSeconds")


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

    def valid_entries(self, index: IndexFile, progress: Callable[[int], None] | None = None) -> int:
        """Number of the first entry of ``index`` that the log does not confirm; at least 1.

        A message is valid only with all its keys. Entries of records that have expired from the log
        cannot be checked and count as valid.
        """
        state = ValidatedPrefix()
        while state.number < index.max_entries and self._step(index, state):
            if progress is not None and state.number % 65_536 == 0:
                progress(state.number)
        return state.kept

    def _step(self, index: IndexFile, state: ValidatedPrefix) -> bool:
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
        return min((self._timestamp - begin) // 1000, INT32_MAX)

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
