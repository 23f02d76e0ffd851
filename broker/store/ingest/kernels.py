"""The compiled loops `append` and `derive`: from rows to records, queue units and index entries.

They need numba (extra ``fast``). They write to arrays of Python only, each write after a comparison
with the length of its array; the owners of the files copy from there.
"""

import numpy as np

from broker.common import sysflag
from broker.machine_code.compiled_loop import compiled_loop
from broker.message.record import BODY_CRC_MASK, field_position
from broker.store.format.consumequeue import UNIT, UNIT_SIZE
from broker.store.format.vectorized.checksum import crc32
from broker.store.ingest import columns as col
from broker.store.ingest.octets import copy, put16, put32, put64

_MAGIC_FIELD, _CRC_FIELD, _QUEUE_ID_FIELD, _FLAG_FIELD = map(
    field_position, ("magicCode", "bodyCRC", "queueId", "flag")
)
_QUEUE_OFFSET_FIELD, _PHYSICAL_OFFSET_FIELD, _SYS_FLAG_FIELD, _BORN_FIELD, _HOST_FIELD = map(
    field_position, ("queueOffset", "physicalOffset", "sysFlag", "bornTimestamp", "bornHost")
)
_UNIT_OFFSET_FIELD = UNIT.offset("physicalOffset")
_UNIT_SIZE_FIELD = UNIT.offset("size")
_UNIT_CODE_FIELD = UNIT.offset("tagsCode")
_V6_BITS = sysflag.BORNHOST_V6 | sysflag.STOREHOST_V6
_SPACE = 32
_INT32_MAX = 0x7FFFFFFF


@compiled_loop
def _hash(value, text, at, length):
    """Java's hash of ASCII text, continued from the hash of the text before."""
    value = np.uint32(value)
    for position in range(at, at + length):
        value = value * np.uint32(31) + np.uint32(text[position])
    return np.int64(np.int32(value))


@compiled_loop
def _fixed_part(out, at, template, shape, row, place, parameters):
    """Write the fixed fields of a record; the template has the store host and zeros."""
    copy(out, at, template, 0, shape[col.FIXED_SIZE])
    put32(out, at, row[col.SIZE])
    put32(out, at + _MAGIC_FIELD, place[col.MAGIC])
    put32(out, at + _QUEUE_ID_FIELD, place[col.QUEUE_ID])
    put32(out, at + _FLAG_FIELD, row[col.FLAG])
    put64(out, at + _QUEUE_OFFSET_FIELD, row[col.QUEUE_OFFSET])
    put64(out, at + _PHYSICAL_OFFSET_FIELD, row[col.PHYSICAL_OFFSET])
    put32(out, at + _SYS_FLAG_FIELD, row[col.SYS_FLAG] & ~_V6_BITS | shape[col.SHAPE_BITS])
    put64(out, at + _BORN_FIELD, row[col.BORN_TIMESTAMP])
    put64(out, at + shape[col.STORED_TIME_AT], parameters[col.STORE_TIMESTAMP])
    put32(out, at + shape[col.RECONSUME_AT], row[col.RECONSUME_TIMES])
    put32(out, at + shape[col.BODY_LENGTH_AT], row[col.BODY_LENGTH])


@compiled_loop
def _sizes(rows, fixed, place):
    """Note the sizes of the records of one frame; return their sum."""
    total = np.int64(0)
    fixed += place[col.STORED_LENGTH] + 2
    for number in range(rows.shape[0]):
        row = rows[number]
        row[col.SIZE] = fixed + row[col.BODY_LENGTH] + row[col.PROPERTIES_LENGTH]
        total += row[col.SIZE]
    return total


@compiled_loop
def _variable_part(out, at, data, text, stored, row, place):
    """Write checksum, body, topic and properties of the record whose fixed part ends at ``at``."""
    length = row[col.BODY_LENGTH]
    crc = np.int64(crc32(data, row[col.BODY_AT], row[col.BODY_AT] + length))
    copy(out, at, data, row[col.BODY_AT], length)
    at += length
    copy(out, at, stored, place[col.STORED_AT], place[col.STORED_LENGTH])
    at += place[col.STORED_LENGTH]
    put16(out, at, row[col.PROPERTIES_LENGTH])
    copy(out, at + 2, text, row[col.PROPERTIES_AT], row[col.PROPERTIES_LENGTH])
    return crc & BODY_CRC_MASK


