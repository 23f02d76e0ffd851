"""The compiled loops of the column scanner; needs numba and numpy (extra ``fast``).

Each function reads bytes of a CommitLog file and writes plain numbers. :func:`fill` accepts only
records that pass every check; at all other bytes it stops, and the plain scanner decides. So the
two cannot disagree: this one is the fast path of the common case.
"""

import numpy as np

from broker.common import sysflag
from broker.machine_code.code_cache import keeps_code_of
from broker.machine_code.compiled_loop import compiled_loop, inlined_loop
from broker.message.record import MAGIC_V1, MAGIC_V2
from broker.store.format.commitlog import RECORD, RECORD_LEAST
from broker.store.format.vectorized.checksum import crc32

# Rows of the table that `fill` writes, one per column; `columns.COLUMNS` names them.
(
    POSITION,
    TOTAL_SIZE,
    MAGIC,
    BODY_CRC,
    QUEUE_ID,
    FLAG,
    QUEUE_OFFSET,
    SYS_FLAG,
    BORN_TIMESTAMP,
    STORE_TIMESTAMP,
    RECONSUME_TIMES,
    PREPARED_TRANSACTION_OFFSET,
    BODY_AT,
    BODY_LENGTH,
    TOPIC_AT,
    TOPIC_LENGTH,
    PROPERTIES_AT,
    PROPERTIES_LENGTH,
    TAGS_AT,
    TAGS_LENGTH,
    KEYS_AT,
    KEYS_LENGTH,
    UNIQ_KEY_AT,
    UNIQ_KEY_LENGTH,
    MULTI_AT,
    MULTI_LENGTH,
    PLAIN_TEXT,
    CRC_OK,
) = range(28)
COLUMN_COUNT = 28

# Columns of the table that `count_records` fills, one row per queue.
COUNT_TOPIC_AT, COUNT_TOPIC_LENGTH, COUNT_QUEUE_ID, COUNT_RECORDS, COUNT_BYTES = range(5)
COUNT_COLUMNS = 5

# Options of `fill` in addition to the fixed fields.
WITH_CRC = 1
WITH_PROPERTIES = 2

_OWN_AT = RECORD.offset("physicalOffset")
_FLAG_AT = RECORD.offset("sysFlag")
_CRC_AT = RECORD.offset("bodyCRC")
_QUEUE_ID_AT = RECORD.offset("queueId")
_APP_FLAG_AT = RECORD.offset("flag")
_QUEUE_OFFSET_AT = RECORD.offset("queueOffset")
_BORN_AT = RECORD.offset("bornTimestamp")
_STORE_AT = RECORD.offset("storeTimestamp")
_RECONSUME_AT = RECORD.offset("reconsumeTimes")
_PREPARED_AT = RECORD.offset("preparedTransactionOffset")
_BODY_LENGTH_AT = RECORD.offset("bodyLength")
_BORN_V6 = sysflag.BORNHOST_V6
_STORE_V6 = sysflag.STOREHOST_V6
_SHAPE_FLAGS = _BORN_V6 | _STORE_V6
_COUNT_FLAGS = _SHAPE_FLAGS | sysflag.INNER_BATCH
# The ten digits of a record CRC kept in the properties, and its name: these need the plain scanner.
_CRC_PROPERTY = np.frombuffer(b"__CRC32#\x01", dtype=np.uint8)
_CRC_PROPERTY_SIZE = 20


def kept() -> bool:
    """Return whether machine code of these loops is in the cache; else they are compiled first."""
    return keeps_code_of(__name__)


@inlined_loop
def _i32(buf, at):
    value = (
        np.uint32(buf[at]) << np.uint32(24)
        | np.uint32(buf[at + 1]) << np.uint32(16)
        | np.uint32(buf[at + 2]) << np.uint32(8)
        | np.uint32(buf[at + 3])
    )
    return np.int64(np.int32(value))


@inlined_loop
def _i64(buf, at):
    high = np.uint64(np.uint32(_i32(buf, at)))
    low = np.uint64(np.uint32(_i32(buf, at + 4)))
    return np.int64(high << np.uint64(32) | low)


