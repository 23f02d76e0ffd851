"""From appended rows to a RecordBlock: queue units, index entries, and single entries on demand."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.block import QueueUnits, RecordBlock
from broker.store.dispatch.request import PendingRecord
from broker.store.format.consumequeue import UNIT_SIZE
from broker.store.ingest import columns as col
from broker.store.recovery.runs.vectorized_index import put_entries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

_ENTRY_COLUMNS: Final = np.array(
    (
        col.PHYSICAL_OFFSET,
        col.SIZE,
        col.SYS_FLAG,
        col.QUEUE_OFFSET,
        col.PLACE,
        col.PROPERTIES_AT,
        col.PROPERTIES_LENGTH,
        col.TAGS_CODE,
    )
)


def build_block(
    derive: Callable[..., Any],
    parameters: "Int64s",
    text: "Bytes",
    rows: "Int64s",
    places: "Int64s",
    opened: "Sequence[ConsumeQueue | None]",
) -> RecordBlock:
    """Return the block of appended rows.

    ``parameters`` and ``places`` are those of `append` after it; ``opened`` the queues of the open
    places.
    """
    start, _, stamp, end, text_end, keys_bytes = parameters.tolist()
    units = np.empty(len(rows) * UNIT_SIZE, dtype=np.uint8)
    entries = np.empty((3, 2 * len(rows) + keys_bytes), dtype=np.int64)
    count = int(derive(text, rows, places, units, entries))
    if count < 0:
        raise AssertionError("the tables of a block are too small")
    keys = entries[:, :count].copy()
    keys[2] = stamp
    packed = units.tobytes()
    queues = []
    for number, place in enumerate(places.tolist()):
        found = opened[number]
        if found is None or not place[col.TAKEN]:
            continue
        at = place[col.FIRST_UNIT] * UNIT_SIZE
        queues.append(
            QueueUnits(
                found,
                place[col.NEXT_OFFSET] - place[col.TAKEN],
                packed[at : at + place[col.TAKEN] * UNIT_SIZE],
                place[col.LAST_END],
            )
        )
    single = partial(
        expand,
        rows.take(_ENTRY_COLUMNS, axis=1),
        text[:text_end].tobytes(),
        list(opened),
        stamp,
    )
    return RecordBlock(
        start,
        end,
        stamp,
        len(rows),
        [one.queue for one in queues],
        partial(list, queues),
        single,
        partial(put_entries, entries=keys),
    )


def expand(
    rows: "Int64s", text: bytes, queues: "Sequence[ConsumeQueue | None]", store_timestamp: int
) -> list[PendingRecord]:
    """Return one entry per record."""
    found: list[PendingRecord] = []
    for offset, size, flag, queue_offset, number, at, length, code in rows.tolist():
        queue = queues[number]
        assert queue is not None, "a record was appended to a queue that is not open"
        properties = text[at : at + length]
        found.append((offset, size, store_timestamp, flag, queue_offset, queue, properties, code))
    return found
