"""The compiled loop `scan`: from received bytes to rows of ordinary sends (extra ``fast``).

It accepts only frames that pass every check of an ordinary send; any other ends the segment of its
connection, and the plain path decides about it. Texts of headers must be ASCII. Every write is
preceded by a comparison with the length of its array, and all arrays belong to Python.
"""

import numpy as np

from broker.common import sysflag
from broker.machine_code.compiled_loop import compiled_loop
from broker.remoting.protocol.codes import RequestCode
from broker.server.ingest import fields
from broker.server.ingest.fields import field_number, name_table
from broker.server.ingest.scanning.batches import batch_rows
from broker.server.ingest.scanning.properties import check_properties, complete
from broker.store.ingest import columns as col
from broker.store.ingest.octets import copy, equal, i32, is_ascii, u16, u32

_SEND, _SEND_V2 = RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2
_SEND_BATCH = RequestCode.SEND_BATCH_MESSAGE
_TOPIC, _QUEUE, _PROPERTIES, _BATCH = map(
    field_number, ("topic", "queue_id", "properties", "batch")
)
_FLAG, _SYS, _BORN, _RECONSUME = map(
    field_number, ("flag", "sys_flag", "born_timestamp", "reconsume_times")
)
_SHORT, _SHORT_LENGTHS = name_table(fields.SHORT_NAMES)
_LONG, _LONG_LENGTHS = name_table(fields.LONG_NAMES)

_CODE, _COMMAND_FLAG, _OPAQUE, _VERSION, _LANGUAGE, _SERIALIZE_TYPE, _EXT = range(7)
_ESCAPES, _HEX = fields.JSON_ESCAPES, fields.HEX_DIGITS
_MEMBERS, _MEMBER_LENGTHS = name_table(fields.JSON_MEMBERS)
_FALSE = np.frombuffer(b"false", dtype=np.uint8)
_TRUE = np.frombuffer(b"true", dtype=np.uint8)
_QUOTE, _BACKSLASH, _COMMA, _COLON, _OPENING, _CLOSING = 34, 92, 44, 58, 123, 125
_MINUS, _ZERO, _NINE, _LETTER_U = 45, 48, 57, 117
_INT32_MAX = 0x7FFFFFFF
_MAX_DIGITS = 18
_FIXED_HEADER = 21  # of the ROCKETMQ form without remark, up to the first ext field
_REFUSED_FLAGS = sysflag.TRANSACTION_MASK | sysflag.INNER_BATCH


@compiled_loop
def _find(data, at, length, table, lengths):
    """Row of the table that equals ``data[at:at+length]``, -1 if none does."""
    for row in range(lengths.shape[0]):
        if lengths[row] == length and length > 0 and equal(data, at, table[row], length):
            return row
    return -1


@compiled_loop
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


@compiled_loop
def _integer(data, at, stop):
    """Integer of up to 18 digits and the position after it, which is ``at`` if there is none."""
    negative = at < stop and data[at] == _MINUS
    first = at + 1 if negative else at
    after = first
    value = np.int64(0)
    while after < stop and after - first < _MAX_DIGITS and _ZERO <= data[after] <= _NINE:
        value = value * 10 + np.int64(data[after]) - _ZERO
        after += 1
    return -value if negative else value, after if after > first else at


@compiled_loop
def _name_end(data, at, stop):
    """End of the JSON name that starts at ``at``, -1 if it is unusual or has no value."""
    if at >= stop or data[at] != _QUOTE:
        return -1
    end, escaped = _string(data, at + 1, stop)
    usual = end >= 0 and not escaped and end + 2 < stop and data[end + 1] == _COLON
    return end if usual else -1


@compiled_loop
def _number(data, at, stop):
    """Value of a JSON integer of 32 bits and the position after it, which is -1 if unusual."""
    value, after = _integer(data, at, stop)
    if after == at or abs(value) > _INT32_MAX:
        return value, -1
    first = at + 1 if data[at] == _MINUS else at
    usual = data[first] != _ZERO or after - at == 1  # neither 01 nor -0
    return value, after if usual else -1


@compiled_loop
def _note_field(data, field, code, found):
    """Note an ext field: ``field`` is name start and length, value start and length, escapes.

    False for a repeated field, and for a short name in the long form, which the plain path reads.
    """
    if code != _SEND:
        number = _find(data, field[0], field[1], _SHORT, _SHORT_LENGTHS)
    else:
        number = _find(data, field[0], field[1], _LONG, _LONG_LENGTHS)
        if number < 0 and _find(data, field[0], field[1], _SHORT, _SHORT_LENGTHS) >= 0:
            return False
    if number < 0:
        return True
    if found[number, 1] >= 0:
        return False
    found[number, 0], found[number, 1], found[number, 2] = field[2], field[3], field[4]
    return True


