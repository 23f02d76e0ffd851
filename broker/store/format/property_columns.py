"""Message keys and TAGS of many property strings at once.

The messages of one producer mostly have the same properties in the same order, and differ in the
values of UNIQ_KEY, KEYS, and TAGS::

    |KEYS|01|k1|02|UNIQ_KEY|01|7F..01|02|TAGS|01|a|02|
    |KEYS|01|k2|02|UNIQ_KEY|01|7F..02|02|TAGS|01|b|02|
             ^^                ^^^^^^            ^  the rest is equal

To match each string with the pattern of the equal bytes costs a third of searching it for each
value. Strings of any other kind are searched one by one.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.message.message import PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_KEY
from broker.store.format.consumequeue import peek_tags
from broker.store.format.indexfile import peek_message_keys

_MARKS: Final = tuple(
    f"{name}\x01".encode() for name in (PROPERTY_UNIQ_KEY, PROPERTY_KEYS, PROPERTY_TAGS)
)
# Property strings that are equal but for these values have one pattern: their other bytes.
_VALUE: Final = rb"([^\x02]+)"
MAX_PATTERNS: Final = 64
MAX_PATTERN_BYTES: Final = 512
# Compiled when they are seen for the SEEN-th time, until then a count: to compile one takes as long
# as some 300 strings one by one.
SEEN: Final = 8
patterns: Final[dict[tuple[bytes, ...], "re.Pattern[bytes] | int"]] = {}


class PropertyColumns(NamedTuple):
    """Of each string its message keys and its TAGS (empty without)."""

    keys: list[list[bytes]]
    tags: list[bytes]


def peek_columns(properties: Sequence[bytes]) -> PropertyColumns:
    """Return ``peek_message_keys`` and ``peek_tags`` of each string."""
    columns = None
    if len(properties) > 1:
        # To search for TAGS takes longer, and mostly they are equal.
        if peek_tags(properties[0]) == peek_tags(properties[-1]):
            columns = _columns(properties, _MARKS[:2])
        columns = columns or _columns(properties, _MARKS)
    return columns or PropertyColumns(
        [peek_message_keys(one) for one in properties], [peek_tags(one) for one in properties]
    )


def _columns(properties: Sequence[bytes], marks: Sequence[bytes]) -> PropertyColumns | None:
    """The columns of strings that differ in the values after ``marks``; None if others differ."""
    first = properties[0]
    if len(first) > MAX_PATTERN_BYTES:
        return None
    ranges = [_value_range(first, mark) for mark in marks]
    found = sorted(one for one in ranges if one)
    if None in ranges or not found:
        return None
    ends = [0, *(end for _, end in found)]
    begins = [*(begin for begin, _ in found), len(first)]
    parts = tuple(first[end:begin] for end, begin in zip(ends, begins, strict=True))
    pattern = _pattern(parts)
    if pattern is None:
        return None
    # Each string by itself: a search in all of them would begin at each name in a hostile one.
    matches = [match for match in map(pattern.fullmatch, properties) if match]
    if len(matches) != len(properties):
        return None
    columns = list(zip(*map(re.Match.groups, matches), strict=True))
    of_mark = [columns[found.index(one)] if one else None for one in ranges]
    tags = of_mark[2] if len(marks) > 2 else [peek_tags(first)] * len(properties)
    return PropertyColumns(
        _message_keys(of_mark[0], of_mark[1], len(properties)),
        list(tags or [b""] * len(properties)),
    )


def _pattern(parts: tuple[bytes, ...]) -> "re.Pattern[bytes] | None":
    """The pattern of strings with these parts between their values; None the first times."""
    pattern = patterns.get(parts, 0)
    if not isinstance(pattern, int):
        return pattern
    if not pattern and len(patterns) >= MAX_PATTERNS:
        patterns.clear()
    patterns[parts] = pattern + 1
    if pattern + 1 < SEEN:
        return None
    compiled = patterns[parts] = re.compile(_VALUE.join(map(re.escape, parts)))
    return compiled


def _message_keys(
    uniq_keys: Sequence[bytes] | None, keys: Sequence[bytes] | None, count: int
) -> list[list[bytes]]:
    """The message keys of ``count`` messages, given the values of UNIQ_KEY and KEYS."""
    if keys is None:
        return [[key] for key in uniq_keys] if uniq_keys else [[] for _ in range(count)]
    if b" " not in b"".join(keys):
        one_each = (uniq_keys, keys) if uniq_keys else (keys,)
        return list(map(list, zip(*one_each, strict=True)))
    words = list(map(_words, keys))
    if uniq_keys is None:
        return words
    return [[key, *more] for key, more in zip(uniq_keys, words, strict=True)]


def _words(keys: bytes) -> list[bytes]:
    return [word for word in keys.split(b" ") if word]


def _value_range(properties: bytes, mark: bytes) -> tuple[int, ...] | None:
    """Begin and end of the value after the only ``mark``; empty if there is none.

    None where the mark is ambiguous: it occurs twice, or in another name, or has no value that
    ends with 0x02.
    """
    at = properties.find(mark)
    if at < 0:
        return ()
    begin = at + len(mark)
    end = properties.find(b"\x02", begin)
    if end <= begin or (at and properties[at - 1] != 2) or properties.find(mark, begin) >= 0:
        return None
    return begin, end
