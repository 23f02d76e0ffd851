"""The tolerant JSON reader used by ``java_json.loads``, and the resolver of ``$ref``.

Imported only for text that is not standard JSON or contains ``$ref``. The grammar is JSON plus the
extensions that fastjson accepts:

======================  =====================================================================
key                     string, unquoted integer (int) or name, object (FrozenObject), array
string                  double or single quotes; escapes also \\' \\v \\0..\\7 \\xHH; raw controls
number                  JSON's, with optional type suffix (L S B F D)
value                   true false null, NaN and undefined (None)
between                 // and /* */ comments, extra commas
======================  =====================================================================

**Source:** fastjson 1.2.83 JSONLexerBase, DefaultJSONParser#parseObject, JSONPath.
"""

import re
from collections.abc import Hashable

from broker.common.encoding.java_values import MAX_DEPTH, MAX_REF_NODES, FrozenObject, freeze
from broker.errors import RemoteProtocolError

_MAX_DIGITS = 1000  # per integer; Java's longest type has 19

_BLANK = re.compile(r"(?:[\s\x08]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"(-?\d+)(\.\d*)?([eE][+-]?\d+)?[LSBFD]?")
_NAME = re.compile(r"[^\W\d][\w$]*|[$@][\w$]*")
_PLAIN_DOUBLE = re.compile(r'[^"\\]*')
_PLAIN_SINGLE = re.compile(r"[^'\\]*")
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_HEX2 = re.compile(r"[0-9a-fA-F]{2}")
_OCTAL = "01234567"
_ESCAPES = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "F": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    **{digit: chr(int(digit)) for digit in _OCTAL},
}
_WORDS: dict[str, object] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": None,
    "undefined": None,
}


def read_text(text: str) -> object:
    """Read one JSON value that fills ``text``.

    Raises RemoteProtocolError with the position (in characters) and the cause.
    """
    reader = _Reader(text)
    value = reader.value(0)
    reader.blank()
    if reader.position < len(text):
        raise reader.error("text behind the value")
    return value