@compiled_loop
def _json_fields(data, at, stop, code, found):
    """Position after a JSON object of strings, whose known names are noted; -1: unusual."""
    if at + 1 >= stop or data[at] != _OPENING:
        return -1
    if data[at + 1] == _CLOSING:
        return at + 2
    while True:
        name_at = at + 2
        name_end = _name_end(data, at + 1, stop)
        if name_end < 0 or data[name_end + 2] != _QUOTE:
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


@compiled_loop
def _json_header(data, at, stop, head, found):
    """Read a JSON header without white space; False if it is unusual in any respect."""
    if at >= stop or data[at] != _OPENING:
        return False
    seen = 0
    while True:
        end = _name_end(data, at + 1, stop)
        member = _find(data, at + 2, end - at - 2, _MEMBERS, _MEMBER_LENGTHS)
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
        else:
            at = _string(data, at + 1, stop)[0] + 1 if data[at] == _QUOTE else -1
        if at <= 0 or at >= stop:
            return False
        if data[at] == _CLOSING:
            return at + 1 == stop
        if data[at] != _COMMA:
            return False


@compiled_loop
def _binary_header(data, at, stop, head, found):
    """Read a ROCKETMQ header without remark; False if it is unusual in any respect."""
    fits = at + _FIXED_HEADER <= stop and at + _FIXED_HEADER + u32(data, at + 17) == stop
    if not fits or u32(data, at + 13) != 0:
        return False
    head[_CODE] = code = u16(data, at)
    head[_OPAQUE] = i32(data, at + 5)
    head[_COMMAND_FLAG] = i32(data, at + 9)
    at += _FIXED_HEADER
    while at < stop:
        name_at = at + 2
        name_end = name_at + u16(data, at) if name_at <= stop else stop
        if name_end + 4 > stop:
            return False
        value_at = name_end + 4
        at = value_at + u32(data, name_end)
        if at > stop:
            return False
        if not (is_ascii(data, name_at, name_end) and is_ascii(data, value_at, at)):
            return False
        # Java reads empty text as null.
        if at > value_at:
            field = (name_at, name_end - name_at, value_at, at - value_at, np.int64(0))
            if not _note_field(data, field, code, found):
                return False
    return True


# --- an ordinary send ----------------------------------------------------------------------------


@compiled_loop
def _field_number(data, found, field, limit):
    """Integer of a header field and whether it is usual: 1 to 18 digits, at most ``limit``."""
    if found[field, 1] < 1 or found[field, 2]:
        return np.int64(0), False
    stop = found[field, 0] + found[field, 1]
    value, after = _integer(data, found[field, 0], stop)
    return value, after == stop and abs(value) <= limit  # -2^31 is left to the plain path


@compiled_loop
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


@compiled_loop
def _header_properties(data, found, text, text_at, row):
    """Write the properties of a header into ``text``, checked; return their end, -1: unusual.

    Their UNIQ_KEY is that of the response. The caller has ensured the space.
    """
    if found[_PROPERTIES, 1] < 1:
        return np.int64(-1)
    at = found[_PROPERTIES, 0]
    length = found[_PROPERTIES, 1]
    if found[_PROPERTIES, 2]:
        end = _unescape(data, at, length, text, text_at)
    else:
        copy(text, text_at, data, at, length)
        end = text_at + length
    if not check_properties(text, text_at, end, row):
        return np.int64(-1)
    row[col.REPLY_KEY_AT] = row[col.UNIQ_KEY_AT]
    row[col.REPLY_KEY_LENGTH] = row[col.UNIQ_KEY_LENGTH]
    return np.int64(end)


@compiled_loop
def _is_send(data, head, found):
    """Whether a header is that of a send with a response, and whether of a batch."""
    code = head[_CODE]
    known = code in (_SEND, _SEND_V2, _SEND_BATCH)
    if not known or head[_COMMAND_FLAG] != 0 or found[_TOPIC, 1] < 1 or found[_TOPIC, 2]:
        return False, False
    length = found[_BATCH, 1]
    if code == _SEND_BATCH or (length == 4 and equal(data, found[_BATCH, 0], _TRUE, 4)):
        return True, True
    return length < 0 or (length == 5 and equal(data, found[_BATCH, 0], _FALSE, 5)), False


@compiled_loop
def _numbers(data, found, row):
    """Write the numbers of a header into a row; return the queue id, -1: a number is unusual."""
    row[col.FLAG], usual = _field_number(data, found, _FLAG, _INT32_MAX)
    row[col.SYS_FLAG], also = _field_number(data, found, _SYS, _INT32_MAX)
    usual &= also and row[col.SYS_FLAG] & _REFUSED_FLAGS == 0
    row[col.BORN_TIMESTAMP], also = _field_number(data, found, _BORN, np.int64(1) << 62)
    usual &= also
    row[col.RECONSUME_TIMES] = 0
    if found[_RECONSUME, 1] > 0:
        row[col.RECONSUME_TIMES], also = _field_number(data, found, _RECONSUME, _INT32_MAX)
        usual &= also
    queue_id, also = _field_number(data, found, _QUEUE, _INT32_MAX)
    return queue_id if usual and also and queue_id >= 0 else np.int64(-1)


