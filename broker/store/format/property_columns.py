"""Message keys and TAGS of many property strings at once.

The messages of one producer mostly have the same properties in the same order, and differ in the
values of UNIQ_KEY, KEYS, and TAGS::

    |KEYS|01|k1|02|UNIQ_KEY|01|7F..01|02|TAGS|01|a|02|
    |KEYS|01|k2|02|UNIQ_KEY|01|7F..02|02|TAGS|01|b|02|
             ^^                ^^^^^^            ^  the rest is equal

To match each string with the pattern of the equal bytes costs a third of searching it for each
value; strings of one length are split at the same positions, which costs half of that. Strings of
any other kind are searched one by one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from struct import Struct
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


class PropertyColumns:
    """``tags``: the TAGS of each string (empty without).

    ``words``: the message keys as columns, if every string has as many as there are columns; else
    None.
    """

    __slots__ = ("_keys", "tags", "words")

    def __init__(
        self,
        tags: list[bytes],
        words: tuple[Sequence[bytes], ...] | None,
        keys: list[list[bytes]] | None = None,
    ) -> None:
        self.tags = tags
        self.words = words
        self._keys = keys

    @property
    def keys(self) -> list[list[bytes]]:
        """The message keys of each string."""
        if self._keys is None:
            assert self.words
            self._keys = list(map(list, zip(*self.words, strict=True)))
        return self._keys


class _Places(NamedTuple):
    """Which values of a string are those of UNIQ_KEY, KEYS and TAGS (None: no such value).

    ``tag`` is the value of TAGS in all strings, where it is not one of the values.
    """

    uniq_key: int | None
    keys: int | None
    tags: int | None
    tag: bytes


class _Layout(NamedTuple):
    """The positions of the values in strings of one length.

    ``split`` yields, of each of the joined strings, ``parts`` with the values between them.
    """

    split: Callable[[bytes], Iterator[tuple[bytes, ...]]]
    parts: tuple[bytes, ...]
    places: _Places


# By the length of the strings, the last one that was seen.
layouts: Final[dict[int, _Layout]] = {}


def peek_columns(properties: Sequence[bytes]) -> PropertyColumns:
    """Return ``peek_message_keys`` and ``peek_tags`` of each string."""
    columns = None
    if len(properties) > 1:
        same_length = len(set(map(len, properties))) == 1
        if same_length:
            columns = _split(properties)
        # To search for TAGS takes longer, and mostly they are equal.
        if columns is None and peek_tags(properties[0]) == peek_tags(properties[-1]):
            columns = _columns(properties, _MARKS[:2], same_length=same_length)
        columns = columns or _columns(properties, _MARKS, same_length=same_length)
    return columns or PropertyColumns(
        [peek_tags(one) for one in properties],
        None,
        [peek_message_keys(one) for one in properties],
    )


def _split(properties: Sequence[bytes]) -> PropertyColumns | None:
    """The columns of strings of one length, by its layout; None if they have another one."""
    layout = layouts.get(len(properties[0]))
    if layout is None:
        return None
    count = len(properties)
    columns = list(zip(*layout.split(b"".join(properties)), strict=True))
    for part, column in zip(layout.parts, columns[::2], strict=True):
        if column.count(part) != count:
            return None
    values = columns[1::2]
    if any(b"\x02" in b"".join(column) for column in values):
        return None
    return _of_values(values, layout.places, count)


def _of_values(values: Sequence[Sequence[bytes]], places: _Places, count: int) -> PropertyColumns:
    """The columns of ``count`` strings, given each of their values."""
    uniq_key, keys, tags, tag = places
    tags_of_each = list(values[tags]) if tags is not None else [tag] * count
    words = tuple(values[place] for place in (uniq_key, keys) if place is not None)
    if keys is not None and b" " in b"".join(values[keys]):
        several = list(map(_words, values[keys]))
        if uniq_key is not None:
            several = [[key, *more] for key, more in zip(values[uniq_key], several, strict=True)]
        return PropertyColumns(tags_of_each, None, several)
    return PropertyColumns(tags_of_each, words, None if words else [[] for _ in range(count)])


def _columns(
    properties: Sequence[bytes], marks: Sequence[bytes], *, same_length: bool
) -> PropertyColumns | None:
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
    uniq_key, keys, *rest = (found.index(one) if one else None for one in ranges)
    tags, tag = (rest[0], b"") if rest else (None, peek_tags(first))
    places = _Places(uniq_key, keys, tags, tag)
    if same_length:
        if len(layouts) >= MAX_PATTERNS:
            layouts.clear()
        cuts = [0, *(position for one in found for position in one), len(first)]
        sizes = [end - begin for begin, end in pairwise(cuts)]
        split = Struct("".join(f"{size}s" for size in sizes)).iter_unpack
        layouts[len(first)] = _Layout(split, parts, places)
        return _split(properties)
    pattern = _pattern(parts)
    if pattern is None:
        return None
    # Each string by itself: a search in all of them would begin at each name in a hostile one.
    matches = [match for match in map(pattern.fullmatch, properties) if match]
    if len(matches) != len(properties):
        return None
    return _of_values(
        list(zip(*map(re.Match.groups, matches), strict=True)), places, len(properties)
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
