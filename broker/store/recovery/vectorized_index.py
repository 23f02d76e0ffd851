"""Vectorized index operations for recovery of long logs: add entries, and validate files.

The written bytes are those that :mod:`~broker.store.index.index_service` and
:mod:`~broker.store.recovery.index_validator` process entry by entry. Needs numba (extra ``fast``).

**Source:** no Java counterpart; see IndexFile#putKey for one entry.
"""

from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from broker.common.java import INT32_MAX
from broker.common.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from broker.errors import StoreError
from broker.store.consumequeue.consume_queue import Topic
from broker.store.format.commitlog import BLANK_HERE, check_record
from broker.store.format.indexfile import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, IndexHeader
from broker.store.format.vectorized import kernels
from broker.store.format.vectorized.columns import (
    COLUMNS,
    ROWS,
    WITH_CRC,
    WITH_PROPERTIES,
    ScanBatch,
)
from broker.store.format.vectorized.hash_kernels import (
    hash_slices,
    key_hashes,
    key_seeds,
    key_slices,
)
from broker.store.index.index_file import IndexFile
from broker.store.index.index_service import IndexService
from broker.store.recovery.index_validator import IndexValidator, ValidatedPrefix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

_FEW: Final = 16
_MAX_SLOW: Final = 4096
_ENTRY: Final = np.dtype(
    [("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)


def put_entries(index: IndexService, entries: "Int64s") -> None:
    """Append entries, an int64 array of shape (3, n): hash, physical offset, storeTimestamp.

    DiskFullError if a further file cannot be created; entries added before remain.
    """
    done = 0
    while done < entries.shape[1]:
        file = index.writable()
        header = np.array(file.header, dtype=np.int64)
        shape = np.array((file.slots, file.max_entries), dtype=np.int64)
        view = np.frombuffer(file.file.mapping, dtype=np.uint8)
        taken = int(kernels.put_entries(view, shape, header, entries[:, done:]))
        if taken < 0:
            raise StoreError(f"{file.file.path}: not an index file of {file.slots} slots")
        if taken:
            file.read_header(IndexHeader._make(header.tolist()))
            file.header_flushed = file.synced = False
        done += taken


def entries_of(index: IndexFile) -> Any:
    """All entries of a file, from number 1 on, as a structured array (a view of the file)."""
    return np.frombuffer(
        index.file.mapping,
        dtype=_ENTRY,
        count=index.max_entries - 1,
        offset=HEADER_SIZE + index.slots * SLOT_SIZE + ENTRY_SIZE,
    )


class VectorizedIndexValidator(IndexValidator):
    """Validate and link entries as the base class does, thousands at a time.

    Where entries and records do not match one to one, the base class checks single entries until
    the vectorized comparison is tried again.
    """

    _stored: "Int64s"

    def valid_entries(self, index: IndexFile, progress: Callable[[int], None] | None = None) -> int:
        """Number of the first entry of ``index`` that the log does not confirm; at least 1.

        Comparisons that match few entries double the number of single steps before the next one.
        """
        entries = entries_of(index)
        # Zeroed lazily by the kernel: pages that are never written take no memory.
        self._stored = np.zeros(index.max_entries, dtype=np.int64)
        state = ValidatedPrefix()
        wait = _FEW
        steps = 0
        while state.number < index.max_entries and self._step(index, state):
            if steps:
                steps -= 1
            elif state.kept == state.number and state.last >= self.log.min_offset:
                before = state.number
                self._skip_matching(entries, state)
                wait = _FEW if state.number - before >= _FEW else min(2 * wait, _MAX_SLOW)
                steps = 0 if wait == _FEW else wait
                if progress is not None:
                    progress(state.number)
        return state.kept

    def _skip_matching(self, entries: Any, state: ValidatedPrefix) -> None:
        """Accept all further messages whose entries match the next records of the log."""
        file = self.log.files.find(state.last)
        assert file is not None
        size = check_record(file.mapping, state.last - file.start, file.size, check_crc=False)
        for batch, view in self._records(state.last + size):
            which, hashes, whole = self._expected(batch, view)
            held = entries[state.number - 1 : state.number - 1 + len(which)]
            physical = batch.physical_offset[which]
            same = (held["hash"] == hashes[: len(held)]) & (held["offset"] == physical[: len(held)])
            good = len(held) if same.all() else int(same.argmin())
            if good < len(which):
                # Accept complete messages only: drop all entries of the mismatched one.
                good = int(np.searchsorted(which, which[good]))
                whole = False
            if good:
                stored = batch.column("store_timestamp")[which[:good]]
                self._stored[state.number : state.number + good] = stored
                state.number = state.kept = state.number + good
                state.last = int(physical[good - 1])
            if not whole:
                break
        self._look(state.last)
        state.taken = len(self._hashes)

    def _records(self, position: int) -> "Iterator[tuple[ScanBatch, NDArray[np.uint8]]]":
        """Batches of intact records from a physical offset on, across files; each with its file."""
        while (file := self.log.files.find(position)) is not None:
            batch = ScanBatch(np.empty((len(COLUMNS), ROWS), dtype=np.int64), file.start)
            view = np.frombuffer(file.mapping, dtype=np.uint8)
            scan_flags = WITH_CRC | WITH_PROPERTIES
            count, after = kernels.fill(
                view,
                file.start,
                position - file.start,
                file.size,
                scan_flags,
                kernels.CRC_TABLES,
                batch.table,
            )
            batch.count, batch.next_position = int(count), int(after)
            if batch.count:
                yield batch, view
            position = file.start + batch.next_position
            if batch.count < batch.table.shape[1]:
                at = batch.next_position
                if at < file.size and check_record(file.mapping, at, file.size) != BLANK_HERE:
                    return
                file.page_out()
                position = file.start + file.size

    def _expected(
        self, batch: ScanBatch, view: "NDArray[np.uint8]"
    ) -> "tuple[Int64s, Int64s, bool]":
        """Expected entries of the records: rows, hashes, and whether they cover the whole batch.

        The first record with non-ASCII text or an unusable topic ends the result: the base class
        must check it.
        """
        starts, lengths = batch.column("topic_at"), batch.column("topic_length")
        topics = hash_slices(view, starts, lengths)
        plain = batch.column("plain_text") != 0
        for topic, row in zip(*np.unique(topics, return_index=True), strict=True):
            name = view[starts[row] : starts[row] + lengths[row]].tobytes()
            if not Topic(name.decode("ascii", "replace")).usable:
                plain &= topics != topic
        count = batch.count if plain.all() else int(plain.argmin())
        kinds = batch.column("sys_flag")[:count] & TRANSACTION_MASK
        rows = np.flatnonzero(kinds != TRANSACTION_ROLLBACK)
        which, at, length = key_slices(view, batch, rows)
        hashes = key_hashes(hash_slices(view, at, length, key_seeds(topics)[which]))
        return which, hashes, count == batch.count

    def _link(self, index: IndexFile, kept: int) -> "array[int]":
        entries = entries_of(index)[: kept - 1]
        links = np.empty(len(entries), dtype=np.int64)
        newest = np.zeros(index.slots, dtype=np.int64)
        kernels.chain_links(entries["hash"].astype(np.int64), index.slots, links, newest)
        stored = self._stored[1:kept]
        begin = index.begin_timestamp
        seconds = entries["seconds"].astype(np.int64)
        later = (stored >= begin) & (begin > 0)
        expected = np.where(later, np.minimum((stored - begin) // 1000, INT32_MAX), 0)
        for place in np.flatnonzero(stored == 0).tolist():
            expected[place] = seconds[place]
            if place > 0 and self._look(int(entries["offset"][place])):
                expected[place] = self._seconds(begin)
        expected[:1] = seconds[:1]
        wrong = np.flatnonzero((entries["previous"] != links) | (seconds != expected))
        entries["seconds"][wrong] = expected[wrong]
        entries["previous"][wrong] = links[wrong]
        return array("i", newest.astype(np.int32).tobytes())
