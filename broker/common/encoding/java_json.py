"""JSON as written and read by fastjson 1.2: RocketMQ's bodies and config files.

Reading (:func:`loads`) tries, fastest first: msgspec (standard JSON), the standard library
(raw control characters, NaN), then the tolerant reader of ``java_json_reader``, which supports
fastjson's extensions: objects and unquoted numbers as map keys, ``$ref``, single quotes, unquoted
names, comments, extra commas.

Writing (:func:`dumps`) reproduces fastjson's output: fields in the given order, null fields
omitted, keys other than strings unquoted, doubles as by ``Double.toString``, and the tab-indented
"pretty" form of the files in ``config/``.

**Source:** fastjson 1.2.83 JSON#parse, MapSerializer, ListSerializer, CollectionCodec,
SerializeWriter#writeStringWithDoubleQuote; RocketMQ RemotingSerializable.
"""

from collections.abc import Callable, Iterable

import msgspec

from broker.common.encoding.java_values import MAX_DEPTH, FrozenObject, Lines
from broker.common.java import double_text
from broker.errors import LocalProtocolError, RemoteProtocolError

# --- reading ---------------------------------------------------------------------------------

_RETAINED = b"[]{}"
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(_RETAINED))


def loads(
    data: bytes | bytearray | memoryview | str, *, tolerant_limit_bytes: int | None = None
) -> object:
    """Decode a JSON text as Java does.

    Objects become dict with str keys; unquoted integer keys become int, object keys
    :class:`FrozenObject`. Integers are exact at any size, NaN becomes None. Empty or blank input
    returns None, like an absent body. A ``$ref`` is replaced by its target, by None if there is
    none. Raises RemoteProtocolError (with position) for text that is not JSON, nests deeper than
    MAX_DEPTH, has references beyond MAX_REF_NODES, or is longer than ``tolerant_limit_bytes`` and
    needs the tolerant reader or resolver (about 1 µs per byte; msgspec needs 10 ns).
    """
    if isinstance(data, str):
        raw = data.encode("utf-8", "replace")
    else:
        raw = bytes(data)
    try:
        value: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = _loads_tolerant(raw, tolerant_limit_bytes)
    except RecursionError:
        raise _too_deep() from None
    check_depth(raw, value)
    if b"$ref" in raw:
        _check_tolerant_limit(raw, tolerant_limit_bytes)
        from broker.common.encoding.java_json_reader import resolve_references

        value = resolve_references(value, len(raw))
    return value


def loads_standard(text: str) -> object:
    """Decode standard JSON plus raw control characters and NaN (None); ``$ref`` is not resolved.

    At most 0.1 µs per byte. Raises ValueError for any other text, RemoteProtocolError for text
    nested too deeply to decode.
    """
    import json

    try:
        return json.loads(text, strict=False, parse_constant=lambda _: None)
    except RecursionError:
        raise _too_deep() from None


def _loads_tolerant(raw: bytes, limit_bytes: int | None) -> object:
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    if not text.strip():
        return None
    try:
        return loads_standard(text)
    except ValueError:
        _check_tolerant_limit(raw, limit_bytes)
        from broker.common.encoding.java_json_reader import read_text

        return read_text(text)


def _check_tolerant_limit(raw: bytes, limit_bytes: int | None) -> None:
    if limit_bytes is not None and len(raw) > limit_bytes:
        raise RemoteProtocolError(
            f"JSON: {len(raw)} bytes that are not standard JSON without $ref, "
            f"above the limit of {limit_bytes}"
        )


def _too_deep() -> RemoteProtocolError:
    return RemoteProtocolError(f"JSON nests deeper than {MAX_DEPTH} levels")


def check_depth(raw: bytes, value: object) -> None:
    """Raise RemoteProtocolError if ``value``, read from ``raw``, nests deeper than MAX_DEPTH."""
    if _deeper_than_limit(raw, value):
        raise _too_deep()


