"""The compiled loop `scan`: from received bytes to rows of ordinary sends (extra ``fast``).

It accepts only frames that pass every check of an ordinary send; any other ends the segment of its
connection, and the plain path decides about it. Texts of headers must be ASCII. Every write is
preceded by a comparison with the length of its array, and all arrays belong to Python.

Machine code is cached (numba ``cache``), see :mod:`broker.server.ingest.loader`.
"""

import numpy as np
from numba import njit

from broker.common import sysflag
from broker.remoting.protocol.codes import RequestCode
from broker.server.ingest.fields import (
    BODY_LIMIT,
    FIELD_COUNT,
    FRAME_LIMIT,
    HEADER_LIMIT,
    LONG_NAMES,
    MULTI_DISPATCH,
    PROPERTIES_LIMIT,
    SHORT_NAMES,
    SPECIAL_NAMES,
    TIMER_START,
    field_number,
    name_table,
)
from broker.store.ingest.columns import (
    BODY_AT,
    BODY_LENGTH,
    BORN_TIMESTAMP,
    COUNT,
    FLAG,
    FRAME_END,
    FULL,
    KEYS_AT,
    KEYS_LENGTH,
    LEFT_FRAME,
    NO_FRAME,
    OPAQUE,
    PLACE,
    PROPERTIES_AT,
    PROPERTIES_LENGTH,
    QUEUE_ID,
    RECONSUME_TIMES,
    SEGMENT,
    SEGMENT_AT,
    SEGMENT_END,
    STOP,
    SYS_FLAG,
    TAGS_AT,
    TAGS_LENGTH,
    TOPIC_AT,
    TOPIC_LENGTH,
    UNIQ_KEY_AT,
    UNIQ_KEY_LENGTH,
)

_SEND = RequestCode.SEND_MESSAGE
_SEND_V2 = RequestCode.SEND_MESSAGE_V2
_TOPIC = field_number("topic")
_QUEUE = field_number("queue_id")
_SYS = field_number("sys_flag")
_BORN = field_number("born_timestamp")
_FLAG = field_number("flag")
_PROPERTIES = field_number("properties")
_RECONSUME = field_number("reconsume_times")
_BATCH = field_number("batch")
_SHORT, _SHORT_LENGTHS = name_table(SHORT_NAMES)
_LONG, _LONG_LENGTHS = name_table(LONG_NAMES)

# Members of a JSON header: the first four are numbers, the rest strings, the last the ext fields.
_CODE, _COMMAND_FLAG, _OPAQUE, _VERSION, _LANGUAGE, _SERIALIZE_TYPE, _EXT = range(7)
_MEMBERS, _MEMBER_LENGTHS = name_table(
    (b"code", b"flag", b"opaque", b"version", b"language", b"serializeTypeCurrentRPC", b"extFields")
)
_SPECIAL, _SPECIAL_LENGTHS = name_table(SPECIAL_NAMES)
_NAMED, _NAMED_LENGTHS = name_table((b"UNIQ_KEY", b"TAGS", b"KEYS", b"WAIT"))
_FALSE = np.frombuffer(b"false", dtype=np.uint8)
_TIMER = np.frombuffer(TIMER_START, dtype=np.uint8)
_LIGHT = np.frombuffer(MULTI_DISPATCH, dtype=np.uint8)
_ESCAPES = np.zeros(256, dtype=np.uint8)
for _letter, _byte in (
    *zip(b'"\\/', b'"\\/', strict=True),
    *zip(b"bfnrt", b"\b\f\n\r\t", strict=True),
):
    _ESCAPES[_letter] = _byte
_HEX = np.full(256, 255, dtype=np.uint8)
for _digit, _byte in enumerate(b"0123456789abcdef"):
    _HEX[_byte] = _digit
for _digit, _byte in enumerate(b"ABCDEF"):
    _HEX[_byte] = 10 + _digit

_QUOTE, _BACKSLASH, _COMMA, _COLON, _OPENING, _CLOSING = 34, 92, 44, 58, 123, 125
_MINUS, _ZERO, _NINE, _LETTER_U, _LETTER_T, _LETTER_I = 45, 48, 57, 117, 84, 73
_INT32_MAX = 0x7FFFFFFF
_MAX_DIGITS = 18
_FIXED_HEADER = 21  # of the ROCKETMQ form without remark, up to the first ext field
_REFUSED_FLAGS = sysflag.TRANSACTION_MASK | sysflag.INNER_BATCH


