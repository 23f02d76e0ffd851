"""The compiled loop over the messages of a batch: one row each, or none at all (extra ``fast``).

Stricter than the plain path: a message needs ASCII properties with a UNIQ_KEY, as clients send
them, and the properties of the request may only be UNIQ_KEY and WAIT, which no message inherits.

**Source:** RocketMQ MessageDecoder#decodeMessages, MessageExtEncoder#encode (batch).
"""

import numpy as np

from broker.machine_code.compiled_loop import compiled_loop
from broker.message.batch import ITEM_FIXED_SIZE, MIN_ITEM_SIZE
from broker.server.ingest.fields import BATCH_LIMIT, BODY_LIMIT
from broker.server.ingest.scanning.properties import check_properties, complete
from broker.store.ingest import columns as col
from broker.store.ingest.octets import copy, equal, i32, is_ascii, u16, u32

_UNIQ_KEY = np.frombuffer(b"UNIQ_KEY", dtype=np.uint8)
_WAIT = np.frombuffer(b"WAIT", dtype=np.uint8)


@compiled_loop
def _shares_nothing(text, start, stop):
    """Whether checked properties of a request are UNIQ_KEY and WAIT only."""
    piece = start
    for at in range(start, stop):
        if text[at] == 2:
            piece = at + 1
        elif text[at] == 1:
            is_key = at - piece == 8 and equal(text, piece, _UNIQ_KEY, 8)
            if not is_key and not (at - piece == 4 and equal(text, piece, _WAIT, 4)):
                return False
    return True


@compiled_loop
def _item(data, at, stop, limits, row):
    """Check the sizes of a message and note its flag and body; return its end, -1: unusual."""
    if stop - at < MIN_ITEM_SIZE:
        return np.int64(-1)
    variable = i32(data, at) - MIN_ITEM_SIZE
    length = i32(data, at + 16)
    if not 0 <= variable <= stop - at - MIN_ITEM_SIZE or not 0 <= length <= variable:
        return np.int64(-1)
    if u32(data, at + 4) or u32(data, at + 8) or length > limits[BODY_LIMIT]:
        return np.int64(-1)
    body = at + ITEM_FIXED_SIZE
    if u16(data, body + length) != variable - length:
        return np.int64(-1)
    row[col.FLAG] = i32(data, at + 12)
    row[col.BODY_AT] = body
    row[col.BODY_LENGTH] = length
    return at + MIN_ITEM_SIZE + variable


@compiled_loop
def _texts(data, start, stop, limits, suffix, text, text_at, row):
    """Write a message's properties and the broker's into ``text``; return their end, -1: unusual.

    The caller has ensured the space.
    """
    if not is_ascii(data, start, stop):
        return np.int64(-1)
    copy(text, text_at, data, start, stop - start)
    end = text_at + stop - start
    if not check_properties(text, text_at, end, row):
        return np.int64(-1)
    return complete(text, text_at, end, limits, suffix, row)


@compiled_loop
def batch_rows(data, at, stop, limits, suffix, text, header_text, rows, first):
    """Rows of a batch body, ``at`` to ``stop``, from row ``first`` on: (rows, end of their texts).

    Row ``first`` has the columns that all share; ``header_text`` is start and end of the request's
    properties in ``text``. Without a row, the second number is the reason, as in `scan`.
    """
    text_at = header_text[1]
    if stop - at > limits[BATCH_LIMIT] or not _shares_nothing(text, header_text[0], text_at):
        return 0, np.int64(col.LEFT_FRAME)
    rows[first, col.RECONSUME_TIMES] = 0
    number = first
    while at < stop:
        if number == rows.shape[0]:
            return 0, np.int64(col.FULL)
        row = rows[number]
        for column in range(col.SHARED_COLUMNS):
            row[column] = rows[first, column]
        at = _item(data, at, stop, limits, row)
        if at < 0:
            return 0, np.int64(col.LEFT_FRAME)
        start = row[col.BODY_AT] + row[col.BODY_LENGTH] + 2
        if text_at + at - start + 1 + suffix.shape[0] > text.shape[0]:
            return 0, np.int64(col.FULL)
        text_at = _texts(data, start, at, limits, suffix, text, text_at, row)
        if text_at < 0:
            return 0, np.int64(col.LEFT_FRAME)
        number += 1
    for one in range(first, number):
        rows[one, col.MORE] = number - 1 - one
    return number - first, text_at
