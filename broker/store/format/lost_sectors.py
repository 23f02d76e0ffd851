"""Records that lost a sector in a power failure: zeros in place of topic or properties.

**Source:** no Java counterpart; RocketMQ delivers such a record with the properties that remain.
"""

from typing import Final

from broker.message.record import MAGIC_V2
from broker.store.format.commitlog import BAD_LENGTHS, MAGIC_AT, SHAPE_AT, SHAPES, Buffer

LOST_PROPERTIES: Final = -8  # a status in addition to those of check_record
SECTOR_SIZE: Final = 512  # the unit that a disk writes as a whole


def find_lost_part(buf: Buffer, position: int, size: int) -> int:
    """``size`` if no sector of a record's topic or properties is missing, else a status constant.

    After a power failure sectors that were not synced are zeros, while others are written; bodyCRC
    covers neither topic nor properties. ``position`` is that of an accepted record of ``size``
    bytes in a CommitLog file. A topic contains no zero byte; properties are incomplete if their
    bytes in one sector are all zeros.
    """
    stop = position + size
    body = position + SHAPES[buf[position + SHAPE_AT] >> 4 & 3].payload_at
    topic = body + int.from_bytes(buf[body - 4 : body], "big")
    wide = 2 if buf[position + MAGIC_AT + 3] == MAGIC_V2 & 0xFF else 1
    start = topic + wide + int.from_bytes(buf[topic : topic + wide], "big") + 2
    if 0 in buf[topic + wide : start - 2]:
        return BAD_LENGTHS
    while start < stop:
        end = min(stop, start - start % SECTOR_SIZE + SECTOR_SIZE)
        if not buf[start] and not any(buf[start:end]):
            return LOST_PROPERTIES
        start = end
    return size
