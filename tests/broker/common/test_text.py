"""Control and bidi characters in foreign text."""

import json
import sys
import unicodedata

import pytest

from broker.common.text import decode_text, escape_control, truncate
from broker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain text", "plain text"),
        ("", ""),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("\x9b31m", "\\u009b31m"),
        ("\x7f\x00", "\\u007f\\u0000"),
        ("user\u202egpj.exe\u2066", "user\\u202egpj.exe\\u2066"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("\ud800", "\\ud800"),
        ("Grüße 日本語 👩‍👩‍👧", "Grüße 日本語 👩‍👩‍👧"),
        ("C:\\new", "C:\\new"),
    ],
)
def test_control_and_bidi_characters_are_escaped_and_nothing_else(text, escaped) -> None:
    assert escape_control(text) == escaped


def test_no_control_or_bidi_character_survives() -> None:
    left = escape_control("".join(map(chr, range(sys.maxunicode + 1))))
    left.encode("utf-8")
    assert not {char for char in left if unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cs")}
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not {char for char in left if unicodedata.bidirectional(char) in bidi}
    assert not set("\u200e\u200f\u061c") & set(left)


def test_characters_to_keep_are_kept() -> None:
    assert escape_control("a\n\tb\x1b", keep="\n") == "a\n\\tb\\u001b"


def test_finished_json_keeps_its_value() -> None:
    value = {"key\x9b": "a\u202eb\n\ud800\\n"}
    line = escape_control(json.dumps(value, ensure_ascii=False))
    assert not {"\x9b", "\u202e"} & set(line)
    assert json.loads(line) == value


def test_truncated_text_is_marked() -> None:
    assert truncate("abc", 3) == "abc"
    assert truncate("abcdef", 3) == "abc... (3 more characters)"


def test_text_is_utf_8_with_or_without_a_byte_order_mark() -> None:
    assert decode_text("\ufeffa消\r\n".encode()) == decode_text("a消\r\n".encode()) == "a消\r\n"
    assert decode_text(b"") == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\nb\xff\n", "line 2: not UTF-8: byte 0xff"),
        (b"\xef\xbb\xbf\xfe", "line 1: not UTF-8: byte 0xfe"),
        (b"a\n\nb\0", "line 3: a NUL byte"),
    ],
)
def test_bytes_that_are_not_text_are_refused_with_their_line(data: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode_text(data)
    assert caught.value.message == message
    assert caught.value.hint == "write the file as UTF-8 text"