def _deeper_than_limit(raw: bytes, value: object) -> bool:
    """Whether ``value`` nests too deeply; the brackets of ``raw`` usually suffice to decide."""
    brackets = raw.translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        shorter = brackets.replace(b"[]", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    if not brackets:
        return False
    level = [value]  # brackets inside strings, or too many levels: inspect the value itself
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for node in level:
            if isinstance(node, dict):
                below.extend(node.values())
                below.extend(key for key in node if isinstance(key, tuple))
            elif isinstance(node, (list, tuple)):
                below.extend(node)
        level = [node for node in below if isinstance(node, (dict, list, tuple))]
        if not level:
            return False
    return True


# --- writing ---------------------------------------------------------------------------------

_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
_ESCAPES = {code: f"\\u{code:04X}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}
_ESCAPES.update({ord(char): text for char, text in _SHORT_ESCAPES.items()})


def string_text(text: str) -> str:
    """Quote ``text`` with fastjson's escapes: controls only, upper-case hex."""
    return '"' + text.translate(_ESCAPES) + '"'


def standard_string_text(text: str) -> str:
    r"""Quote ``text`` for the standard-JSON route body: all non-ASCII as \\uXXXX, / as \\/.

    **Source:** RocketMQ ClientRequestProcessor (features BrowserCompatible, QuoteFieldNames).
    """
    quoted = text.translate(_ESCAPES).replace("/", "\\/")
    if not quoted.isascii():
        quoted = "".join(char if char.isascii() else _unicode_escape(char) for char in quoted)
    return '"' + quoted + '"'


def _unicode_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join("\\u" + units[i : i + 4] for i in range(0, len(units), 4))


def dumps(
    value: object, *, pretty: bool = False, sort_keys: bool = False, standard: bool = False
) -> str:
    """Encode ``value`` as Java does.

    Accepts None, bool, int, float, str, dict, list, tuple, sets, Lines, FrozenObject and msgspec
    structs (MessageQueue also as a key). ``pretty`` is the form of config files (tabs, no blank
    after the colon, no newline at the end). ``sort_keys`` sorts the keys as text. ``standard`` is
    the form of the route body for newer clients: all keys are sorted strings, all text is ASCII.
    Raises LocalProtocolError for other types and beyond MAX_DEPTH.
    """
    quote = standard_string_text if standard else string_text
    writer = _Writer(quote, pretty, sort_keys or standard, standard)
    writer.write(value, 0, False)
    return "".join(writer.pieces)


def dump_bytes(value: object, *, sort_keys: bool = False, standard: bool = False) -> bytes:
    """Encode as compact UTF-8 for the wire, see :func:`dumps`. Lone surrogates become ``?``."""
    return dumps(value, sort_keys=sort_keys, standard=standard).encode("utf-8", "replace")


class _Writer:
    """Appends the text of nested values to ``pieces``."""

    __slots__ = ("depth", "pieces", "pretty", "quote", "sort_keys", "standard")

    def __init__(
        self, quote: Callable[[str], str], pretty: bool, sort_keys: bool, standard: bool
    ) -> None:
        self.pieces: list[str] = []
        self.depth = 0
        self.quote = quote
        self.pretty = pretty
        self.sort_keys = sort_keys
        self.standard = standard

    def write(self, value: object, indent: int, under_bare_key: bool) -> None:
        if value is None:
            self.pieces.append("null")
        elif isinstance(value, str):
            self.pieces.append(self.quote(value))
        elif value is True:
            self.pieces.append("true")
        elif value is False:
            self.pieces.append("false")
        elif isinstance(value, int):
            self.pieces.append(str(int(value)))
        elif isinstance(value, float):
            text = double_text(value)
            self.pieces.append(text if text[-1] not in "Ny" else "null")
        else:
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise LocalProtocolError(f"a value nests deeper than {MAX_DEPTH} levels")
            self._write_container(value, indent, under_bare_key)
            self.depth -= 1

    def _write_container(self, value: object, indent: int, under_bare_key: bool) -> None:
        if isinstance(value, dict):
            self._write_map(value, indent)
        elif isinstance(value, FrozenObject):
            self._write_map(dict(value), indent)
        elif isinstance(value, (list, tuple, set, frozenset)):
            own_lines = self.pretty and (under_bare_key or isinstance(value, Lines))
            self._write_list(list(value), indent, own_lines)
        elif isinstance(value, msgspec.Struct):
            fields = msgspec.to_builtins(value, str_keys=True)
            self._write_map(dict(sorted(fields.items())), indent)
        else:
            raise LocalProtocolError(f"{type(value).__name__} has no JSON form: {value!r:.80}")

    def _write_map(self, value: dict[object, object], indent: int) -> None:
        pieces = self.pieces
        new_line = "\n" + "\t" * (indent + 1) if self.pretty else ""
        entries: Iterable[tuple[object, object]] = value.items()
        if self.sort_keys:
            entries = sorted(entries, key=lambda entry: str(entry[0]))
        comma = ""
        pieces.append("{")
        for key, item in entries:
            if item is None:
                continue  # fastjson omits null fields
            if isinstance(key, str) or self.standard:
                pieces.append(f"{comma}{new_line}{self.quote(str(key))}:")
                self.write(item, indent + 1, False)
            else:
                pieces.append(comma)
                self.write(key, indent + 1, False)
                pieces.append(":")
                self.write(item, indent + 1, True)
            comma = ","
        if self.pretty and value:
            pieces.append("\n" + "\t" * indent)
        pieces.append("}")

    def _write_list(self, items: list[object], indent: int, own_lines: bool) -> None:
        pieces = self.pieces
        if not items:
            pieces.append("[]")
            return
        inner_indent = indent + 1 if own_lines else indent
        new_line = "\n" + "\t" * inner_indent if own_lines else ""
        pieces.append("[" + new_line)
        for number, item in enumerate(items):
            if number:
                pieces.append("," + new_line)
            self.write(item, inner_indent, False)
        pieces.append("\n" + "\t" * indent + "]" if own_lines else "]")
