"""The compiled loop `replies`: from appended rows to encoded responses (extra ``fast``).

It writes to arrays of Python only, each write after a comparison with the length of its array.
"""

import numpy as np

from broker.machine_code.compiled_loop import compiled_loop
from broker.store.ingest import columns as col
from broker.store.ingest.octets import copy, put32

_MINUS, _ZERO, _COMMA = 45, 48, 44


@compiled_loop
def _put_decimal(out, at, value):
    """Write a decimal number of at most 20 characters; return the position after it."""
    if value < 0:
        out[at] = _MINUS
        at += 1
        value = -value
    digits = 1
    rest = value // 10
    while rest > 0:
        digits += 1
        rest //= 10
    for index in range(digits):
        out[at + digits - 1 - index] = np.uint8(_ZERO + value % 10)
        value //= 10
    return at + digits


@compiled_loop
def _put_hex(out, at, value):
    """Write sixteen hexadecimal digits in upper case; return the position after them."""
    for index in range(16):
        digit = value >> (60 - 4 * index) & 15
        out[at + index] = np.uint8(_ZERO + digit if digit < 10 else 55 + digit)
    return at + 16


@compiled_loop
def _put_piece(out, at, pieces, ends, number):
    start = ends[number - 1] if number else np.int64(0)
    copy(out, at, pieces, start, ends[number] - start)
    return at + ends[number] - start


@compiled_loop
def _put_ids(out, at, rows, pieces, prefix):
    """Write the ids of the messages of a frame, from the hexadecimal digits of the first one on.

    ``prefix`` is the part of ``pieces`` that each id starts with. Returns the position after them.
    """
    at = _put_hex(out, at, rows[0, col.PHYSICAL_OFFSET])
    for number in range(1, rows.shape[0]):
        out[at] = _COMMA
        copy(out, at + 1, pieces, prefix[0], prefix[1] - prefix[0])
        at = _put_hex(out, at + 1 + prefix[1] - prefix[0], rows[number, col.PHYSICAL_OFFSET])
    return at


@compiled_loop
def replies(text, rows, segments, places, pieces, ends, out):
    """Write one response per frame of ``rows`` into ``out``; return the rows whose one fitted.

    REPLY_END of a segment becomes the position after its last response, 0 without one.

    ``pieces`` is the constant text of a response header, ``ends`` the ends of the parts before
    physical offset, queue id, queue offset, UNIQ_KEY, opaque, and of the last one, then the start
    of the store host's digits, with which the first part ends.
    """
    at = np.int64(0)
    number = 0
    prefix = (ends[6], ends[0])
    segments[:, col.REPLY_END] = 0
    while number < rows.shape[0]:
        row = rows[number]
        after = number + 1 + row[col.MORE]
        # 8 bytes of lengths, 16 digits, and at most 20 characters for each of three numbers.
        most = 84 + ends[5] + row[col.REPLY_KEY_LENGTH] + row[col.MORE] * (17 + ends[0] - ends[6])
        if at + most > out.shape[0]:
            break
        start = at
        at = _put_piece(out, at + 8, pieces, ends, 0)
        at = _put_ids(out, at, rows[number:after], pieces, prefix)
        at = _put_piece(out, at, pieces, ends, 1)
        at = _put_decimal(out, at, places[row[col.PLACE], col.QUEUE_ID])
        at = _put_piece(out, at, pieces, ends, 2)
        at = _put_decimal(out, at, row[col.QUEUE_OFFSET])
        at = _put_piece(out, at, pieces, ends, 3)
        copy(out, at, text, row[col.REPLY_KEY_AT], row[col.REPLY_KEY_LENGTH])
        at = _put_piece(out, at + row[col.REPLY_KEY_LENGTH], pieces, ends, 4)
        at = _put_decimal(out, at, row[col.OPAQUE])
        at = _put_piece(out, at, pieces, ends, 5)
        put32(out, start, at - start - 4)
        put32(out, start + 4, at - start - 8)
        segments[row[col.SEGMENT], col.REPLY_END] = at
        number = after
    return number