@njit(cache=True, nogil=True, inline="always")
def _u32(data, at):
    return (
        np.int64(data[at]) << 24
        | np.int64(data[at + 1]) << 16
        | np.int64(data[at + 2]) << 8
        | np.int64(data[at + 3])
    )


@njit(cache=True, nogil=True, inline="always")
def _i32(data, at):
    value = _u32(data, at)
    return value - (1 << 32) if value > _INT32_MAX else value


@njit(cache=True, nogil=True)
def _copy(out, at, data, start, length):
    """Copy bytes; the caller has compared both ranges with the lengths of the arrays."""
    target = out[at : at + length]
    source = data[start : start + length]
    for index in range(length):
        target[index] = source[index]


@njit(cache=True, nogil=True, inline="always")
def _equal(data, at, name, length):
    for index in range(length):
        if data[at + index] != name[index]:
            return False
    return True


@njit(cache=True, nogil=True)
def _find(data, at, length, table, lengths):
    """Row of the table that equals ``data[at:at+length]``, -1 if none does."""
    for row in range(lengths.shape[0]):
        if lengths[row] == length and length > 0 and _equal(data, at, table[row], length):
            return row
    return -1


@njit(cache=True, nogil=True)
def _string(data, at, stop):
    """End of a JSON string whose text starts at ``at``, and whether it has escapes; -1: unusual."""
    escaped = False
    while at < stop:
        byte = data[at]
        if byte == _QUOTE:
            return at, escaped
        if byte < 32 or byte >= 128:
            break
        if byte == _BACKSLASH:
            escaped = True
            at += 1
            if at >= stop:
                break
            if data[at] == _LETTER_U:
                if at + 4 >= stop or data[at + 1] != _ZERO or data[at + 2] != _ZERO:
                    break
                if _HEX[data[at + 3]] >= 8 or _HEX[data[at + 4]] > 15:
                    break
                at += 4
            elif _ESCAPES[data[at]] == 0:
                break
        at += 1
    return -1, escaped


@njit(cache=True, nogil=True)
def _number(data, at, stop):
    """Value of a JSON integer of 32 bits and the position after it, which is -1 if unusual."""
    negative = at < stop and data[at] == _MINUS
    if negative:
        at += 1
    first = at
    value = np.int64(0)
    while at < stop and at - first < 11 and _ZERO <= data[at] <= _NINE:
        value = value * 10 + np.int64(data[at]) - _ZERO
        at += 1
    if at == first or (data[first] == _ZERO and (at > first + 1 or negative)):
        return value, -1
    if value > _INT32_MAX:
        return value, -1
    return -value if negative else value, at


@njit(cache=True, nogil=True)
def _note_field(data, field, code, found):
    """Note an ext field: ``field`` is name start and length, value start and length, escapes.

    False for a repeated field, and for a short name in the long form, which the plain path reads.
    """
    if code == _SEND_V2:
        number = _find(data, field[0], field[1], _SHORT, _SHORT_LENGTHS)
    else:
        number = _find(data, field[0], field[1], _LONG, _LONG_LENGTHS)
        if number < 0 and _find(data, field[0], field[1], _SHORT, _SHORT_LENGTHS) >= 0:
            return False
    if number < 0:
        return True
    if found[number, 1] >= 0:
        return False
    found[number, 0] = field[2]
    found[number, 1] = field[3]
    found[number, 2] = field[4]
    return True


@njit(cache=True, nogil=True)
def _json_fields(data, at, stop, code, found):
    """Position after a JSON object of strings, whose known names are noted; -1: unusual."""
    if at + 1 >= stop or data[at] != _OPENING:
        return -1
    if data[at + 1] == _CLOSING:
        return at + 2
    while True:
        at += 1
        if at >= stop or data[at] != _QUOTE:
            return -1
        name_at = at + 1
        name_end, escaped = _string(data, name_at, stop)
        if name_end < 0 or escaped or name_end + 2 >= stop:
            return -1
        if data[name_end + 1] != _COLON or data[name_end + 2] != _QUOTE:
            return -1
        value_at = name_end + 3
        end, escaped = _string(data, value_at, stop)
        if end < 0 or end + 1 >= stop:
            return -1
        field = (name_at, name_end - name_at, value_at, end - value_at, np.int64(escaped))
        if not _note_field(data, field, code, found):
            return -1
        at = end + 1
        if data[at] == _CLOSING:
            return at + 1
        if data[at] != _COMMA:
            return -1