@inlined_loop
def _name_is(buf, start, name, length):
    for index in range(length):
        if buf[start + index] != name[index]:
            return False
    return True


_TAGS = np.frombuffer(b"TAGS", dtype=np.uint8)
_KEYS = np.frombuffer(b"KEYS", dtype=np.uint8)
_UNIQ_KEY = np.frombuffer(b"UNIQ_KEY", dtype=np.uint8)
_MULTI = np.frombuffer(b"INNER_MULTI_DISPATCH", dtype=np.uint8)


@compiled_loop
def _properties(buf, start, stop, out, row):
    """Where the values of a few names lie; whether the whole string is ASCII.

    A piece without a name or without a value does not count; of two with one name the later wins.
    """
    ascii_only = True
    piece = start
    mark = -1
    at = start
    while at <= stop:
        byte = np.uint8(2) if at == stop else buf[at]
        if byte >= 128:
            ascii_only = False
        elif byte == 1:
            if mark < 0:
                mark = at
        elif byte == 2:
            if mark > piece and at > mark + 1:
                length = mark - piece
                column = -1
                if length == 4:
                    if _name_is(buf, piece, _TAGS, 4):
                        column = TAGS_AT
                    elif _name_is(buf, piece, _KEYS, 4):
                        column = KEYS_AT
                elif length == 8:
                    if _name_is(buf, piece, _UNIQ_KEY, 8):
                        column = UNIQ_KEY_AT
                elif length == 20 and _name_is(buf, piece, _MULTI, 20):
                    column = MULTI_AT
                if column >= 0:
                    out[column, row] = mark + 1
                    out[column + 1, row] = at - mark - 1
            piece = at + 1
            mark = -1
        at += 1
    return ascii_only


@compiled_loop
def _parts(buf, at, size, magic, out, row):
    """Positions of body, topic and properties; False if they do not fill the record."""
    flag = _i32(buf, at + _FLAG_AT)
    shift = 0
    born_shift = 0
    if flag & _BORN_V6:
        born_shift = 12
        shift = 12
    if flag & _STORE_V6:
        shift += 12
    stop = at + size
    wide = 2 if magic == MAGIC_V2 else 1
    if size < RECORD_LEAST + shift:
        return False
    length = _i32(buf, at + _BODY_LENGTH_AT + shift)
    body = at + _BODY_LENGTH_AT + 4 + shift
    topic = body + length
    if length < 0 or topic + wide > stop:
        return False
    topic_length = np.int64(buf[topic])
    if wide == 2:
        topic_length = topic_length << 8 | np.int64(buf[topic + 1])
    properties = topic + wide + topic_length
    if properties + 2 > stop:
        return False
    properties_length = np.int64(buf[properties]) << 8 | np.int64(buf[properties + 1])
    if properties + 2 + properties_length != stop:
        return False
    out[SYS_FLAG, row] = flag
    out[STORE_TIMESTAMP, row] = _i64(buf, at + _STORE_AT + born_shift)
    out[RECONSUME_TIMES, row] = _i32(buf, at + _RECONSUME_AT + shift)
    out[PREPARED_TRANSACTION_OFFSET, row] = _i64(buf, at + _PREPARED_AT + shift)
    out[BODY_AT, row] = body
    out[BODY_LENGTH, row] = length
    out[TOPIC_AT, row] = topic + wide
    out[TOPIC_LENGTH, row] = topic_length
    out[PROPERTIES_AT, row] = properties + 2
    out[PROPERTIES_LENGTH, row] = properties_length
    return True


@compiled_loop
def _texts(buf, row, out, scan_flags):
    """Slices of the properties that readers ask for, and whether topic and properties are ASCII."""
    for column in (TAGS_AT, KEYS_AT, UNIQ_KEY_AT, MULTI_AT):
        out[column, row] = 0
        out[column + 1, row] = -1
    plain = True
    topic = out[TOPIC_AT, row]
    for at in range(topic, topic + out[TOPIC_LENGTH, row]):
        if buf[at] >= 128:
            plain = False
    if scan_flags & WITH_PROPERTIES:
        start = out[PROPERTIES_AT, row]
        plain &= _properties(buf, start, start + out[PROPERTIES_LENGTH, row], out, row)
    out[PLAIN_TEXT, row] = plain


