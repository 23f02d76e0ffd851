"""Counting a CommitLog as fast as plain Python can: the walk behind a summary.

A GiB of 1 KiB records is 900,000 steps, so what a step does is counted in nanoseconds: one
``unpack_from``, one slice for the topic, one addition in a dictionary, no object kept. The layout
comes from the record table; the scanner has the last word on everything that is not plain.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error

import msgspec

from broker.common.sysflag import BORNHOST_V6, INNER_BATCH, STOREHOST_V6
from broker.message.record import MAGIC_V1
from broker.store.format.commitlog import RECORD_LEAST, SHAPE_AT, SHAPES

# sysFlag bits that must not change within a run of plain records: host shape and inner batch.
_RARE_FLAGS = BORNHOST_V6 | STOREHOST_V6 | INNER_BATCH
_TALLY_BITS = 40
_TALLY_ONE = 1 << _TALLY_BITS
_TALLY_BYTES = _TALLY_ONE - 1
_SHORT = Struct(">H")


class Tally(msgspec.Struct, kw_only=True, gc=False):
    """Counts of a walk over one file, packed: queue id -> stored topic -> messages << 40 | bytes.

    One number per queue is what makes the walk fast; a file's bytes (at most 2 GiB) stay far
    below the count's bits.
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
    buf: bytes, position: int, base_offset: int, tally: Tally, end: int | None = None
) -> tuple[int, int]:
    """Count records as long as they are whole and plain; where it stopped, and the last record.

    The fast path of a summary: no object per record, lengths and own physical offset checked, no
    CRC, no text. It stops at a blank record, at ``end``, at a damage and at anything rare (a v2
    record, an inner batch, another host shape), which the caller looks at with the scanner before
    it comes back.
    The last record's position is -1 if none was counted. ``buf`` is bytes or an mmap: a slice of
    a memoryview is no dictionary key.
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
    payload = shape.payload_at + 1
    stop = min(stop, whole - shape.least)
    queues = tally.queues
    expected = base_offset + position
    flag = -1
    try:
        while position <= stop:
            size, magic, queue_id, own, sys_flag, length = unpack(buf, position)
            if own != expected or magic != MAGIC_V1:
                break
            if sys_flag != flag:
                if sys_flag & _RARE_FLAGS != rare:
                    break
                flag = sys_flag
            # The lengths may be anything. One that leads out of the buffer is an error, all
            # others must add up to the record's length.
            topic = position + payload + length
            topic_end = topic + buf[topic - 1]
            after = position + size
            if topic_end + 2 + short(buf, topic_end)[0] != after or after > whole:
                break
            last = position
            position = after
            expected += size
            try:
                queues[queue_id][buf[topic:topic_end]] += size + _TALLY_ONE
            except KeyError:
                tally.add(buf[topic:topic_end], queue_id, size)
    except (IndexError, struct_error):
        pass
    return position, last
