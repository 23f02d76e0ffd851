"""Compiled filters and their memory."""

import pytest

from broker.common.java import string_hash
from broker.common.subscription import build_subscription
from broker.errors import RemoteProtocolError
from broker.message.properties import encode_properties
from broker.server.filter import message_filter as filters
from broker.server.filter.message_filter import EVERYTHING, MatcherCache, compile_filter


def test_everything_needs_no_look() -> None:
    for expression in ("*", ""):
        assert compile_filter(build_subscription("T", expression)) is EVERYTHING


def test_tags_match_by_their_code() -> None:
    matcher = compile_filter(build_subscription("T", "A || Aa"))
    assert matcher.tags(string_hash("A"))
    assert matcher.tags(string_hash("BB")), "the same hash as Aa: the client compares the text"
    assert not matcher.tags(string_hash("B"))
    assert not matcher.tags(0)
    assert matcher.properties is None


def test_sql_matches_by_properties() -> None:
    matcher = compile_filter(build_subscription("T", "n > 5 AND s = 'x'", "SQL92"))
    assert matcher.tags is None
    assert matcher.properties(encode_properties({"n": "6", "s": "x"}))
    assert not matcher.properties(encode_properties({"n": "5", "s": "x"}))
    assert not matcher.properties(encode_properties({"s": "x"}))
    assert not matcher.properties(b"")


def test_wrong_expressions_raise() -> None:
    cache = MatcherCache()
    for kind, expression in (("TAG", "||"), ("SQL92", "n >"), ("SQL92", "")):
        with pytest.raises(RemoteProtocolError):
            cache.get(kind, expression)


def test_cache_compiles_once_and_is_bounded_by_bytes() -> None:
    one = filters.ENTRY_BYTES + filters.MATCHER_BYTES + filters.TAG_BYTES + 4
    cache = MatcherCache(limit_bytes=2 * one)
    first = cache.get("TAG", "A")
    assert cache.get("TAG", "A") is first
    cache.get("TAG", "B")
    cache.get("TAG", "A")
    cache.get("TAG", "C")
    assert cache.get("TAG", "A") is first, "the least recently used one has gone"
    assert cache.held_bytes == 2 * one


def test_many_long_expressions_stay_within_the_limit() -> None:
    cache = MatcherCache(limit_bytes=1 << 20)
    for number in range(500):
        cache.get("TAG", " || ".join(f"t{number}_{tag}" for tag in range(100)))
        cache.get("TAG", f"{number} ||" + " " * 10_000)  # one tag, much text
        assert cache.held_bytes <= 1 << 20


@pytest.mark.parametrize("kind", ["TAG", "SQL92"])
def test_expression_has_a_longest_length(kind) -> None:
    longest = "a IS NULL OR " * 2000
    with pytest.raises(RemoteProtocolError, match="above the limit of"):
        MatcherCache().get(kind, longest)
    with pytest.raises(RemoteProtocolError, match="above the limit of"):
        compile_filter(build_subscription("T", longest, kind))


def test_a_tag_expression_of_blanks_matches_nothing() -> None:
    matcher = compile_filter(build_subscription("Orders", " "))
    assert matcher.tags is not None
    assert not any(matcher.tags(code) for code in (0, 65))


@pytest.mark.parametrize("kind", ["sql92", "tag", "XX"])
def test_an_unknown_expression_type_is_refused(kind: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"expression type '{kind}' is unknown"):
        compile_filter(build_subscription("Orders", "a > 1", kind))
