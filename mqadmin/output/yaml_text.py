"""YAML in block style, streamed: plain mappings and lists, scalars as in JSON.

Strings are plain (unquoted) where no YAML 1.1 or 1.2 reader takes them for another type, and
double-quoted otherwise.
"""

import re
from typing import Any

# A word that starts with a letter is neither a number nor a time; _RESERVED has special meaning.
_BARE = re.compile(r"[A-Za-z_/][\w./@+-]*(?:[ :][\w./@+-]+)*", re.ASCII)
_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def yaml_document(value: dict[str, Any]) -> str:
    """Return a whole document."""
    return "".join(_mapping(value, ""))


def yaml_item(value: dict[str, Any]) -> str:
    """Return one item of a list: its first line starts with a dash."""
    return _item(value, "")


def yaml_scalar(value: Any) -> str:
    """Return a scalar, or an empty mapping or list."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int):
        return str(value)
    return "{}" if isinstance(value, dict) else "[]"


def _number(value: float) -> str:
    if value != value:
        return ".nan"
    if value in (float("inf"), float("-inf")):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # YAML 1.1 readers parse 1e+16 as a string: they require a decimal point
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def _text(value: str) -> str:
    if _BARE.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    if value.isprintable():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return '"' + "".join(map(_quoted, value)) + '"'


def _quoted(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    if character == "\n":
        return "\\n"
    code = ord(character)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"


def _mapping(value: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for name, inner in value.items():
        lines.append(f"{indent}{_text(str(name))}:")
        if isinstance(inner, dict) and inner:
            lines.append("\n")
            lines += _mapping(inner, indent + "  ")
        elif isinstance(inner, (list, tuple)) and inner:
            lines.append("\n")
            lines += [_item(one, indent) for one in inner]
        else:
            lines.append(f" {yaml_scalar(inner)}\n")
    return lines


def _item(value: Any, indent: str) -> str:
    if isinstance(value, dict) and value:
        lines = "".join(_mapping(value, indent + "  "))
        return f"{indent}- {lines[len(indent) + 2 :]}"
    if isinstance(value, (list, tuple)) and value:
        return f"{indent}-\n" + "".join(_item(one, indent + "  ") for one in value)
    return f"{indent}- {yaml_scalar(value)}\n"
