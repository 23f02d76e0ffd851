"""The fast path for plain records: compare whole batches with queues and index.

Plain records are compared as columns; their deviations are added to the runs of the queues. Other
records are passed to :class:`~mqadmin.inspector.verify.record_checks.RecordChecks`, as without
numpy. Requires the extra ``fast``.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from broker.common.sysflag import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from broker.store.format.commitlog import read_record
from broker.store.format.vectorized.hash_kernels import (
    equal_slices,
    hash_slices,
    key_hashes,
    key_seeds,
    key_slices,
)
from mqadmin.inspector.files import FileBytes
from mqadmin.inspector.verify.queue_checks import MissingQueue
from mqadmin.inspector.verify.record_checks import OP_HALF, SCHEDULE, RecordChecks
from mqadmin.inspector.verify.vectorized.queue_columns import match_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from broker.store.format.vectorized.columns import ScanBatch

    Int64s = NDArray[np.int64]

# Records collected before they are grouped by queue: few enough for memory, enough that the
# queues of a store with a thousand queues still get large arrays.
CHUNK: Final = 1 << 18

KeyColumns = tuple["Int64s", "Int64s", "Int64s"]


class ColumnChecks:
    """Checks batches; ``keys`` collects index keys as columns for :meth:`take_keys`."""

    def __init__(self, records: RecordChecks) -> None:
        self.records = records
        self.queues = records.queues
        self.keys: list[KeyColumns] = []
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._names: list[tuple[bytes, int]] = []
        self._slow: list[bool] = []
        self._held: list[tuple[Any, ...]] = []
        self._held_count = 0

    def take(self, file: FileBytes, batch: "ScanBatch", untrusted: frozenset[int]) -> None:
        """Check the records of a batch except those at the offsets in ``untrusted``."""
        view = np.frombuffer(file.data, dtype=np.uint8)
        rows = np.arange(batch.count, dtype=np.int64)
        if untrusted:
            rows = rows[~np.isin(batch.physical_offset, list(untrusted))]
        if not len(rows):
            return
        self._times(file, batch, rows)
        which, topic_hashes = self._group(view, batch, rows)
        flags = batch.column("sys_flag")[rows]
        kind = flags & TRANSACTION_MASK
        # Slow path: several units per record (batch, LMQ), a unit that is not the tags hash
        # (delayed), checks across records (transactions), and hashes of decoded text (non-ASCII).
        slow = np.array(self._slow, dtype=bool)[which]
        slow |= (flags & INNER_BATCH != 0) | (batch.column("multi_length")[rows] > 0)
        slow |= (batch.column("plain_text")[rows] == 0) | (kind == TRANSACTION_COMMIT)
        quick = np.flatnonzero(~slow)
        if self.queues.topic is not None:
            wanted = np.array([self.queues.is_wanted(name) for name, _ in self._names], dtype=bool)
            quick = quick[wanted[which[quick]]]
        self._keys(view, batch, rows[quick], topic_hashes[quick])
        kinds = kind[quick]
        in_queue = quick[(kinds != TRANSACTION_PREPARED) & (kinds != TRANSACTION_ROLLBACK)]
        if self.queues.deleted.ends:
            current = self._is_current(batch.physical_offset[rows[in_queue]], which[in_queue])
            self.queues.deleted.records += int((~current).sum())
            in_queue = in_queue[current]
        self._hold(view, batch, rows[in_queue], which[in_queue])
        for row in rows[slow].tolist():
            position = int(batch.column("position")[row])
            record = read_record(file.data, position, batch.base_offset)
            self.records.take_rare(file, record)
        self._held_count += int(slow.sum())
        self._rare_keys()
        if self._held_count >= CHUNK:
            self.flush()

    def _times(self, file: FileBytes, batch: "ScanBatch", rows: "Int64s") -> None:
        """Check that storeTimestamps do not decrease; decreases are reported one by one."""
        checks = self.records
        times = batch.column("store_timestamp")[rows]
        checks.records += len(rows)
        before = np.concatenate(([checks.last_timestamp], times[:-1]))
        for row in np.flatnonzero(times < before).tolist():
            checks.last_timestamp = int(before[row])
            place = int(batch.physical_offset[rows[row]])
            checks.check_time(file, place, int(times[row]))
        checks.last_timestamp = int(times[-1])
        checks.newest_timestamp = max(checks.newest_timestamp, int(times.max()))

    def _group(self, view: Any, batch: "ScanBatch", rows: "Int64s") -> "tuple[Int64s, Int64s]":
        """Return the queue number (index of ``_names``) and the topic hash of each row."""
        starts, lengths = batch.column("topic_at")[rows], batch.column("topic_length")[rows]
        ids = batch.column("queue_id")[rows]
        hashes = hash_slices(view, starts, lengths)
        mixed = (hashes << 32) ^ (lengths << 24) ^ ids
        _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
        lead = first[group]
        same = ids == ids[lead]
        same &= equal_slices(view, (starts, lengths), view, (starts[lead], lengths[lead]))
        numbers = np.array(
            [self._number(view, starts[row], lengths[row], ids[row]) for row in first],
            dtype=np.int64,
        )
        which = numbers[group]
        # Another topic with the same hash, length and queue id: rare, hence row by row.
        for row in np.flatnonzero(~same).tolist():
            which[row] = self._number(view, starts[row], lengths[row], ids[row])
        return which, hashes

    def _number(self, view: Any, start: int, length: int, queue_id: int) -> int:
        return self._named((view[start : start + length].tobytes(), int(queue_id)))

    def _named(self, name: tuple[bytes, int]) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
            topic = name[0]
            slow = topic in (SCHEDULE, OP_HALF) or topic in self.queues.batch_topics
            self._slow.append(slow or not topic.isascii())
        return number

    def _keys(self, view: Any, batch: "ScanBatch", rows: "Int64s", topics: "Int64s") -> None:
        """Collect the keys under which plain records must be indexed."""
        kept = batch.column("sys_flag")[rows] & TRANSACTION_MASK != TRANSACTION_ROLLBACK
        rows, topics = rows[kept], topics[kept]
        of_row = np.zeros(batch.count, dtype=np.int64)
        of_row[rows] = key_seeds(topics)
        which, starts, lengths = key_slices(view, batch, rows)
        if len(which):
            hashes = key_hashes(hash_slices(view, starts, lengths, of_row[which]))
            self.keys.append(
                (batch.physical_offset[which], hashes, batch.column("store_timestamp")[which])
            )

    def _rare_keys(self) -> None:
        """Merge the keys of records from the slow path in the order of the log."""
        rare = self.records.keys
        if not rare:
            return
        more = np.array(rare, dtype=np.int64)
        rare.clear()
        parts = [*self.keys, (more[:, 0], more[:, 1], more[:, 2])]
        whole = [np.concatenate([part[column] for part in parts]) for column in range(3)]
        order = np.argsort(whole[0], kind="stable")
        self.keys = [(whole[0][order], whole[1][order], whole[2][order])]

    def take_keys(self) -> KeyColumns:
        """Return the keys since the last call: physical offsets, hashes, storeTimestamps."""
        if not self.keys:
            none = np.empty(0, dtype=np.int64)
            return none, none, none
        whole = [np.concatenate([part[column] for part in self.keys]) for column in range(3)]
        self.keys = []
        return whole[0], whole[1], whole[2]

    def _hold(self, view: Any, batch: "ScanBatch", rows: "Int64s", which: "Int64s") -> None:
        lengths = batch.column("tags_length")[rows]
        self._held.append(
            (
                which,
                batch.column("queue_offset")[rows],
                batch.physical_offset[rows],
                batch.column("total_size")[rows],
                hash_slices(view, batch.column("tags_at")[rows], lengths),
            )
        )
        self._held_count += len(rows)

    def _is_current(self, physical: "Int64s", which: "Int64s") -> "NDArray[np.bool_]":
        """Return which records were stored after the last deletion of their topic."""
        deleted = self.queues.deleted.ends
        ends = np.array([deleted.get(topic, 0) for topic, _ in self._names], dtype=np.int64)
        current: NDArray[np.bool_] = physical >= ends[which]
        return current

    def flush(self) -> None:
        """Compare the collected records with the queues."""
        self._held_count = 0
        if any(len(part[0]) for part in self._held):
            self._compare_held()
        self._held.clear()
        self.queues.join_deferred()

    def _compare_held(self) -> None:
        which, offsets, physical, sizes, tags = (
            np.concatenate([part[column] for part in self._held]) for column in range(5)
        )
        order = np.argsort(which, kind="stable")
        cuts = np.flatnonzero(np.diff(which[order])) + 1
        for rows in np.split(order, cuts):
            key = self._names[int(which[rows[0]])]
            queue = self.queues.queues.get(key)
            if queue is None or queue.is_batch:
                self._lacks(key, offsets[rows], physical[rows])
                continue
            end = match_columns(queue, offsets[rows], physical[rows], sizes[rows], tags[rows])
            self.queues.matched_end = max(self.queues.matched_end, end)

    def _lacks(self, key: tuple[bytes, int], offsets: "Int64s", physical: "Int64s") -> None:
        if deferred := self.queues.take_deferred(key):
            more = np.array(deferred, dtype=np.int64)
            offsets = np.concatenate((offsets, more[:, 0]))
            physical = np.concatenate((physical, more[:, 1]))
            order = np.argsort(physical, kind="stable")
            offsets, physical = offsets[order], physical[order]
        begins = np.flatnonzero(offsets == 0)
        for part in np.split(np.arange(len(offsets)), begins[begins > 0]):
            self.queues.join_absent(
                key,
                MissingQueue(
                    len(part),
                    int(offsets[part].min()),
                    int(offsets[part].max()),
                    int(physical[part].min()),
                    int(physical[part].max()),
                ),
            )
