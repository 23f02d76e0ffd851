"""Message keys and TAGS of many property strings at once.

The messages of one producer mostly have the same properties in the same order, and differ in the
values of UNIQ_KEY and KEYS, which have the same lengths::

    |KEYS|01|k1|02|UNIQ_KEY|01|7F..01|02|TAGS|01|a|02|
    |KEYS|01|k2|02|UNIQ_KEY|01|7F..02|02|TAGS|01|a|02|
             ^^                ^^^^^^                    the rest is equal

Splitting all strings at once at the equal parts costs a quarter of searching each of them. Strings
of any other kind are searched one by one.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.message.message import PROPERTY_KEYS, PROPERTY_UNIQ_KEY
from broker.store.format.consumequeue import peek_tags
from broker.store.format.indexfile import peek_message_keys

_MARKS: Final = tuple(f"{name}\x01".encode() for name in (PROPERTY_UNIQ_KEY, PROPERTY_KEYS))


class PropertyColumns(NamedTuple):
    """Of each string its message keys and its TAGS (empty without)."""

    keys: list[list[bytes]]
    tags: list[bytes]


def peek_columns(properties: Sequence[bytes]) -> PropertyColumns:
    """Return ``peek_message_keys`` and ``peek_tags`` of each string."""
    keys = _equal_except_keys(properties) if len(properties) > 1 else None
    if keys is not None:
        return PropertyColumns(keys, [peek_tags(properties[0])] * len(properties))
    return PropertyColumns(
        [peek_message_keys(one) for one in properties], [peek_tags(one) for one in properties]
    )


def _equal_except_keys(properties: Sequence[bytes]) -> list[list[bytes]] | None:
    """The message keys of strings that differ in these values only; None if others differ.

    With the equal parts as separators, one split of all strings finds the values. It is right if no
    value contains the end of a property and the lengths of the parts are those of each string.
    """
    first = properties[0]
    ranges = [_value_range(first, mark) for mark in _MARKS]
    found = sorted(one for one in ranges if one)
    if None in ranges or not found:
        return None
    head, tail = first[: found[0][0]], first[found[-1][1] :]
    text = b"".join(properties)
    separator = tail + head
    if not text.startswith(head) or not text.endswith(tail):
        return None
    text = text[len(head) : len(text) - len(tail)]
    fixed = len(separator)
    if len(found) == 2:
        middle = first[found[0][1] : found[1][0]]
        fixed += len(middle)
        text = text.replace(middle, separator)
    values = text.split(separator)
    count = len(properties)
    if len(values) != count * len(found) or b"" in values or b"\x02" in b"".join(values):
        return None
    if len(found) == 1:
        lengths = [len(value) + fixed for value in values]
    else:
        lengths = [len(one) + len(two) + fixed for one, two in zip(*_halves(values), strict=True)]
    if lengths != list(map(len, properties)):
        return None
    if len(found) == 1:
        return [[value] for value in values] if ranges[0] else list(map(_words, values))
    one, two = _halves(values)
    uniq_keys, keys = (one, two) if ranges[0] == found[0] else (two, one)
    return [[key, *_words(more)] for key, more in zip(uniq_keys, keys, strict=True)]


def _halves(values: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    return values[0::2], values[1::2]


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