@compiled_loop
def _place(data, at, length, queue_id, places, used):
    """Row of a topic's queue in ``places``, a new one if needed; -1 if the table is full."""
    for number in range(used):
        place = places[number]
        if place[col.QUEUE_ID] != queue_id or place[col.TOPIC_LENGTH] != length:
            continue
        if equal(data, place[col.TOPIC_AT], data[at : at + length], length):
            return number
    if used == places.shape[0]:
        return -1
    places[used, col.TOPIC_AT], places[used, col.TOPIC_LENGTH] = at, length
    places[used, col.QUEUE_ID], places[used, col.COUNT] = queue_id, 0
    return used


@compiled_loop
def _take_frame(data, at, stop, limits, suffix, text, text_at, rows, count, places, used, work):
    """Read the frame at ``at`` into rows from ``count`` on: (rows, end of their texts).

    ``stop`` is the end of the received bytes, ``work`` has ``head`` and ``found``. Without a row,
    the second number is the reason.
    """
    head, found = work
    if stop - at < 8:
        return 0, col.NO_FRAME
    length = u32(data, at)
    word = u32(data, at + 4)
    header_size = word & 0xFFFFFF
    body = at + 8 + header_size
    end = at + 4 + length
    malformed = length + 4 > limits[fields.FRAME_LIMIT] or length < 4 or word >> 24 > 1
    if (
        malformed
        or header_size > limits[fields.HEADER_LIMIT]
        or not 0 < end - body <= limits[fields.BODY_LIMIT]
    ):
        return 0, col.LEFT_FRAME
    if end > stop:
        return 0, col.NO_FRAME
    if text_at + header_size + suffix.shape[0] + 1 > text.shape[0]:
        return 0, col.FULL
    head[:] = 0
    found[:, 1] = -1
    if word >> 24:
        usual = _binary_header(data, at + 8, body, head, found)
    else:
        usual = _json_header(data, at + 8, body, head, found)
    send, is_batch = _is_send(data, head, found)
    row = rows[count]
    queue_id = _numbers(data, found, row) if usual and send else -1
    text_end = _header_properties(data, found, text, text_at, row) if queue_id >= 0 else -1
    if text_end < 0:
        return 0, col.LEFT_FRAME
    place = _place(data, found[_TOPIC, 0], found[_TOPIC, 1], queue_id, places, used)
    if place < 0:
        return 0, col.FULL
    row[col.FRAME_END] = end
    row[col.OPAQUE] = head[_OPAQUE]
    row[col.PLACE] = place
    if is_batch:
        header_text = (text_at, text_end)
        return batch_rows(data, body, end, limits, suffix, text, header_text, rows, count)
    row[col.MORE] = 0
    row[col.BODY_AT] = body
    row[col.BODY_LENGTH] = end - body
    text_end = complete(text, text_at, text_end, limits, suffix, row)
    if text_end < 0:
        return 0, col.LEFT_FRAME
    return 1, text_end


@compiled_loop
def scan(data, segments, limits, suffix, text, rows, places):
    """Rows of the ordinary sends of all segments, segment by segment: (rows, places).

    ``text`` receives the properties of each message with ``suffix``, those of the broker. A segment
    ends after its last whole frame or at the first one that is not ordinary; where a table is full,
    that segment and all after it are FULL.
    """
    found = np.empty((fields.FIELD_COUNT, 3), dtype=np.int64)
    work = (np.empty(_LANGUAGE, dtype=np.int64), found)
    segments[:, col.STOP] = col.FULL
    count = 0
    used = 0
    text_at = np.int64(0)
    for number in range(segments.shape[0]):
        at = segments[number, col.SEGMENT_AT]
        stop = min(segments[number, col.SEGMENT_END], np.int64(data.shape[0]))
        while True:
            if count == rows.shape[0]:
                return count, used
            rows[count, col.SEGMENT] = number
            messages, end = _take_frame(
                data, at, stop, limits, suffix, text, text_at, rows, count, places, used, work
            )
            if not messages:
                break
            place = rows[count, col.PLACE]
            used = max(used, place + 1)
            places[place, col.COUNT] += messages
            text_at = end
            at = rows[count, col.FRAME_END]
            count += messages
        if end == col.FULL:
            return count, used
        segments[number, col.STOP] = end
    return count, used
