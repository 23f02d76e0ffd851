"""Compiled checks of property strings, for all kinds of sends (extra ``fast``).

A string passes only if its properties have no meaning for the broker but UNIQ_KEY, TAGS and KEYS,
whose places it notes in the message's row.
"""

import numpy as np

from broker.machine_code.compiled_loop import compiled_loop
from broker.server.ingest import fields
from broker.server.ingest.fields import name_table
from broker.store.ingest import columns as col
from broker.store.ingest.octets import copy, equal

_SPECIAL, _SPECIAL_LENGTHS = name_table(fields.SPECIAL_NAMES)
_NAMED, _NAMED_LENGTHS = name_table((b"UNIQ_KEY", b"TAGS", b"KEYS", b"WAIT"))
_FALSE = np.frombuffer(b"false", dtype=np.uint8)
_TIMER = np.frombuffer(fields.TIMER_START, dtype=np.uint8)
_LIGHT = np.frombuffer(fields.MULTI_DISPATCH, dtype=np.uint8)
_QUOTE, _BACKSLASH, _LETTER_T, _LETTER_I = 34, 92, 84, 73


@compiled_loop
def _property(text, start, mark, stop, row):
    """Check one property, ``start`` to ``stop`` with the separator of its value at ``mark``.

    False if it may have a meaning for the broker, or is a repeated name that `append` needs.
    """
    length = mark - start
    for number in range(_SPECIAL_LENGTHS.shape[0]):
        least = _SPECIAL_LENGTHS[number]
        if length >= least and equal(text, mark - least, _SPECIAL[number], least):
            return False
    for number in range(_NAMED_LENGTHS.shape[0]):
        least = _NAMED_LENGTHS[number]
        if length < least or not equal(text, mark - least, _NAMED[number], least):
            continue
        if number == 3:  # WAIT, also as the end of another name: the plain path decides
            return stop - mark < 6 or not equal(text, mark + 1, _FALSE, 5)
        if length > least:
            return number != 0
        column = col.UNIQ_KEY_AT if number == 0 else col.TAGS_AT if number == 1 else col.KEYS_AT
        if row[column] >= 0 or stop == mark + 1:
            return False
        row[column] = mark + 1
        row[column + 1] = stop - mark - 1
        return True
    return True


@compiled_loop
def _needs_plain_path(text, at, stop):
    """Whether a text starts here that the plain path searches for anywhere in the properties."""
    for name in (_TIMER, _LIGHT):
        if at + name.shape[0] <= stop and equal(text, at, name, name.shape[0]):
            return True
    return False


@compiled_loop
def check_properties(text, start, stop, row):
    """Check a property string and note UNIQ_KEY, TAGS and KEYS; False if it is unusual."""
    row[col.UNIQ_KEY_AT] = row[col.TAGS_AT] = row[col.KEYS_AT] = -1
    row[col.UNIQ_KEY_LENGTH] = row[col.TAGS_LENGTH] = row[col.KEYS_LENGTH] = 0
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
    if row[col.UNIQ_KEY_AT] < 0:
        return False
    for position in range(row[col.UNIQ_KEY_AT], row[col.UNIQ_KEY_AT] + row[col.UNIQ_KEY_LENGTH]):
        byte = text[position]
        if byte < 32 or byte >= 127 or byte in (_QUOTE, _BACKSLASH):
            return False  # the response would need escapes
    return True


@compiled_loop
def complete(text, start, end, limits, suffix, row):
    """Add the broker's properties to checked ones; return their end, -1: too long for a record.

    The caller has ensured the space for them and a separator.
    """
    if text[end - 1] != 2:
        text[end] = 2
        end += 1
    copy(text, end, suffix, 0, suffix.shape[0])
    end += suffix.shape[0]
    if end - start > limits[fields.PROPERTIES_LIMIT]:
        return np.int64(-1)
    row[col.PROPERTIES_AT] = start
    row[col.PROPERTIES_LENGTH] = end - start
    return np.int64(end)
