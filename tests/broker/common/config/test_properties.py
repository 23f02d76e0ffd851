from pathlib import Path

import pytest

from broker.common.config.properties import (
    decode_properties,
    format_properties,
    parse_properties,
    patch_properties,
    read_properties,
)
from broker.errors import ConfigError


def test_java_text_reads() -> None:
    text = "# comment\nbrokerName=broker-a\nlisten\\ port : 10911\nlong=a\\\n  b\nu=\\u6d88\nx\n"
    assert parse_properties(text) == {
        "brokerName": "broker-a",
        "listen port": "10911",
        "long": "ab",
        "u": "消",
        "x": "",
    }


def test_the_last_of_equal_keys_wins() -> None:
    assert parse_properties("a=1\nb=2\na=3") == {"a": "3", "b": "2"}


def test_a_broken_escape_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="properties"):
        parse_properties("a=\\u12")


def test_format_reads_back_and_is_reproducible(rng) -> None:
    for _ in range(100):
        values = {
            "".join(rng.choices("aB. =:#é", k=rng.randint(1, 6))): "".join(
                rng.choices("xy \\\n\té消=", k=rng.randint(0, 9))
            )
            for _ in range(rng.randint(0, 6))
        }
        text = format_properties(values)
        assert parse_properties(text) == values
        assert text == format_properties(values)
    assert format_properties({"b": "2", "a": "1"}, sort_keys=True) == "a=1\nb=2\n"


def test_bytes_of_a_file_are_utf_8_with_or_without_a_byte_order_mark() -> None:
    assert decode_properties("\ufeffbrokerName=消\n".encode()) == {"brokerName": "消"}
    assert decode_properties(b"") == {}


def test_comments_may_have_any_encoding() -> None:
    """Java reads the file as Latin-1, so comments in GBK are common."""
    assert decode_properties("# 经纪人\n  !名\na=1\n".encode("gbk")) == {"a": "1"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a=1\nb=\xb2\xe2\n", "line 2: not UTF-8: byte 0xb2"),
        (b"\xff\xfea\0=\x001\0", "line 1: not UTF-8: byte 0xff"),
        (b"a=1\n\0\0\0\0", "line 2: a NUL byte"),
    ],
)
def test_other_bytes_are_refused_with_their_line(data: bytes, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_properties(data)
    assert caught.value.message == reason
    assert "UTF-8" in caught.value.hint


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"a=9\n"),
        (b"a=1", b"a=9\n"),
        (b"b=2", b"b=2\na=9\n"),
        (b"# a=1\r\na : 1\r\nb=2\r\n", b"# a=1\r\na=9\nb=2\r\n"),
        (b"a=1\\\n  b=3\nb=2\n", b"a=9\nb=2\n"),
        (b"a=1\nb=2\na=3\n", b"a=1\nb=2\na=9\n"),
        (b"ab=1\n! a\n", b"ab=1\n! a\na=9\n"),
        (b"# \xb2\xe2\x0c a\na=1\n", b"# \xb2\xe2\x0c a\na=9\n"),
    ],
)
def test_a_change_keeps_all_other_bytes(before: bytes, after: bytes) -> None:
    """Readers use the last line of a key, with the lines that continue it."""
    assert patch_properties(before, {"a": "9"}) == after
    assert decode_properties(after) == {**decode_properties(before), "a": "9"}


@pytest.mark.parametrize("content", [None, b"a=\\u12\n", b"a=\xff\n"])
def test_a_file_that_cannot_be_used_is_named_with_a_next_step(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "broker.conf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_properties(str(path))
    assert caught.value.message.startswith(f"{path}: ")
    assert "UTF-8" in caught.value.hint
