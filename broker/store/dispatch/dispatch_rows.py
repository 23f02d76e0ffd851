"""Read the fields that dispatch needs of many consecutive records at once.

Recovery reads every record of a long log. One loop with the checks of
:func:`~broker.store.format.commitlog.check_record` takes a third of the time that separate calls
per record take.
"""

import mmap
from typing import Final, cast

from broker.common.encoding.checksum import crc32
from broker.common.sysflag import BORNHOST_V6, STOREHOST_V6
from broker.message.record import (
    BODY_CRC_MASK,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTY_CRC_NAME,
    PROPERTY_CRC_SIZE,
)
from broker.store.format.commitlog import (
    LARGEST_HEAD,
    SHAPES,
    Buffer,
    check_record,
)
from broker.store.format.lost_sectors import SECTOR_SIZE, find_lost_part

# Physical offset, size, storeTimestamp, sysFlag, queueOffset, queueId, topic, properties.
DispatchRow = tuple[int, int, int, int, int, int, bytes, bytes]

MAX_TEXT_BYTES: Final = 4 << 20
_IPV6_HOSTS: Final = BORNHOST_V6 | STOREHOST_V6


def read_rows(
    mapping: Buffer,
    positions: tuple[int, int, int],
    base: int,
    most: int,
    *,
    check_crc: bool,
    power_failed: bool,
) -> tuple[list[DispatchRow], int]:
    """Rows of up to ``most`` intact records, and the position after the last of them.

    Their topics and properties have up to MAX_TEXT_BYTES and those of one record together.

    ``positions``: where the first record starts, before which position the last one does, and the
    end of the file, whose physical offset is ``base``. Ends before anything that check_record or
    find_lost_part (with ``power_failed``) do not accept, and before a record whose stored physical
    offset is not its position.
    """
    position, stop, end = positions
    last = min(stop - 1, end - LARGEST_HEAD)
    rows: list[DispatchRow] = []
    left = MAX_TEXT_BYTES
    unpack, payload_at = SHAPES[0].head.unpack_from, SHAPES[0].payload_at
    memory: object = mapping
    # Slices of both are bytes.
    content = cast("bytes", mapping) if isinstance(memory, mmap.mmap) else bytes(mapping)
    with memoryview(content) as view:
        while position <= last and left > 0 and len(rows) < most:
            size, magic, crc, queue_id, queue_offset, own, sys_flag, stored, _, length = unpack(
                view, position
            )
            body = position + payload_at
            if sys_flag & _IPV6_HOSTS:
                shape = SHAPES[sys_flag >> 4 & 3]
                head = shape.head.unpack_from(view, position)
                stored, length = head[7], head[9]
                body = position + shape.payload_at
            after = position + size
            topic = body + length
            if own != base + position or after > end or not body <= topic <= after - 3:
                break
            tail = content[topic:after]
            if magic == MAGIC_V1:
                name_at, name_end = 1, 1 + tail[0]
            elif magic == MAGIC_V2:
                name_at, name_end = 2, 2 + (tail[0] << 8 | tail[1])
            else:
                break
            start = name_end + 2
            text = len(tail) - start
            if text < 0 or tail[name_end] << 8 | tail[name_end + 1] != text:
                break
            if check_crc and length and crc32(view[body:topic]) & BODY_CRC_MASK != crc:
                break
            has_crc = check_crc and tail.startswith(PROPERTY_CRC_NAME, -PROPERTY_CRC_SIZE)
            if has_crc and check_record(mapping, position, end) != size:
                break
            name, properties = tail[name_at:name_end], tail[start:]
            # A lost sector contains the first or last byte of one of them, or is between.
            suspect = power_failed and (
                0 in name
                or text >= SECTOR_SIZE
                or (properties and not (properties[0] and properties[-1]))
            )
            if suspect and find_lost_part(mapping, position, size) != size:
                break
            rows.append((own, size, stored, sys_flag, queue_offset, queue_id, name, properties))
            position = after
            left -= len(tail)
    return rows, position