@compiled_loop
def _has_record_crc(buf, stop, least):
    mark = stop - _CRC_PROPERTY_SIZE
    return mark >= least and _name_is(buf, mark, _CRC_PROPERTY, 9)


@compiled_loop
def fill(buf, base, start, end, scan_flags, out):
    """Columns of the records from ``start`` on: (rows written, position after the last one).

    ``buf`` is one file as uint8, ``base`` its physical offset; reading stops at ``end``, when
    ``out`` (COLUMN_COUNT x rows, int64) is full, or at bytes that are not a complete record with
    consistent lengths, its own physical offset and, WITH_CRC, a body that has its checksum.
    """
    whole = buf.shape[0]
    rows = out.shape[1]
    at = start
    row = 0
    while row < rows and at < end and at + RECORD_LEAST <= whole:
        size = _i32(buf, at)
        magic = np.int64(np.uint32(_i32(buf, at + 4)))
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < RECORD_LEAST:
            break
        if at + size > whole or _i64(buf, at + _OWN_AT) != base + at:
            break
        if not _parts(buf, at, size, magic, out, row):
            break
        crc = _i32(buf, at + _CRC_AT)
        out[CRC_OK, row] = -1
        if scan_flags & WITH_CRC:
            body = out[BODY_AT, row]
            length = out[BODY_LENGTH, row]
            if length > 0:
                found = np.int64(crc32(buf, body, body + length)) & 0x7FFFFFFF
                if found != crc:
                    break
            if _has_record_crc(buf, at + size, out[PROPERTIES_AT, row]):
                break
            out[CRC_OK, row] = 1
        out[POSITION, row] = at
        out[TOTAL_SIZE, row] = size
        out[MAGIC, row] = magic
        out[BODY_CRC, row] = crc
        out[QUEUE_ID, row] = _i32(buf, at + _QUEUE_ID_AT)
        out[FLAG, row] = _i32(buf, at + _APP_FLAG_AT)
        out[QUEUE_OFFSET, row] = _i64(buf, at + _QUEUE_OFFSET_AT)
        out[BORN_TIMESTAMP, row] = _i64(buf, at + _BORN_AT)
        _texts(buf, row, out, scan_flags)
        row += 1
        at += size
    return row, at


@compiled_loop
def walk(buf, base, start, end, positions):
    """Positions of the records from ``start`` on: (count, position after the last one).

    The cheapest check: length, magic code and own physical offset only.
    """
    whole = buf.shape[0]
    at = start
    count = 0
    while count < positions.shape[0] and at < end and at + RECORD_LEAST <= whole:
        size = _i32(buf, at)
        magic = np.int64(np.uint32(_i32(buf, at + 4)))
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < RECORD_LEAST:
            break
        if at + size > whole or _i64(buf, at + _OWN_AT) != base + at:
            break
        positions[count] = at
        count += 1
        at += size
    return count, at


@inlined_loop
def _count_slot(buf, tally, topic, length, queue_id):
    """The row of ``tally`` of a queue, or the free row for it; one row at least must be free."""
    mask = tally.shape[0] - 1
    hashed = np.uint32(queue_id) * np.uint32(0x9E3779B1)
    for at in range(topic, topic + length):
        hashed = (hashed ^ np.uint32(buf[at])) * np.uint32(0x01000193)
    slot = np.int64(hashed ^ hashed >> np.uint32(15)) & mask
    while tally[slot, COUNT_RECORDS] > 0:
        if tally[slot, COUNT_TOPIC_LENGTH] == length and tally[slot, COUNT_QUEUE_ID] == queue_id:
            index = 0
            known = tally[slot, COUNT_TOPIC_AT]
            while index < length and buf[known + index] == buf[topic + index]:
                index += 1
            if index == length:
                break
        slot = slot + 1 & mask
    return slot


