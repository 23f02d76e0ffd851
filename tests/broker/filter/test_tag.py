import pytest

from broker.common.java import string_hash
from broker.errors import RemoteProtocolError
from broker.filter.tag import match_everything, match_tags, parse_tag_expression, tag_matcher


def test_expressions_become_codes() -> None:
    assert parse_tag_expression("TagA || TagB") == {2598919, 2598920}
    assert parse_tag_expression(" 消息 ") == {893927}
    for everything in ("*", "", None):
        assert parse_tag_expression(everything) is None
    with pytest.raises(RemoteProtocolError):
        parse_tag_expression("||")


def test_golden_tag_codes_match_their_tags(vectors) -> None:
    for vector in vectors["java_hash"]:
        code = int.from_bytes(bytes.fromhex(vector["cq_tags_code_hex"]), "big", signed=True)
        matches = tag_matcher({string_hash(vector["string"]), 5})
        assert matches(code)
        assert matches(5)
        assert not matches(code ^ 0x10)


def test_only_the_low_32_bits_count() -> None:
    matches = tag_matcher({-1})
    assert matches(-1)
    assert matches(0xFFFFFFFF)
    assert not matches(0x7FFFFFFF)


def test_no_codes_mean_everything_and_an_empty_set_nothing() -> None:
    assert tag_matcher(None) is match_everything
    assert match_everything(17)
    assert not tag_matcher(())(0)


def test_the_client_compares_the_text() -> None:
    assert match_tags("a", {"a", "b"})
    assert not match_tags("c", {"a"})
    assert not match_tags(None, {"a"})
    assert match_tags(None, ())
