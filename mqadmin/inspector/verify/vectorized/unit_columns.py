"""Classify the units of one ConsumeQueue file as columns; the fast path of ``UnitView``."""

from typing import NamedTuple

import numpy as np

from broker.store.format.consumequeue import PRE_BLANK_SIZE, ConsumeQueueUnit
from mqadmin.inspector.verify.vectorized.queue_columns import unit_array


class UnitColumns(NamedTuple):
    """The units of a file; positions count from its first unit and are -1 if there is none.

    ``strange`` are the units that deviate: position, unit, whether it is good. ``first_physical``
    is the least physical offset of a good unit, ``last_physical`` that of the last one, None
    without good units.
    """

    strange: list[tuple[int, ConsumeQueueUnit, bool]]
    units: int
    seen: int
    expired: int
    first_physical: int | None
    last_physical: int | None
    first_seen: int
    last_seen: int
    last_expired: int


def classify(
    data: bytes, marks: bytes | bytearray, *, start: int, before: int, started: bool
) -> UnitColumns:
    """Classify the units of ``data``; ``marks`` has a byte per unit, 1 if its record was seen.

    ``start`` is the physical offset of the log's start, ``before`` that of the last good unit of
    the files before, ``started`` whether the queue has units before this file.
    """
    units = unit_array(data)[: len(marks)]
    physical, size = units["physical"].astype(np.int64), units["size"].astype(np.int64)
    empty = (physical == 0) & (size == 0) & (units["tags"] == 0)
    filler = (physical == 0) & (size == PRE_BLANK_SIZE)
    real = ~(empty | filler)
    marked = np.frombuffer(marks, dtype=np.uint8)[: len(units)] != 0
    expired = real & ~marked & (physical >= 0) & (physical < start) & (size > 0)
    good = real & (marked | expired)
    # For each unit, the position of the last good unit before it.
    latest = np.maximum.accumulate(np.where(good, np.arange(len(units)), -1))
    earlier = np.concatenate(([-1], latest[:-1]))
    previous = np.where(earlier >= 0, physical[earlier], before)
    begun_before = np.ones(len(units), bool) if started else np.logical_or.accumulate(real)
    strange = (real & ~good) | (good & (physical <= previous)) | empty | (filler & begun_before)
    seen_at, expired_at = np.flatnonzero(marked & real), np.flatnonzero(expired)
    good_at = np.flatnonzero(good)
    return UnitColumns(
        [
            (
                at,
                ConsumeQueueUnit(int(physical[at]), int(size[at]), int(units["tags"][at])),
                bool(good[at]),
            )
            for at in np.flatnonzero(strange).tolist()
        ],
        units=int(real.sum()),
        seen=len(seen_at),
        expired=len(expired_at),
        first_physical=int(physical[good_at].min()) if len(good_at) else None,
        last_physical=int(physical[good_at[-1]]) if len(good_at) else None,
        first_seen=int(seen_at[0]) if len(seen_at) else -1,
        last_seen=int(seen_at[-1]) if len(seen_at) else -1,
        last_expired=int(expired_at[-1]) if len(expired_at) else -1,
    )
