"""Values of messages as text that is safe for terminals, spreadsheets and JSON readers."""

import re
from typing import Any, Final

from msgspec import json

from broker.common.text import escape_control

# Spreadsheets evaluate a cell that starts with one of these, full-width forms included.
_FORMULA: Final = re.compile("[=+\\-@\t\r＝＋－＠]")
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def json_text(value: Any) -> str:
    r"""Encode one line of JSON; control characters and unpaired surrogates as ``\uXXXX``."""
    try:
        return escape_control(json.encode(value).decode())
    except UnicodeEncodeError:  # msgspec rejects the unpaired surrogates of undecodable bytes
        import json as plain_json

        return plain_json.dumps(value, separators=(",", ":"))


def one_line(value: str) -> str:
    """Return a text as one line without control characters, which are escaped."""
    return escape_control(value)


def csv_cell(value: Any) -> str | int | float:
    """Return the value of a CSV cell: "" for None, one line of text, never a formula.

    Numbers stay numbers, also numbers in text. Text that starts like a formula is prefixed
    with ``'``, which makes spreadsheets treat it as text.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str):
        return json_text(value)
    text = escape_control(value)
    if _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return "'" + text
    return text
