"""Text from external sources: decoded strictly, and made safe to print.

Safe text is one line without terminal controls.

The C0 and C1 controls, DEL, the bidirectional controls, the line and paragraph separators, and
unpaired surrogates are escaped. All other characters, including other scripts and emoji, are
unchanged.
"""

import re
from functools import cache

from broker.errors import ConfigError

_CONTROLS = (
    "["
    "\x00-\x1f\x7f-\x9f"  # C0 (ESC, newline), DEL, C1 (U+009B starts a terminal sequence)
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # bidirectional and deprecated format controls
    "\u2028\u2029"  # line and paragraph separator
    "\ud800-\udfff"  # unpaired surrogate: not encodable as UTF-8
    "]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@cache
def _controls() -> re.Pattern[str]:
    # compiled at the first use: 0.8 ms, and most text is printable ASCII
    return re.compile(_CONTROLS)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return _SHORT.get(char) or f"\\u{ord(char):04x}"


def escape_control(text: str, keep: str = "") -> str:
    r"""Escape control and bidi characters as ``\n``, ``\r``, ``\t`` or ``\uXXXX``.

    These are JSON escapes, so a line of encoded JSON (whose raw controls can only be inside
    strings) can be passed as a whole. Characters in ``keep`` are unchanged, for example ``"\n"``
    for multi-line text. Backslashes are not doubled: the result is for display, not for decoding.
    """
    if text.isascii() and text.isprintable():
        return text
    if not keep:
        return _controls().sub(_escape, text)
    return _controls().sub(lambda match: match[0] if match[0] in keep else _escape(match), text)


def truncate(text: str, limit_chars: int) -> str:
    """Return ``text``, or its first ``limit_chars`` characters and the number of omitted ones."""
    if len(text) <= limit_chars:
        return text
    return f"{text[:limit_chars]}... ({len(text) - limit_chars} more characters)"


def decode_text(data: bytes) -> str:
    """Decode the bytes of a text file: UTF-8, with or without a byte order mark.

    ConfigError with the line of the first byte that is not UTF-8, or of a NUL byte, which only
    damaged files contain.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # the position does not count the byte order mark
        place = error.start + len(data) - len(error.object)
        raise _undecodable(data, place, f"not UTF-8: byte 0x{data[place]:02x}") from None
    if "\0" in text:
        raise _undecodable(data, data.index(b"\0"), "a NUL byte")
    return text


def _undecodable(data: bytes, place: int, reason: str) -> ConfigError:
    line = data.count(b"\n", 0, place) + 1
    return ConfigError(f"line {line}: {reason}", "write the file as UTF-8 text")
