"""`build_block` from appended rows: the units, keys and entries that the records have."""

import pytest

pytest.importorskip("numba", reason="ingest needs the extra 'fast'")
import numpy as np

from broker.store.consumequeue.consume_queue import Topic
from broker.store.format.consumequeue import UNIT_STRUCT
from broker.store.ingest import columns as col
from broker.store.ingest.blocks import build_block
from broker.store.ingest.kernels import derive

START, STAMP = 5_000, 1_700_000_000_000


class Queue:
    """The part of a ConsumeQueue that a block refers to."""

    def __init__(self) -> None:
        self.topic = Topic("Orders")


def tables():
    """Three records in two queues, as `append` leaves the tables; a third place is not open."""
    text = np.frombuffer(b"UNIQ_KEY\x01U\x02KEYS\x01a  bc\x02", dtype=np.uint8).copy()
    rows = np.zeros((3, col.ROW_COLUMNS), dtype=np.int64)
    places = np.zeros((3, col.PLACE_COLUMNS), dtype=np.int64)
    for number, place in enumerate((2, 0, 2)):
        row = rows[number]
        row[[col.PHYSICAL_OFFSET, col.SIZE]] = START + 100 * number, 100
        row[[col.PLACE, col.QUEUE_OFFSET]] = place, 7 + places[place, col.TAKEN]
        row[[col.UNIQ_KEY_AT, col.UNIQ_KEY_LENGTH]] = 9, 1
        row[[col.PROPERTIES_AT, col.PROPERTIES_LENGTH]] = 0, len(text)
        row[[col.TAGS_CODE, col.SYS_FLAG]] = -number, 2
        places[place, [col.OPEN, col.TAKEN]] = 1, places[place, col.TAKEN] + 1
        places[place, [col.NEXT_OFFSET, col.KEY_PREFIX]] = 7 + places[place, col.TAKEN], 31
    rows[1, [col.KEYS_AT, col.KEYS_LENGTH]] = 16, 5
    parameters = np.array((START, 1_000, STAMP, START + 300, len(text), 5), dtype=np.int64)
    return parameters, text, rows, places


def test_a_block_describes_its_records() -> None:
    parameters, text, rows, places = tables()
    queues = [Queue(), None, Queue()]
    block = build_block(derive, parameters, text, rows, places, queues)
    assert (block.start, block.end, block.records) == (START, START + 300, 3)
    assert block.store_timestamp == STAMP
    first, second = block.units()
    assert first.queue is queues[0]
    assert (first.first_offset, first.physical_end) == (7, START + 200)
    assert list(UNIT_STRUCT.iter_unpack(first.units)) == [(START + 100, 100, -1)]
    assert second.queue is queues[2]
    assert (second.first_offset, second.physical_end) == (7, START + 300)
    assert list(UNIT_STRUCT.iter_unpack(second.units)) == [(START, 100, 0), (START + 200, 100, -2)]
    properties = text.tobytes()
    assert [entry[5] for entry in block.expand()] == [queues[2], queues[0], queues[2]]
    assert [entry[6] for entry in block.expand()] == [properties] * 3
    assert [entry[:5] for entry in block.expand()] == [
        (START, 100, STAMP, 2, 7),
        (START + 100, 100, STAMP, 2, 7),
        (START + 200, 100, STAMP, 2, 8),
    ]


def test_a_block_keeps_nothing_of_the_tables() -> None:
    parameters, text, rows, places = tables()
    queues = [Queue(), None, Queue()]
    block = build_block(derive, parameters, text, rows, places, queues)
    before = block.expand()
    parameters[:] = 0
    text[:] = 0
    rows[:] = 0
    places[:] = 0
    assert block.expand() == before