class _Reader:
    """A cursor over the text."""

    __slots__ = ("position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def error(self, cause: str) -> RemoteProtocolError:
        near = self.text[self.position : self.position + 20]
        return RemoteProtocolError(
            f"JSON: {cause} at position {self.position}, near {near!r}", position=self.position
        )

    def blank(self) -> str:
        """Skip white space and comments; returns the next character, "" at the end."""
        text, position = self.text, self.position
        char = text[position : position + 1]
        if char and char not in " \t\r\n\f\b/":
            return char
        match = _BLANK.match(text, position)
        assert match is not None
        self.position = match.end()
        return text[self.position : self.position + 1]

    def value(self, depth: int) -> object:
        char = self.blank()
        if char in ("{", "["):
            if depth >= MAX_DEPTH:
                raise self.error(f"nests deeper than {MAX_DEPTH} levels")
            self.position += 1
            return self.object(depth + 1) if char == "{" else self.array(depth + 1)
        if char in ('"', "'"):
            return self.string(char)
        if char == "-" or (char.isascii() and char.isdigit()):
            return self.number()
        name = self.name()
        if name in _WORDS:
            return _WORDS[name]
        raise self.error("a value expected" if not name else f"unknown word {name!r:.40}")

    def name(self) -> str:
        match = _NAME.match(self.text, self.position)
        if match is None:
            return ""
        self.position = match.end()
        return match[0]

    def number(self) -> int | float:
        match = _NUMBER.match(self.text, self.position)
        if match is None:
            raise self.error("a number expected")
        whole, fraction, exponent = match.groups()
        if len(whole) > _MAX_DIGITS:
            raise self.error("a number too long")
        self.position = match.end()
        if fraction is None and exponent is None:
            return int(whole)
        return float(whole + (fraction or "") + (exponent or ""))

    def string(self, quote: str) -> str:
        plain = _PLAIN_DOUBLE if quote == '"' else _PLAIN_SINGLE
        text = self.text
        match = plain.match(text, self.position + 1)
        assert match is not None
        end = match.end()
        if text[end : end + 1] == quote:
            self.position = end + 1
            return match[0]
        pieces = [match[0]]
        while text[end : end + 1] == "\\":
            self.position = end
            pieces.append(self.escape())
            match = plain.match(text, self.position)
            assert match is not None
            pieces.append(match[0])
            end = match.end()
        if text[end : end + 1] != quote:
            raise self.error("a string without end")
        self.position = end + 1
        joined = "".join(pieces)
        if not joined.isascii():  # \\ud83d\\ude00 is one character
            joined = joined.encode("utf-16-le", "surrogatepass").decode(
                "utf-16-le", "surrogatepass"
            )
        return joined

    def escape(self) -> str:
        letter = self.text[self.position + 1 : self.position + 2]
        if letter in ("u", "x"):
            match = (_HEX4 if letter == "u" else _HEX2).match(self.text, self.position + 2)
            if match is None:
                raise self.error("broken escape")
            self.position = match.end()
            return chr(int(match[0], 16))
        char = _ESCAPES.get(letter)
        if char is None:
            raise self.error("unknown escape")
        self.position += 2
        return char

    def array(self, depth: int) -> list[object]:
        items: list[object] = []
        while True:
            char = self.blank()
            if char == ",":
                self.position += 1
            elif char == "]":
                self.position += 1
                return items
            else:
                items.append(self.value(depth))
                if self.blank() not in (",", "]"):
                    raise self.error("a comma or ] expected")

    def object(self, depth: int) -> dict[Hashable, object]:
        fields: dict[Hashable, object] = {}
        while True:
            char = self.blank()
            if char == ",":
                self.position += 1
                continue
            if char == "}":
                self.position += 1
                return fields
            key = self.key(char, depth)
            if self.blank() != ":":
                raise self.error("a colon expected")
            self.position += 1
            fields[key] = self.value(depth)
            if self.blank() not in (",", "}"):
                raise self.error("a comma or } expected")

    def key(self, char: str, depth: int) -> Hashable:
        if char in ('"', "'"):
            return self.string(char)
        if char in ("{", "[", "-") or (char.isascii() and char.isdigit()):
            return freeze(self.value(depth))
        name = self.name()
        if not name:
            raise self.error("a key expected")
        return name


# --- $ref ------------------------------------------------------------------------------------

_SEGMENT = re.compile(r"\.((?:\\.|[^.\[\\])*)|\[(\d{1,9})\]", re.DOTALL)
_MISSING = object()


def resolve_references(root: object, input_size: int) -> object:
    """Copy ``root`` with every ``{"$ref": path}``, also as a key, replaced by its target.

    A path without target is replaced by None. Raises RemoteProtocolError if references form a
    cycle, or if the result has more than ``input_size + MAX_REF_NODES`` values. A reference takes
    at least 12 bytes of text, so Java's references to repeated values stay far below this limit;
    it stops references to references, whose expansion would grow exponentially.
    """
    return Resolver(root, input_size + MAX_REF_NODES).copy(root, 0)


def _reference_path(node: object) -> str | None:
    if isinstance(node, FrozenObject):
        path: object = node.get("$ref") if len(node) == 1 else None
    elif isinstance(node, dict):
        path = node.get("$ref") if len(node) == 1 else None
    else:
        return None
    return path if isinstance(path, str) else None


class Resolver:
    """Copies at most ``node_limit`` values.

    Each path and each table of object keys is resolved once, so that the time is linear in the
    sizes of text and result.
    """

    __slots__ = ("node_limit", "nodes", "object_keys", "root", "targets")

    def __init__(self, root: object, node_limit: int) -> None:
        self.root = root
        self.nodes = 0
        self.node_limit = node_limit
        self.targets: dict[str, object] = {}
        self.object_keys: dict[int, dict[str, FrozenObject]] = {}

    def copy(self, node: object, depth: int) -> object:
        """Return a copy of ``node`` with references replaced; RemoteProtocolError if too large."""
        self.nodes += 1
        if self.nodes > self.node_limit:
            raise RemoteProtocolError(f"JSON: $ref expands to more than {self.node_limit} values")
        if not isinstance(node, (dict, list, FrozenObject)):
            return node
        if depth > 2 * MAX_DEPTH:
            raise _circle()
        path = _reference_path(node)
        if path is not None:
            target = self.locate(path, depth)
            return None if target is _MISSING else self.copy(target, depth + 1)
        if isinstance(node, list):
            return [self.copy(item, depth + 1) for item in node]
        if isinstance(node, FrozenObject):
            return freeze(self.copy(dict(node), depth + 1))
        return {self.copy_key(key, depth): self.copy(item, depth + 1) for key, item in node.items()}

    def copy_key(self, key: Hashable, depth: int) -> Hashable:
        """Return a copy of a key of an object: an object as a key may contain references."""
        if not isinstance(key, FrozenObject):
            return key
        return freeze(self.copy(key, depth + 1))

    def locate(self, path: str, depth: int) -> object:
        """Follow ``$.name[0]...``; _MISSING if there is no target or the path is invalid."""
        target = self.targets.get(path)
        if target is None:
            if depth > 2 * MAX_DEPTH:
                raise _circle()
            target = self.targets[path] = self.walk(path, depth)
        return target

    def walk(self, path: str, depth: int) -> object:
        """Follow a path from the root, without the table of known targets."""
        if not path.startswith("$"):
            return _MISSING
        node, position = self.root, 1
        while position < len(path):
            match = _SEGMENT.match(path, position)
            if match is None:
                return _MISSING
            position = match.end()
            name, number = match.groups()
            reference = _reference_path(node)
            if reference is not None:
                node = self.locate(reference, depth + 1)
            if number is not None and isinstance(node, list):
                node = node[int(number)] if int(number) < len(node) else _MISSING
            elif isinstance(node, dict):
                plain = re.sub(r"\\(.)", r"\1", name if number is None else number)
                node = self.entry(node, plain)
            else:
                return _MISSING
            if node is _MISSING:
                return _MISSING
        return node

    def entry(self, fields: dict[Hashable, object], name: str) -> object:
        """Return a field by name, by number, by the ``toString`` of an object key, or a key.

        The path of a key written as reference ends with ``null``, because fastjson has no name for
        it; it denotes the first object key of the map.
        """
        if name in fields:
            return fields[name]
        if name.lstrip("-").isascii() and name.lstrip("-").isdigit() and len(name) < 20:
            return fields.get(int(name), _MISSING)
        keys = self.object_keys.get(id(fields))
        if keys is None:
            keys = self.object_keys[id(fields)] = collect_object_keys(fields)
        key = keys.get(name)
        if key is None:
            return _MISSING
        return key if name == "null" else fields[key]


def _circle() -> RemoteProtocolError:
    return RemoteProtocolError("JSON: $ref runs in a circle")


def collect_object_keys(fields: dict[Hashable, object]) -> dict[str, FrozenObject]:
    """Return the object keys by their names in paths; the first one also as ``null``."""
    keys: dict[str, FrozenObject] = {}
    for key in fields:
        if isinstance(key, FrozenObject) and _reference_path(key) is None:
            keys.setdefault("null", key)
            keys.setdefault(_queue_to_string(key), key)
    return keys


def _queue_to_string(key: FrozenObject) -> str:
    """Return Java's ``toString`` of a MessageQueue key, its name in fastjson's paths."""
    return (
        f"MessageQueue [topic={key.get('topic')}, brokerName={key.get('brokerName')},"
        f" queueId={key.get('queueId')}]"
    )