@njit(cache=True, nogil=True)
def _json_header(data, at, stop, head, found):
    """Read a JSON header without white space; False if it is unusual in any respect."""
    if at >= stop or data[at] != _OPENING:
        return False
    seen = 0
    while True:
        at += 1
        if at >= stop or data[at] != _QUOTE:
            return False
        end, escaped = _string(data, at + 1, stop)
        if end < 0 or escaped or end + 2 >= stop or data[end + 1] != _COLON:
            return False
        member = _find(data, at + 1, end - at - 1, _MEMBERS, _MEMBER_LENGTHS)
        if member < 0 or seen >> member & 1:
            return False
        seen |= 1 << member
        at = end + 2
        if member <= _VERSION:
            head[member], at = _number(data, at, stop)
        elif member == _EXT:
            # Which names count depends on the code; all clients send it first.
            if not seen >> _CODE & 1:
                return False
            at = _json_fields(data, at, stop, head[_CODE], found)
        elif data[at] != _QUOTE:
            return False
        else:
            at, escaped = _string(data, at + 1, stop)
            if at >= 0:
                at += 1
        if at < 0 or at >= stop:
            return False
        if data[at] == _CLOSING:
            return at + 1 == stop
        if data[at] != _COMMA:
            return False


@njit(cache=True, nogil=True)
def _is_ascii(data, at, stop):
    high = np.uint8(0)
    for position in range(at, stop):
        high |= data[position]
    return high < 128


@njit(cache=True, nogil=True)
def _binary_header(data, at, stop, head, found):
    """Read a ROCKETMQ header without remark; False if it is unusual in any respect."""
    if at + _FIXED_HEADER > stop or _u32(data, at + 13) != 0:
        return False
    if at + _FIXED_HEADER + _u32(data, at + 17) != stop:
        return False
    code = np.int64(data[at]) << 8 | np.int64(data[at + 1])
    head[_CODE] = code
    head[_OPAQUE] = _i32(data, at + 5)
    head[_COMMAND_FLAG] = _i32(data, at + 9)
    at += _FIXED_HEADER
    while at < stop:
        if at + 2 > stop:
            return False
        name_at = at + 2
        name_end = name_at + (np.int64(data[at]) << 8 | np.int64(data[at + 1]))
        if name_end + 4 > stop:
            return False
        value_at = name_end + 4
        at = value_at + _u32(data, name_end)
        if at > stop or not _is_ascii(data, name_at, name_end):
            return False
        if not _is_ascii(data, value_at, at):
            return False
        # Java reads empty text as null.
        if at > value_at:
            field = (name_at, name_end - name_at, value_at, at - value_at, np.int64(0))
            if not _note_field(data, field, code, found):
                return False
    return True


# --- an ordinary send ----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _field_number(data, found, field, limit):
    """Integer of a header field and whether it is usual: 1 to 18 digits, at most ``limit``."""
    at = found[field, 0]
    stop = at + found[field, 1]
    if found[field, 1] < 1 or found[field, 2]:
        return np.int64(0), False
    negative = data[at] == _MINUS
    if negative:
        at += 1
    if at == stop or stop - at > _MAX_DIGITS:
        return np.int64(0), False
    value = np.int64(0)
    for position in range(at, stop):
        if not _ZERO <= data[position] <= _NINE:
            return value, False
        value = value * 10 + np.int64(data[position]) - _ZERO
    return -value if negative else value, value <= limit  # -2^31 is left to the plain path


@njit(cache=True, nogil=True)
def _unescape(data, at, length, text, text_at):
    """Copy the text of a checked JSON string without its escapes; return the end in ``text``.

    The text is never longer than the string, for which the caller has ensured the space.
    """
    stop = at + length
    while at < stop:
        byte = data[at]
        if byte == _BACKSLASH:
            at += 1
            if data[at] == _LETTER_U:
                byte = np.uint8(_HEX[data[at + 3]] << 4 | _HEX[data[at + 4]])
                at += 4
            else:
                byte = _ESCAPES[data[at]]
        text[text_at] = byte
        text_at += 1
        at += 1
    return text_at


