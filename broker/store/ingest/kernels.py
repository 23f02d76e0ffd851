"""The compiled loops `append` and `derive`: from rows to records, queue units and index entries.

They need numba (extra ``fast``).

They write to arrays of Python only, each write after a comparison with the length of its array;
the owners of the files copy from there.
"""

import numpy as np
from numba import njit

from broker.common import sysflag
from broker.message.record import BODY_CRC_MASK, field_position
from broker.store.format.consumequeue import UNIT, UNIT_SIZE
from broker.store.format.vectorized.kernels import crc32
from broker.store.ingest.columns import (
    BODY_AT,
    BODY_LENGTH,
    BODY_LENGTH_AT,
    BORN_TIMESTAMP,
    CAPACITY,
    FIRST_ROW,
    FIRST_UNIT,
    FIXED_SIZE,
    FLAG,
    FRAME_END,
    FULL,
    HOST_AT,
    HOST_SIZE,
    KEY_PREFIX,
    KEYS_AT,
    KEYS_LENGTH,
    LEFT_FRAME,
    MAGIC,
    MORE,
    NEXT_OFFSET,
    OPEN,
    PHYSICAL_OFFSET,
    PLACE,
    POSITION,
    PROPERTIES_AT,
    PROPERTIES_LENGTH,
    QUEUE_ID,
    QUEUE_OFFSET,
    RECONSUME_AT,
    RECONSUME_TIMES,
    SEGMENT,
    SEGMENT_AT,
    SHAPE,
    SHAPE_BITS,
    SIZE,
    START,
    STOP,
    STORE_TIMESTAMP,
    STORED_AT,
    STORED_LENGTH,
    STORED_TIME_AT,
    SYS_FLAG,
    TAGS_AT,
    TAGS_CODE,
    TAGS_LENGTH,
    TAKEN,
    TAKEN_BYTES,
    TAKEN_FRAMES,
    TAKEN_ROWS,
    TOPIC_SYS_FLAG,
    UNIQ_KEY_AT,
    UNIQ_KEY_LENGTH,
)
from broker.store.ingest.octets import copy, put16, put32, put64

_MAGIC_FIELD = field_position("magicCode")
_CRC_FIELD = field_position("bodyCRC")
_QUEUE_ID_FIELD = field_position("queueId")
_FLAG_FIELD = field_position("flag")
_QUEUE_OFFSET_FIELD = field_position("queueOffset")
_PHYSICAL_OFFSET_FIELD = field_position("physicalOffset")
_SYS_FLAG_FIELD = field_position("sysFlag")
_BORN_FIELD = field_position("bornTimestamp")
_HOST_FIELD = field_position("bornHost")
_UNIT_OFFSET_FIELD = UNIT.offset("physicalOffset")
_UNIT_SIZE_FIELD = UNIT.offset("size")
_UNIT_CODE_FIELD = UNIT.offset("tagsCode")
_V6_BITS = sysflag.BORNHOST_V6 | sysflag.STOREHOST_V6
_SPACE = 32
_INT32_MAX = 0x7FFFFFFF


@njit(cache=True, nogil=True)
def _tags_code(text, at, length):
    value = np.uint32(0)
    for position in range(at, at + length):
        value = value * np.uint32(31) + np.uint32(text[position])
    return np.int64(np.int32(value))


@njit(cache=True, nogil=True)
def _fixed_part(out, at, template, shape, row, place, parameters):
    """Write the fixed fields of a record; the template has the store host and zeros."""
    copy(out, at, template, 0, shape[FIXED_SIZE])
    put32(out, at, row[SIZE])
    put32(out, at + _MAGIC_FIELD, place[MAGIC])
    put32(out, at + _QUEUE_ID_FIELD, place[QUEUE_ID])
    put32(out, at + _FLAG_FIELD, row[FLAG])
    put64(out, at + _QUEUE_OFFSET_FIELD, row[QUEUE_OFFSET])
    put64(out, at + _PHYSICAL_OFFSET_FIELD, row[PHYSICAL_OFFSET])
    put32(out, at + _SYS_FLAG_FIELD, row[SYS_FLAG] & ~_V6_BITS | shape[SHAPE_BITS])
    put64(out, at + _BORN_FIELD, row[BORN_TIMESTAMP])
    put64(out, at + shape[STORED_TIME_AT], parameters[STORE_TIMESTAMP])
    put32(out, at + shape[RECONSUME_AT], row[RECONSUME_TIMES])
    put32(out, at + shape[BODY_LENGTH_AT], row[BODY_LENGTH])


@njit(cache=True, nogil=True)
def _sizes(rows, fixed, place):
    """Note the sizes of the records of one frame; return their sum."""
    total = np.int64(0)
    for number in range(rows.shape[0]):
        row = rows[number]
        row[SIZE] = fixed + row[BODY_LENGTH] + place[STORED_LENGTH] + 2 + row[PROPERTIES_LENGTH]
        total += row[SIZE]
    return total


@njit(cache=True, nogil=True)
def _variable_part(out, at, data, text, stored, row, place, tables):
    """Write checksum, body, topic and properties of the record whose fixed part ends at ``at``."""
    length = row[BODY_LENGTH]
    crc = np.int64(crc32(data, row[BODY_AT], row[BODY_AT] + length, tables))
    copy(out, at, data, row[BODY_AT], length)
    at += length
    copy(out, at, stored, place[STORED_AT], place[STORED_LENGTH])
    at += place[STORED_LENGTH]
    put16(out, at, row[PROPERTIES_LENGTH])
    copy(out, at + 2, text, row[PROPERTIES_AT], row[PROPERTIES_LENGTH])
    return crc & BODY_CRC_MASK


