"""The compiled loop `collect`: the records of consume queue units, copied out of the log.

It needs numba (extra ``fast``). It reads and writes arrays of Python only, each access after a
comparison with the length of its array.
"""

import numpy as np

from broker.machine_code.compiled_loop import compiled_loop
from broker.message.record import field_position
from broker.store.format.commitlog import RECORD_LEAST
from broker.store.format.consumequeue import UNIT, UNIT_SIZE
from broker.store.ingest.octets import copy, i32, i64

UNUSUAL = -1

_OFFSET_FIELD = UNIT.offset("physicalOffset")
_SIZE_FIELD = UNIT.offset("size")
_TOTAL_SIZE_FIELD = field_position("totalSize")


@compiled_loop
def collect(units, first, count, known, data, base, written, limit, out):
    """Copy the records of ``count`` units; return their bytes, or -1 if one is unusual.

    The first unit is at position ``first`` of ``units``, which has ``known`` units from there on;
    ``data`` is a file of the log that begins at physical offset ``base`` and has ``written`` bytes.
    Each record must begin at or after the end of the one before, and have the size of its unit;
    the unit after the last one, if it is known, must be of another record.
    Nothing is read after ``written`` nor written after ``limit``.
    """
    written = min(written, np.int64(data.shape[0]))
    limit = min(limit, np.int64(out.shape[0]))
    if first < 0 or count > known or first + known * UNIT_SIZE > units.shape[0]:
        return UNUSUAL
    at = np.int64(0)
    end = np.int64(0)
    for number in range(count):
        unit = first + number * UNIT_SIZE
        position = i64(units, unit + _OFFSET_FIELD) - base
        size = np.int64(i32(units, unit + _SIZE_FIELD))
        if size < RECORD_LEAST or position < end or position > written - size or size > limit - at:
            return UNUSUAL
        # Reading all records' sizes first also loads their first lines into the cache together.
        if size != i32(data, position + _TOTAL_SIZE_FIELD):
            return UNUSUAL
        at += size
        end = position + size
    if 0 < count < known:
        last = first + (count - 1) * UNIT_SIZE + _OFFSET_FIELD
        if i64(units, last) == i64(units, last + UNIT_SIZE):  # a filler unit
            return UNUSUAL
    at = np.int64(0)
    for number in range(count):
        unit = first + number * UNIT_SIZE
        position = i64(units, unit + _OFFSET_FIELD) - base
        size = np.int64(i32(units, unit + _SIZE_FIELD))
        copy(out, at, data, position, size)
        at += size
    return at