@compiled_loop
def count_records(buf, base, start, end, tally):
    """Count plain records from ``start`` on: (stop position, last record's or -1, queues found).

    The same records as ``record_count.walk_plain`` counts. ``tally`` is int64[slots,
    COUNT_COLUMNS], slots a power of 2; rows without records are free. Also stops when half of the
    rows are taken: the number of queues is not bounded, the memory is.
    """
    whole = buf.shape[0]
    at = start
    last = np.int64(-1)
    queues = 0
    if at + RECORD_LEAST > whole:
        return at, last, queues
    shape = _i32(buf, at + _FLAG_AT) & _SHAPE_FLAGS
    payload = _BODY_LENGTH_AT + 4
    if shape & _BORN_V6:
        payload += 12
    if shape & _STORE_V6:
        payload += 12
    stop = min(end - RECORD_LEAST, whole - payload - 3)
    while at <= stop and 2 * queues < tally.shape[0]:
        size = _i32(buf, at)
        flag = _i32(buf, at + _FLAG_AT)
        if np.int64(np.uint32(_i32(buf, at + 4))) != MAGIC_V1 or flag & _COUNT_FLAGS != shape:
            break
        length = _i32(buf, at + payload - 4)
        topic = at + payload + 1 + length
        if _i64(buf, at + _OWN_AT) != base + at or length < 0 or topic > whole:
            break
        topic_length = np.int64(buf[topic - 1])
        tail = topic + topic_length
        if tail + 2 > whole or at + size > whole:
            break
        if tail + 2 + (np.int64(buf[tail]) << 8 | np.int64(buf[tail + 1])) != at + size:
            break
        queue_id = _i32(buf, at + _QUEUE_ID_AT)
        slot = _count_slot(buf, tally, topic, topic_length, queue_id)
        if tally[slot, COUNT_RECORDS] == 0:
            tally[slot, COUNT_TOPIC_AT] = topic
            tally[slot, COUNT_TOPIC_LENGTH] = topic_length
            tally[slot, COUNT_QUEUE_ID] = queue_id
            queues += 1
        tally[slot, COUNT_RECORDS] += 1
        tally[slot, COUNT_BYTES] += size
        last = at
        at += size
    return at, last, queues


@compiled_loop
def hash_slices(buf, starts, lengths, seeds, out):
    """Java ``String#hashCode`` of ASCII slices, each continued from its seed; length -1: none."""
    for row in range(starts.shape[0]):
        value = np.uint32(seeds[row])
        at = starts[row]
        stop = at + max(lengths[row], 0)
        # Four bytes for one step of the chain of multiplications, which is the slowest part.
        while at + 4 <= stop:
            value = (
                value * np.uint32(923521)
                + np.uint32(buf[at]) * np.uint32(29791)
                + np.uint32(buf[at + 1]) * np.uint32(961)
                + np.uint32(buf[at + 2]) * np.uint32(31)
                + np.uint32(buf[at + 3])
            )
            at += 4
        while at < stop:
            value = value * np.uint32(31) + np.uint32(buf[at])
            at += 1
        out[row] = np.int64(np.int32(value))


@compiled_loop
def equal_slices(buf, starts, lengths, other, others, other_lengths, out):
    """Whether each slice of ``buf`` equals its slice of ``other``."""
    for row in range(starts.shape[0]):
        same = lengths[row] == other_lengths[row]
        index = 0
        while same and index < lengths[row]:
            same = buf[starts[row] + index] == other[others[row] + index]
            index += 1
        out[row] = same