@njit(cache=True, nogil=True)
def append(data, text, rows, segments, places, stored, templates, shapes, parameters, tables, out):
    """Write the records of ``rows`` into ``out``: (records, bytes).

    ``places`` has the open queues with their next offsets, ``stored`` the topics as in a record,
    ``templates`` and ``shapes`` the fixed part of a record by SHAPE, ``parameters`` the
    destination. A row whose queue is not open ends its segment as a frame that is left; the rows of
    the records written move to the start of the table. Stops before a frame that does not fit into
    the file or into ``out``: its segment and all after it are FULL.

    **Source:** RocketMQ CommitLog#asyncPutMessages: the records of a batch are in one file.
    """
    at = np.int64(0)
    count = 0
    limit = min(parameters[CAPACITY], np.int64(out.shape[0]))
    for number in range(segments.shape[0]):
        segments[number, POSITION] = segments[number, SEGMENT_AT]
        segments[number, FIRST_ROW] = 0
        segments[number, TAKEN_ROWS] = 0
    closed = np.int64(-1)
    next_frame = np.int64(0)
    for number in range(rows.shape[0]):
        row = rows[number]
        if row[SEGMENT] == closed:
            continue
        segment = segments[row[SEGMENT]]
        place = places[row[PLACE]]
        shape = shapes[segment[SHAPE]]
        if number >= next_frame:
            if not place[OPEN]:
                closed = row[SEGMENT]
                segment[STOP] = LEFT_FRAME
                continue
            next_frame = number + 1 + row[MORE]
            if at + _sizes(rows[number:next_frame], shape[FIXED_SIZE], place) > limit:
                for later in range(row[SEGMENT], segments.shape[0]):
                    segments[later, STOP] = FULL
                break
            place[TAKEN_FRAMES] += 1
        row[PHYSICAL_OFFSET] = parameters[START] + at
        row[QUEUE_OFFSET] = place[NEXT_OFFSET]
        row[SYS_FLAG] |= place[TOPIC_SYS_FLAG]
        row[TAGS_CODE] = _tags_code(text, row[TAGS_AT], row[TAGS_LENGTH])
        template = templates[segment[SHAPE]]
        _fixed_part(out, at, template, shape, row, place, parameters)
        copy(out, at + _HOST_FIELD, data, segment[HOST_AT], shape[HOST_SIZE])
        part = at + shape[FIXED_SIZE]
        crc = _variable_part(out, part, data, text, stored, row, place, tables)
        put32(out, at + _CRC_FIELD, crc)
        if not segment[TAKEN_ROWS]:
            segment[FIRST_ROW] = count
        segment[TAKEN_ROWS] += 1
        segment[POSITION] = row[FRAME_END]
        place[NEXT_OFFSET] += 1
        place[TAKEN] += 1
        place[TAKEN_BYTES] += row[SIZE]
        at += row[SIZE]
        if number > count:
            rows[count] = row
        count += 1
    return count, at


@njit(cache=True, nogil=True)
def _key_hash(prefix, text, at, length):
    """Index hash of a key as `key_hash`, except that `_put_entry` replaces one above INT32_MAX."""
    value = np.uint32(prefix)
    for position in range(at, at + length):
        value = value * np.uint32(31) + np.uint32(text[position])
    signed = np.int64(np.int32(value))
    return -signed if signed < 0 else signed


@njit(cache=True, nogil=True)
def _put_entry(entries, count, hashed, row):
    entries[0, count] = hashed if hashed <= _INT32_MAX else 0
    entries[1, count] = row[PHYSICAL_OFFSET]


@njit(cache=True, nogil=True)
def derive(text, rows, places, units, entries):
    """Write the queue units of appended records, queue by queue, and their index entries.

    ``units`` receives 20 bytes per record; FIRST_UNIT of a place becomes the number of units
    before its first one. ``entries`` (2 x capacity) receives hash and physical offset of each key.
    Returns the number of entries, -1 if they do not fit.
    """
    first = np.int64(0)
    for number in range(places.shape[0]):
        places[number, FIRST_UNIT] = first
        first += places[number, TAKEN] if places[number, OPEN] else 0
    if first * UNIT_SIZE > units.shape[0]:
        return -1
    count = 0
    for number in range(rows.shape[0]):
        row = rows[number]
        place = places[row[PLACE]]
        before = row[QUEUE_OFFSET] - (place[NEXT_OFFSET] - place[TAKEN])
        at = (place[FIRST_UNIT] + before) * UNIT_SIZE
        if before < 0 or at < 0 or at + UNIT_SIZE > units.shape[0]:
            return -1
        put64(units, at + _UNIT_OFFSET_FIELD, row[PHYSICAL_OFFSET])
        put32(units, at + _UNIT_SIZE_FIELD, row[SIZE])
        put64(units, at + _UNIT_CODE_FIELD, row[TAGS_CODE])
        # Each word takes a byte and a separator at least.
        if count + 2 + row[KEYS_LENGTH] // 2 > entries.shape[1]:
            return -1
        prefix = place[KEY_PREFIX]
        hashed = _key_hash(prefix, text, row[UNIQ_KEY_AT], row[UNIQ_KEY_LENGTH])
        _put_entry(entries, count, hashed, row)
        count += 1
        start = row[KEYS_AT]
        stop = start + row[KEYS_LENGTH]
        position = start
        while position <= stop and stop > start:
            if position == stop or text[position] == _SPACE:
                if position > start:
                    hashed = _key_hash(prefix, text, start, position - start)
                    _put_entry(entries, count, hashed, row)
                    count += 1
                start = position + 1
            position += 1
    return count
