"""Count the records of a CommitLog per queue (for summaries).

:func:`walk_plain` is as fast as pure Python allows: a GiB of 1 KiB records takes about 900,000
iterations, so each does as little as possible: one ``unpack_from``, one slice for the topic, one
dictionary update, no object kept. :func:`walk_compiled` counts the same records in a tenth of the
time; it needs numba (extra ``fast``), which takes half a second to load. Field positions come from
the record layout. Records of rare types and corruption are left to the scanner.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error
from typing import Final

import msgspec

from broker.common.sysflag import BORNHOST_V6, INNER_BATCH, STOREHOST_V6
from broker.message.record import MAGIC_V1
from broker.store.format.commitlog import RECORD_LEAST, SHAPE_AT, SHAPES, Buffer

# sysFlag bits that stop a run of countable records if they change: host shape and inner batch.
_RARE_FLAGS = BORNHOST_V6 | STOREHOST_V6 | INNER_BATCH
_TALLY_BITS = 40
_TALLY_ONE = 1 << _TALLY_BITS
_TALLY_BYTES = _TALLY_ONE - 1
_SHORT = Struct(">H")
# Rows of the table that the compiled loop fills: 320 KiB, and few enough to fit a core's cache.
COMPILED_QUEUES: Final = 8192


class Tally(msgspec.Struct, kw_only=True, gc=False):
    """Packed counts of one file: queue id -> stored topic -> messages << 40 | bytes.

    One number per queue makes the update a single addition; the bytes of one file (at most 2 GiB)
    never reach the bits of the message count.
    """

    queues: dict[int, dict[bytes, int]] = {}

    def totals(self) -> Iterator[tuple[bytes, int, int, int]]:
        """Topic, queue id, messages, bytes of each queue."""
        for queue_id, topics in self.queues.items():
            for topic, packed in topics.items():
                yield topic, queue_id, packed >> _TALLY_BITS, packed & _TALLY_BYTES

    def add(self, topic: bytes, queue_id: int, size: int, messages: int = 1) -> None:
        """Count one record."""
        topics = self.queues.setdefault(queue_id, {})
        topics[topic] = topics.get(topic, 0) + size + messages * _TALLY_ONE


def walk_plain(
    buf: Buffer, position: int, base_offset: int, tally: Tally, end: int | None = None
) -> tuple[int, int]:
    """Count records from ``position`` on; return the stop position and the last record's position.

    The fast path of a summary: it creates no objects per record, checks lengths and the stored
    physical offset, but no CRC and no text. It stops at a blank record, at ``end``, at corruption
    and at a rare type of record (v2, inner batch, another host shape); the caller passes these to
    the scanner and then calls again. The last record's position is -1 if none was counted.
    """
    last = -1
    whole = len(buf)
    stop = (whole if end is None else end) - RECORD_LEAST
    if position > stop or buf[position + SHAPE_AT] & INNER_BATCH:
        return position, last
    shape = SHAPES[buf[position + SHAPE_AT] >> 4 & 3]
    rare = buf[position + SHAPE_AT] & _RARE_FLAGS
    unpack = shape.walk.unpack_from
    short = _SHORT.unpack_from
    payload = shape.payload_at + 1  # + 1: topicLength of a v1 record
    stop = min(stop, whole - shape.least)
    queues = tally.queues
    expected = base_offset + position
    flag = -1
    try:
        while position <= stop:
            size, magic, queue_id, own, sys_flag, length = unpack(buf, position)
            # A negative length could place the next record before this one: an endless loop.
            if own != expected or magic != MAGIC_V1 or length < 0:
                break
            if sys_flag != flag:
                if sys_flag & _RARE_FLAGS != rare:
                    break
                flag = sys_flag
            # Lengths are untrusted: a position past the end of the buffer raises (caught below),
            # and otherwise the lengths must add up to the record's length.
            topic = position + payload + length
            topic_end = topic + buf[topic - 1]
            after = position + size
            if topic_end + 2 + short(buf, topic_end)[0] != after or after > whole:
                break
            last = position
            position = after
            expected += size
            # Nearly every record belongs to a known queue, so the exception is the rare case.
            try:
                queues[queue_id][bytes(buf[topic:topic_end])] += size + _TALLY_ONE
            except KeyError:
                tally.add(bytes(buf[topic:topic_end]), queue_id, size)
    except (IndexError, struct_error):
        pass
    return position, last


def walk_compiled(
    buf: Buffer, position: int, base_offset: int, tally: Tally, end: int | None = None
) -> tuple[int, int]:
    """:func:`walk_plain` in compiled code; needs numpy and numba."""
    import numpy as np

    from broker.store.format.vectorized import kernels

    view = np.frombuffer(buf, dtype=np.uint8)
    stop = len(buf) if end is None else end
    table = np.zeros((COMPILED_QUEUES, kernels.COUNT_COLUMNS), dtype=np.int64)
    last = -1
    while True:
        after, newest, queues = kernels.count_records(view, base_offset, position, stop, table)
        for row in np.flatnonzero(table[:, kernels.COUNT_RECORDS]).tolist():
            topic, length, queue_id, messages, size = table[row].tolist()
            tally.add(bytes(buf[topic : topic + length]), queue_id, size, messages)
        if newest >= 0:
            last = int(newest)
        position = int(after)
        if 2 * queues < COMPILED_QUEUES:
            return position, last
        table[:] = 0  # filled by queues, not stopped by a record
