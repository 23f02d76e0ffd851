"""From appended rows to a RecordBlock: queue units, index entries, and single entries on demand."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from broker.store.block_writer import Destination
from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.block import QueueUnits, RecordBlock
from broker.store.dispatch.request import PendingRecord
from broker.store.format.consumequeue import UNIT_SIZE
from broker.store.ingest import columns as col
from broker.store.recovery.vectorized_index import put_entries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    Bytes = NDArray[np.uint8]

_ENTRY_COLUMNS: Final = [
    col.PHYSICAL_OFFSET,
    col.SIZE,
    col.SYS_FLAG,
    col.QUEUE_OFFSET,
    col.PLACE,
    col.PROPERTIES_AT,
    col.PROPERTIES_LENGTH,
    col.TAGS_CODE,
]


def build_block(
    derive: Callable[..., Any],
    destination: Destination,
    text: "Bytes",
    rows: "Int64s",
    places: "Int64s",
    opened: "Sequence[ConsumeQueue | None]",
) -> RecordBlock:
    """Return the block of appended rows.

    ``places`` are those of the read, after `append`; ``opened`` the queues of the open ones.
    """
    stamp = destination.store_timestamp
    units = np.empty(len(rows) * UNIT_SIZE, dtype=np.uint8)
    entries = np.empty((3, 2 * len(rows) + int(rows[:, col.KEYS_LENGTH].sum())), dtype=np.int64)
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
    last = rows[-1]
    text_end = int((rows[:, col.PROPERTIES_AT] + rows[:, col.PROPERTIES_LENGTH]).max())
    single = partial(
        expand,
        rows[:, _ENTRY_COLUMNS],  # an index of columns copies
        text[:text_end].tobytes(),
        list(opened),
        stamp,
    )
    return RecordBlock(
        destination.physical_offset,
        int(last[col.PHYSICAL_OFFSET] + last[col.SIZE]),
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
