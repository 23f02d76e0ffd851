"""Read the fields that dispatch needs of many consecutive records at once.

Recovery reads every record of a long log. One loop with the checks of
:func:`~broker.store.format.commitlog.check_record` takes a third of the time that separate calls
per record take.
"""

from typing import Final

from broker.common.encoding.checksum import crc32
from broker.message.record import (
    BODY_CRC_MASK,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTY_CRC_NAME,
    PROPERTY_CRC_SIZE,
)
from broker.store.format.commitlog import (
    LARGEST_HEAD,
    SHAPE_AT,
    SHAPES,
    Buffer,
    check_record,
)
from broker.store.format.lost_sectors import SECTOR_SIZE, find_lost_part

# Physical offset, size, storeTimestamp, sysFlag, queueOffset, queueId, topic, properties.
DispatchRow = tuple[int, int, int, int, int, int, bytes, bytes]

MAX_TEXT_BYTES: Final = 4 << 20
_CRC_NAME_END: Final = len(PROPERTY_CRC_NAME) - PROPERTY_CRC_SIZE


def read_rows(
    mapping: Buffer,
    positions: tuple[int, int],
    base: int,
    most: int,
    *,
    check_crc: bool,
    power_failed: bool,
) -> tuple[list[DispatchRow], int]:
    """Rows of up to ``most`` intact records, and the position after the last of them.

    Their topics and properties have up to MAX_TEXT_BYTES and those of one record together.

    ``positions``: where the first record starts, and the end of the file, whose physical offset is
    ``base``. Ends before anything that check_record or find_lost_part (with ``power_failed``) do
    not accept, and before a record whose stored physical offset is not its position.
    """
    position, end = positions
    rows: list[DispatchRow] = []
    left = MAX_TEXT_BYTES
    with memoryview(mapping) as view:
        while len(rows) < most and left > 0 and end - position >= LARGEST_HEAD:
            shape = SHAPES[view[position + SHAPE_AT] >> 4 & 3]
            size, magic, crc, queue_id, queue_offset, own, sys_flag, stored, _, length = (
                shape.head.unpack_from(view, position)
            )
            stop = position + size
            body = position + shape.payload_at
            topic = body + length
            if own != base + position or stop > end or not body <= topic <= stop - 3:
                break
            tail = bytes(view[topic:stop])
            if magic == MAGIC_V1:
                name_at, name_end = 1, 1 + tail[0]
            elif magic == MAGIC_V2:
                name_at, name_end = 2, 2 + (tail[0] << 8 | tail[1])
            else:
                break
            start = name_end + 2
            if int.from_bytes(tail[name_end:start], "big") != len(tail) - start:
                break
            if check_crc and length and crc32(view[body:topic]) & BODY_CRC_MASK != crc:
                break
            has_crc = check_crc and tail[-PROPERTY_CRC_SIZE:_CRC_NAME_END] == PROPERTY_CRC_NAME
            if has_crc and check_record(mapping, position, end) != size:
                break
            name, properties = tail[name_at:name_end], tail[start:]
            # A lost sector contains the first or last byte of one of them, or is between.
            suspect = power_failed and (
                0 in name
                or len(properties) >= SECTOR_SIZE
                or (properties and not (properties[0] and properties[-1]))
            )
            if suspect and find_lost_part(mapping, position, size) != size:
                break
            rows.append((own, size, stored, sys_flag, queue_offset, queue_id, name, properties))
            position = stop
            left -= len(tail)
    return rows, position