@njit(cache=True, nogil=True)
def _property(text, start, mark, stop, row):
    """Check one property, ``start`` to ``stop`` with the separator of its value at ``mark``.

    False if it may have a meaning for the broker, or is a repeated name that `append` needs.
    """
    length = mark - start
    for number in range(_SPECIAL_LENGTHS.shape[0]):
        least = _SPECIAL_LENGTHS[number]
        if length >= least and _equal(text, mark - least, _SPECIAL[number], least):
            return False
    for number in range(_NAMED_LENGTHS.shape[0]):
        least = _NAMED_LENGTHS[number]
        if length < least or not _equal(text, mark - least, _NAMED[number], least):
            continue
        if number == 3:  # WAIT, also as the end of another name: the plain path decides
            return stop - mark < 6 or not _equal(text, mark + 1, _FALSE, 5)
        if length > least:
            return number != 0
        column = UNIQ_KEY_AT if number == 0 else TAGS_AT if number == 1 else KEYS_AT
        if row[column] >= 0 or stop == mark + 1:
            return False
        row[column] = mark + 1
        row[column + 1] = stop - mark - 1
        return True
    return True


@njit(cache=True, nogil=True)
def _needs_plain_path(text, at, stop):
    """Whether a text starts here that the plain path searches for anywhere in the properties."""
    for name in (_TIMER, _LIGHT):
        if at + name.shape[0] <= stop and _equal(text, at, name, name.shape[0]):
            return True
    return False


@njit(cache=True, nogil=True)
def _properties(text, start, stop, row):
    """Check a property string and note UNIQ_KEY, TAGS and KEYS; False if it is unusual."""
    row[UNIQ_KEY_AT] = row[TAGS_AT] = row[KEYS_AT] = -1
    row[UNIQ_KEY_LENGTH] = row[TAGS_LENGTH] = row[KEYS_LENGTH] = 0
    piece = start
    mark = np.int64(-1)
    at = start
    while at <= stop:
        byte = np.uint8(2) if at == stop else text[at]
        if byte == 1:
            if mark >= 0 or at == piece:
                return False
            mark = at
        elif byte == 2:
            if at == stop and piece == stop:
                break  # the string ended with a separator
            if mark < 0 or not _property(text, piece, mark, at, row):
                return False
            piece = at + 1
            mark = np.int64(-1)
        elif byte in (_LETTER_T, _LETTER_I) and _needs_plain_path(text, at, stop):
            return False
        at += 1
    if row[UNIQ_KEY_AT] < 0:
        return False
    for position in range(row[UNIQ_KEY_AT], row[UNIQ_KEY_AT] + row[UNIQ_KEY_LENGTH]):
        byte = text[position]
        if byte < 32 or byte >= 127 or byte in (_QUOTE, _BACKSLASH):
            return False  # the response would need escapes
    return True


@njit(cache=True, nogil=True)
def _store_properties(data, found, limits, suffix, text, text_at, row):
    """Write a message's properties and the broker's into ``text``; return their end, -1: unusual.

    The caller has ensured the space for both.
    """
    if found[_PROPERTIES, 1] < 1:
        return -1
    at = found[_PROPERTIES, 0]
    length = found[_PROPERTIES, 1]
    if found[_PROPERTIES, 2]:
        end = _unescape(data, at, length, text, text_at)
    else:
        _copy(text, text_at, data, at, length)
        end = text_at + length
    if not _properties(text, text_at, end, row):
        return -1
    if text[end - 1] != 2:
        text[end] = 2
        end += 1
    _copy(text, end, suffix, 0, suffix.shape[0])
    end += suffix.shape[0]
    if end - text_at > limits[PROPERTIES_LIMIT]:
        return -1
    row[PROPERTIES_AT] = text_at
    row[PROPERTIES_LENGTH] = end - text_at
    return end


@njit(cache=True, nogil=True)
def _is_plain_send(data, head, found):
    """Whether a header is that of a single message with a response."""
    if (head[_CODE] != _SEND and head[_CODE] != _SEND_V2) or head[_COMMAND_FLAG] != 0:
        return False
    if found[_TOPIC, 1] < 1 or found[_TOPIC, 2]:
        return False
    if found[_BATCH, 1] < 0:
        return True
    return found[_BATCH, 1] == 5 and _equal(data, found[_BATCH, 0], _FALSE, 5)


@njit(cache=True, nogil=True)
def _numbers(data, found, row):
    """Write the numbers of a header into a row; return the queue id, -1: a number is unusual."""
    row[FLAG], usual = _field_number(data, found, _FLAG, _INT32_MAX)
    row[SYS_FLAG], also = _field_number(data, found, _SYS, _INT32_MAX)
    usual &= also and row[SYS_FLAG] & _REFUSED_FLAGS == 0
    row[BORN_TIMESTAMP], also = _field_number(data, found, _BORN, np.int64(1) << 62)
    usual &= also
    row[RECONSUME_TIMES] = 0
    if found[_RECONSUME, 1] > 0:
        row[RECONSUME_TIMES], also = _field_number(data, found, _RECONSUME, _INT32_MAX)
        usual &= also
    queue_id, also = _field_number(data, found, _QUEUE, _INT32_MAX)
    return queue_id if usual and also and queue_id >= 0 else np.int64(-1)