@compiled_loop
def append(data, text, rows, segments, places, stored, templates, shapes, parameters, out):
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
    if parameters.shape[0] < col.APPEND_PARAMETERS:
        return count, at
    parameters[col.TEXT_END] = 0
    parameters[col.KEYS_BYTES] = 0
    limit = min(parameters[col.CAPACITY], np.int64(out.shape[0]))
    segments[:, col.POSITION] = segments[:, col.SEGMENT_AT]
    segments[:, col.FIRST_ROW] = segments[:, col.TAKEN_ROWS] = 0
    closed = np.int64(-1)
    next_frame = np.int64(0)
    for number in range(rows.shape[0]):
        row = rows[number]
        if row[col.SEGMENT] == closed:
            continue
        segment = segments[row[col.SEGMENT]]
        place = places[row[col.PLACE]]
        shape = shapes[segment[col.SHAPE]]
        if number >= next_frame:
            if not place[col.OPEN]:
                closed = row[col.SEGMENT]
                segment[col.STOP] = col.LEFT_FRAME
                continue
            next_frame = number + 1 + row[col.MORE]
            if at + _sizes(rows[number:next_frame], shape[col.FIXED_SIZE], place) > limit:
                segments[row[col.SEGMENT] :, col.STOP] = col.FULL
                break
            place[col.TAKEN_FRAMES] += 1
        row[col.PHYSICAL_OFFSET] = parameters[col.START] + at
        row[col.QUEUE_OFFSET] = place[col.NEXT_OFFSET]
        row[col.SYS_FLAG] |= place[col.TOPIC_SYS_FLAG]
        row[col.TAGS_CODE] = _hash(0, text, row[col.TAGS_AT], row[col.TAGS_LENGTH])
        template = templates[segment[col.SHAPE]]
        _fixed_part(out, at, template, shape, row, place, parameters)
        copy(out, at + _HOST_FIELD, data, segment[col.HOST_AT], shape[col.HOST_SIZE])
        part = at + shape[col.FIXED_SIZE]
        crc = _variable_part(out, part, data, text, stored, row, place)
        put32(out, at + _CRC_FIELD, crc)
        if not segment[col.TAKEN_ROWS]:
            segment[col.FIRST_ROW] = count
        segment[col.TAKEN_ROWS] += 1
        segment[col.POSITION] = row[col.FRAME_END]
        place[col.NEXT_OFFSET] += 1
        place[col.TAKEN] += 1
        place[col.TAKEN_BYTES] += row[col.SIZE]
        text_end = row[col.PROPERTIES_AT] + row[col.PROPERTIES_LENGTH]
        parameters[col.TEXT_END] = max(parameters[col.TEXT_END], text_end)
        parameters[col.KEYS_BYTES] += row[col.KEYS_LENGTH]
        at += row[col.SIZE]
        if number > count:
            rows[count] = row
        count += 1
    parameters[col.END] = parameters[col.START] + at
    return count, at


@compiled_loop
def _put_entry(entries, count, place, text, at, length, row):
    """Write the entry of a key: its hash, as that of `key_hash`, and the physical offset."""
    hashed = abs(_hash(place[col.KEY_PREFIX], text, at, length))
    entries[0, count] = hashed if hashed <= _INT32_MAX else 0
    entries[1, count] = row[col.PHYSICAL_OFFSET]


@compiled_loop
def derive(text, rows, places, units, entries):
    """Write the queue units of appended records, queue by queue, and their index entries.

    ``units`` receives 20 bytes per record; FIRST_UNIT of a place becomes the number of units
    before its first one, LAST_END the end of its last record. ``entries`` (2 x capacity) receives
    hash and physical offset of each key. Returns the number of entries, -1 if they do not fit.
    """
    first = np.int64(0)
    for number in range(places.shape[0]):
        places[number, col.FIRST_UNIT] = first
        first += places[number, col.TAKEN] if places[number, col.OPEN] else 0
    if first * UNIT_SIZE > units.shape[0]:
        return -1
    count = 0
    for number in range(rows.shape[0]):
        row = rows[number]
        place = places[row[col.PLACE]]
        before = row[col.QUEUE_OFFSET] - (place[col.NEXT_OFFSET] - place[col.TAKEN])
        at = (place[col.FIRST_UNIT] + before) * UNIT_SIZE
        if before < 0 or at < 0 or at + UNIT_SIZE > units.shape[0]:
            return -1
        place[col.LAST_END] = row[col.PHYSICAL_OFFSET] + row[col.SIZE]
        put64(units, at + _UNIT_OFFSET_FIELD, row[col.PHYSICAL_OFFSET])
        put32(units, at + _UNIT_SIZE_FIELD, row[col.SIZE])
        put64(units, at + _UNIT_CODE_FIELD, row[col.TAGS_CODE])
        # Each word takes a byte and a separator at least.
        if count + 2 + row[col.KEYS_LENGTH] // 2 > entries.shape[1]:
            return -1
        key_at, length = row[col.UNIQ_KEY_AT], row[col.UNIQ_KEY_LENGTH]
        _put_entry(entries, count, place, text, key_at, length, row)
        count += 1
        start = row[col.KEYS_AT]
        stop = start + row[col.KEYS_LENGTH]
        position = start
        while position <= stop and stop > start:
            if position == stop or text[position] == _SPACE:
                if position > start:
                    _put_entry(entries, count, place, text, start, position - start, row)
                    count += 1
                start = position + 1
            position += 1
    return count