@compiled_loop
def key_slices(buf, table, rows, out):
    """The words a record is indexed under: how many were written as (row, start, length).

    UNIQ_KEY first, then the words of KEYS; stops before the first row that ``out`` has no room
    for and returns (words, rows done).
    """
    room = out.shape[1]
    count = 0
    for number in range(rows.shape[0]):
        row = rows[number]
        before = count
        if table[UNIQ_KEY_LENGTH, row] > 0:
            if count >= room:
                return before, number
            out[0, count] = row
            out[1, count] = table[UNIQ_KEY_AT, row]
            out[2, count] = table[UNIQ_KEY_LENGTH, row]
            count += 1
        start = table[KEYS_AT, row]
        stop = start + max(table[KEYS_LENGTH, row], 0)
        at = start
        while at <= stop and stop > start:
            if at == stop or buf[at] == 32:
                if at > start:
                    if count >= room:
                        return before, number
                    out[0, count] = row
                    out[1, count] = start
                    out[2, count] = at - start
                    count += 1
                start = at + 1
            at += 1
    return count, rows.shape[0]


@compiled_loop
def read_entries(buf, start, hashes, physical, seconds, previous):
    """Store the fields of consecutive index entries from ``start`` on in one array each."""
    at = start
    for row in range(hashes.shape[0]):
        hashes[row] = _i32(buf, at)
        physical[row] = _i64(buf, at + 4)
        seconds[row] = _i32(buf, at + 12)
        previous[row] = _i32(buf, at + 16)
        at += 20


@compiled_loop
def chain_faults(hashes, previous, slots, newest, faults):
    """Entries of an IndexFile whose link is not the next older entry of their slot.

    ``newest`` (zeros, one per slot) becomes the newest entry of each slot; (place, right link) of
    faulty entries go to ``faults`` (2 x room). Returns how many there are. Only 0 ends a chain:
    readers take any link out of range for an end, but no broker writes one.
    """
    found = 0
    room = faults.shape[1]
    for place in range(hashes.shape[0]):
        slot = hashes[place] % slots
        expected = newest[slot]
        newest[slot] = place + 1
        link = previous[place]
        if link != expected:
            if found < room:
                faults[0, found] = place
                faults[1, found] = expected
            found += 1
    return found


@inlined_loop
def _put32(buf, at, value):
    number = np.uint32(value)
    buf[at] = np.uint8(number >> np.uint32(24))
    buf[at + 1] = np.uint8(number >> np.uint32(16) & np.uint32(0xFF))
    buf[at + 2] = np.uint8(number >> np.uint32(8) & np.uint32(0xFF))
    buf[at + 3] = np.uint8(number & np.uint32(0xFF))


@compiled_loop
def put_entries(buf, shape, header, entries):
    """Add index entries (hash, physical offset, storeTimestamp; one a column) to one file.

    ``buf`` is the file, writable; ``shape`` its slots and entries; ``header`` (begin and end
    timestamp, begin and end physical offset, used slots, number of the next entry) is updated.
    Returns the number of entries that fitted, -1 if ``buf`` is shorter. Same bytes as
    ``IndexFile.put_keys``.
    """
    slots, most = shape[0], shape[1]
    entries_at = 40 + 4 * slots
    count = header[5]
    if slots < 1 or count < 0 or entries_at + 20 * most > buf.shape[0]:
        return -1
    taken = 0
    while taken < entries.shape[1] and count < most:
        hashed, physical, stored = entries[0, taken], entries[1, taken], entries[2, taken]
        begin = header[0]
        seconds = np.int64(0)
        if begin > 0 and begin <= stored:
            seconds = min((stored - begin) // 1000, np.int64(0x7FFFFFFF))
        slot_at = 40 + hashed % slots * 4
        previous = _i32(buf, slot_at)
        if previous <= 0 or previous >= count:
            previous = np.int64(0)
            header[4] += 1
        at = entries_at + count * 20
        _put32(buf, at, hashed)
        _put32(buf, at + 4, physical >> 32)
        _put32(buf, at + 8, physical & 0xFFFFFFFF)
        _put32(buf, at + 12, seconds)
        _put32(buf, at + 16, previous)
        _put32(buf, slot_at, count)
        if count <= 1:
            header[0] = stored
            header[2] = physical
        header[1] = stored
        header[3] = physical
        count += 1
        taken += 1
    header[5] = count
    return taken
