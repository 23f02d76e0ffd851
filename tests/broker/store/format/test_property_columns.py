"""Keys and TAGS of many property strings at once, compared with each string alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.store.format import property_columns
from broker.store.format.consumequeue import peek_tags
from broker.store.format.indexfile import peek_message_keys
from broker.store.format.property_columns import SEEN, peek_columns

NAMES = st.sampled_from([b"UNIQ_KEY", b"KEYS", b"TAGS", b"WAIT", b"XKEYS"])
TEXT = st.text("ab ", min_size=1, max_size=4).map(str.encode)
HOSTILE = st.binary(max_size=5) | st.sampled_from([b"", b"\x02", b"a\x02KEYS\x01b", b"KEYS\x01"])


def alone(properties: list[bytes]) -> tuple[list[list[bytes]], list[bytes]]:
    return [peek_message_keys(one) for one in properties], [peek_tags(one) for one in properties]


def columns(properties: list[bytes]) -> tuple[list[list[bytes]], list[bytes]]:
    found = peek_columns(properties)
    assert not found.words or found.keys == list(map(list, zip(*found.words, strict=True)))
    return found.keys, found.tags


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Strings with the same names; the values of some differ in some strings."""
    pairs = draw(st.lists(st.tuples(NAMES, TEXT), max_size=4))
    strings = []
    for _ in range(draw(st.integers(1, 5))):
        text = b""
        for name, value in pairs:
            if name in (b"UNIQ_KEY", b"KEYS", b"TAGS"):
                alike = st.sampled_from([value, value[::-1], b"k" * len(value)])
                value = draw(st.one_of(alike, alike, TEXT, HOSTILE))
            elif draw(st.integers(0, 9)) == 0:
                value = draw(HOSTILE)
            text += name + b"\x01" + value + b"\x02"
        strings.append(text if draw(st.integers(0, 9)) else text[:-1])
    return strings


@given(alike() | st.lists(st.binary(max_size=30), min_size=1, max_size=4))
def test_columns_are_those_of_each_string(properties: list[bytes]) -> None:
    for _ in range(SEEN + 1):  # a pattern is compiled when it is seen often
        assert columns(properties) == alone(properties)


@pytest.mark.parametrize(
    "text",
    [
        b"UNIQ_KEY\x01%d\x02WAIT\x01true\x02",
        b"TAGS\x01T\x02KEYS\x01k%d  w\x02WAIT\x01true\x02UNIQ_KEY\x01U%d\x02",
        b"UNIQ_KEY\x01U%d\x02KEYS\x01k%d\x02TAGS\x01T%d\x02",
        b"WAIT\x01true\x02TAGS\x01T%d\x02",
        b"KEYS\x01k%d\x02",
    ],
)
def test_strings_that_differ_in_these_values_only_are_not_searched_one_by_one(
    monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    properties = [text % ((number,) * text.count(b"%d")) for number in (1, 20, 300)]
    expected = alone(properties)
    for _ in range(SEEN):
        assert columns(properties) == expected
    monkeypatch.delattr(property_columns, "peek_message_keys")
    assert columns(properties) == expected


@pytest.mark.parametrize("tags", [(b"A", b"A", b"A"), (b"A", b"B", b"A"), (b"A", b"A", b"B")])
def test_strings_of_one_length_are_split_at_the_same_positions(
    monkeypatch: pytest.MonkeyPatch, tags: tuple[bytes, ...]
) -> None:
    properties = [
        b"UNIQ_KEY\x01%032X\x02KEYS\x01k%03d\x02TAGS\x01%b\x02" % (number, number, tag)
        for number, tag in enumerate(tags)
    ]
    expected = alone(properties)
    assert columns(properties) == expected
    monkeypatch.delattr(property_columns, "peek_message_keys")
    monkeypatch.setattr(property_columns, "patterns", None)
    for _ in range(3):
        assert columns(properties) == expected


@pytest.mark.parametrize(
    "second",
    [
        b"UNIQ_KEY\x01\x02",
        b"UNIQ_KEY\x01b",
        b"UNIQ_KEY\x01b\x02UNIQ_KEY\x01c\x02",
        b"UNIQ_KEY\x01b\x02KEYS\x01c\x02",
        b"XUNIQ_KEY\x01b\x02",
        b"",
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_strings_that_differ_in_more_are_searched(second: bytes, order: int) -> None:
    properties = [b"UNIQ_KEY\x01a\x02", second][::order]
    for _ in range(SEEN + 1):
        assert columns(properties) == alone(properties)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("tail", [b"", b"\x02", b"\x02TAGS\x01"])
def test_the_time_of_hostile_strings_is_linear(tail: bytes) -> None:
    """Where an attempt to match starts at each name and reads to the end, this takes minutes."""
    names = b"UNIQ_KEY\x01" * 3_600 + tail
    properties = [b"UNIQ_KEY\x01a\x02TAGS\x01b\x02"] * 2 + [names] * 100
    for _ in range(SEEN + 1):
        assert columns(properties) == alone(properties)


def test_memory_of_patterns_is_bounded() -> None:
    for number in range(1000):
        peek_columns([b"UNIQ_KEY\x01%b\x02WAIT\x01%d\x02" % (a, number) for a in (b"a", b"aa")])
    peek_columns([b"UNIQ_KEY\x01a\x02WAIT\x01%b\x02" % bytes(5000)] * 2)
    patterns = property_columns.patterns
    for length in range(1, 200):
        peek_columns([b"UNIQ_KEY\x01%b\x02" % (b"a" * length)] * 2)
    assert len(property_columns.layouts) <= property_columns.MAX_PATTERNS
    assert max(property_columns.layouts) <= property_columns.MAX_PATTERN_BYTES
    assert 0 < len(patterns) <= property_columns.MAX_PATTERNS
    assert all(sum(map(len, one)) <= property_columns.MAX_PATTERN_BYTES for one in patterns)
