"""The compiled loop `replies`: from appended rows to encoded responses (extra ``fast``).

It writes to arrays of Python only, each write after a comparison with the length of its array.
"""

import numpy as np
from numba import njit

from broker.store.ingest.columns import (
    OPAQUE,
    PHYSICAL_OFFSET,
    PLACE,
    QUEUE_ID,
    QUEUE_OFFSET,
    REPLY_END,
    UNIQ_KEY_AT,
    UNIQ_KEY_LENGTH,
)

_MINUS, _ZERO = 45, 48


@njit(cache=True, nogil=True, inline="always")
def _put16(out, at, value):
    out[at] = np.uint8(value >> 8 & 0xFF)
    out[at + 1] = np.uint8(value & 0xFF)


@njit(cache=True, nogil=True, inline="always")
def _put32(out, at, value):
    _put16(out, at, value >> 16)
    _put16(out, at + 2, value)


@njit(cache=True, nogil=True)
def _copy(out, at, data, start, length):
    """Copy bytes; the caller has compared both ranges with the lengths of the arrays."""
    target = out[at : at + length]
    source = data[start : start + length]
    for index in range(length):
        target[index] = source[index]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _put_hex(out, at, value):
    """Write sixteen hexadecimal digits in upper case; return the position after them."""
    for index in range(16):
        digit = value >> (60 - 4 * index) & 15
        out[at + index] = np.uint8(_ZERO + digit if digit < 10 else 55 + digit)
    return at + 16


@njit(cache=True, nogil=True)
def _put_piece(out, at, pieces, ends, number):
    start = ends[number - 1] if number else np.int64(0)
    _copy(out, at, pieces, start, ends[number] - start)
    return at + ends[number] - start


@njit(cache=True, nogil=True)
def replies(text, rows, places, pieces, ends, out):
    """Write the responses to ``rows`` into ``out``; return the number that fitted.

    ``pieces`` is the constant text of a response header, ``ends`` the ends of the parts before
    physical offset, queue id, queue offset, UNIQ_KEY, opaque, and of the last one. REPLY_END
    becomes the end of each response.
    """
    at = np.int64(0)
    for number in range(rows.shape[0]):
        row = rows[number]
        # 8 bytes of lengths, 16 digits, and at most 20 characters for each of three numbers.
        most = 84 + ends[5] + row[UNIQ_KEY_LENGTH]
        if at + most > out.shape[0]:
            return number
        start = at
        at = _put_piece(out, at + 8, pieces, ends, 0)
        at = _put_hex(out, at, row[PHYSICAL_OFFSET])
        at = _put_piece(out, at, pieces, ends, 1)
        at = _put_decimal(out, at, places[row[PLACE], QUEUE_ID])
        at = _put_piece(out, at, pieces, ends, 2)
        at = _put_decimal(out, at, row[QUEUE_OFFSET])
        at = _put_piece(out, at, pieces, ends, 3)
        _copy(out, at, text, row[UNIQ_KEY_AT], row[UNIQ_KEY_LENGTH])
        at = _put_piece(out, at + row[UNIQ_KEY_LENGTH], pieces, ends, 4)
        at = _put_decimal(out, at, row[OPAQUE])
        at = _put_piece(out, at, pieces, ends, 5)
        _put32(out, start, at - start - 4)
        _put32(out, start + 4, at - start - 8)
        row[REPLY_END] = at
    return rows.shape[0]