@njit(cache=True, nogil=True)
def _place(data, at, length, queue_id, places, used):
    """Row of a topic's queue in ``places``, a new one if needed; -1 if the table is full."""
    for number in range(used):
        place = places[number]
        if place[QUEUE_ID] != queue_id or place[TOPIC_LENGTH] != length:
            continue
        first = place[TOPIC_AT]
        index = 0
        while index < length and data[first + index] == data[at + index]:
            index += 1
        if index == length:
            return number
    if used == places.shape[0]:
        return -1
    places[used, TOPIC_AT] = at
    places[used, TOPIC_LENGTH] = length
    places[used, QUEUE_ID] = queue_id
    places[used, COUNT] = 0
    return used


@njit(cache=True, nogil=True)
def _take_frame(data, at, stop, limits, suffix, text, text_at, row, places, used, head, found):
    """Read the frame at ``at`` into ``row``: (end of its texts, why there is none).

    ``stop`` is the end of the received bytes, ``head`` and ``found`` are work space. The end of the
    texts is -1 if the frame was not read.
    """
    if stop - at < 8:
        return np.int64(-1), NO_FRAME
    length = _u32(data, at)
    word = _u32(data, at + 4)
    header_size = word & 0xFFFFFF
    body = at + 8 + header_size
    end = at + 4 + length
    malformed = length + 4 > limits[FRAME_LIMIT] or length < 4 or word >> 24 > 1
    if malformed or header_size > limits[HEADER_LIMIT] or not 0 < end - body <= limits[BODY_LIMIT]:
        return np.int64(-1), LEFT_FRAME
    if end > stop:
        return np.int64(-1), NO_FRAME
    if text_at + header_size + suffix.shape[0] + 1 > text.shape[0]:
        return np.int64(-1), FULL
    head[:] = 0
    found[:, 1] = -1
    if word >> 24:
        usual = _binary_header(data, at + 8, body, head, found)
    else:
        usual = _json_header(data, at + 8, body, head, found)
    if not usual or not _is_plain_send(data, head, found):
        return np.int64(-1), LEFT_FRAME
    queue_id = _numbers(data, found, row)
    if queue_id < 0:
        return np.int64(-1), LEFT_FRAME
    text_end = _store_properties(data, found, limits, suffix, text, text_at, row)
    if text_end < 0:
        return np.int64(-1), LEFT_FRAME
    place = _place(data, found[_TOPIC, 0], found[_TOPIC, 1], queue_id, places, used)
    if place < 0:
        return np.int64(-1), FULL
    row[FRAME_END] = end
    row[OPAQUE] = head[_OPAQUE]
    row[PLACE] = place
    row[BODY_AT] = body
    row[BODY_LENGTH] = end - body
    return np.int64(text_end), NO_FRAME


@njit(cache=True, nogil=True)
def scan(data, segments, limits, suffix, text, rows, places):
    """Rows of the ordinary sends of all segments, segment by segment: (rows, places).

    ``text`` receives the properties of each message with ``suffix``, those of the broker. A segment
    ends after its last whole frame or at the first one that is not ordinary; where a table is full,
    that segment and all after it are FULL.
    """
    found = np.empty((FIELD_COUNT, 3), dtype=np.int64)
    head = np.empty(_LANGUAGE, dtype=np.int64)
    for number in range(segments.shape[0]):
        segments[number, STOP] = FULL
    count = 0
    used = 0
    text_at = np.int64(0)
    for number in range(segments.shape[0]):
        at = segments[number, SEGMENT_AT]
        stop = min(segments[number, SEGMENT_END], np.int64(data.shape[0]))
        while True:
            if count == rows.shape[0]:
                return count, used
            row = rows[count]
            end, reason = _take_frame(
                data, at, stop, limits, suffix, text, text_at, row, places, used, head, found
            )
            if end < 0:
                break
            place = row[PLACE]
            used = max(used, place + 1)
            places[place, COUNT] += 1
            row[SEGMENT] = number
            text_at = end
            at = row[FRAME_END]
            count += 1
        if reason == FULL:
            return count, used
        segments[number, STOP] = reason
    return count, used
