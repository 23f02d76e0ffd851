"""The fast path of building queues: units of thousands of records at once (extra ``fast``)."""

from typing import TYPE_CHECKING, Any

import numpy as np

from broker.store.format.consumequeue import UNIT_SIZE
from mqadmin.inspector.verify.column_checks import ColumnChecks
from mqadmin.repair.derived_files.build_queues import BuildRecords, QueueWriter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

_UNIT = np.dtype([("physical", ">i8"), ("size", ">i4"), ("tags", ">i8")])
assert _UNIT.itemsize == UNIT_SIZE


class ColumnBuild(ColumnChecks):
    """Collects batches like :class:`ColumnChecks`, but writes units, per queue in log order."""

    def __init__(self, records: BuildRecords) -> None:
        super().__init__(records)
        self.table = records.table

    def flush(self) -> None:
        """Write the units of the collected records, of the fast and of the slow path."""
        parts = [list(part) for part in self._held]
        self._held.clear()
        self._held_count = 0
        if self.table.pending:
            rare = np.array(
                [(self._of(key), *unit) for key, *unit in self.table.pending], dtype=np.int64
            )
            self.table.pending.clear()
            parts.append([rare[:, column] for column in range(5)])
        if not parts:
            return
        which, offsets, physical, sizes, tags = (
            np.concatenate([part[column] for part in parts]) for column in range(5)
        )
        if not len(which):
            return  # only batch queues or fillers
        order = np.lexsort((physical, which))
        cuts = np.flatnonzero(np.diff(which[order])) + 1
        for rows in np.split(order, cuts):
            writer = self.table.queues.get(self._names[int(which[rows[0]])])
            if isinstance(writer, QueueWriter):
                _write(writer, (offsets[rows], physical[rows], sizes[rows], tags[rows]))

    def _of(self, key: tuple[str, int]) -> int:
        name = (key[0].encode("utf-8", "surrogateescape"), key[1])
        return self._named(name)


def _write(writer: QueueWriter, columns: "tuple[Int64s, Int64s, Int64s, Int64s]") -> None:
    offsets, physical, sizes, tags = columns
    units: Any = np.empty(len(offsets), dtype=_UNIT)
    units["physical"], units["size"], units["tags"] = physical, sizes, tags
    data = units.tobytes()
    cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
    for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(offsets)], strict=True):
        writer.add(int(offsets[begin]), data[begin * UNIT_SIZE : end * UNIT_SIZE])
