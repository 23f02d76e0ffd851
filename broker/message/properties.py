"""The property string of a message: ``name 0x01 value 0x02`` repeated, UTF-8.

::

    |KEYS|01|key1 key2|02|TAGS|01|TagA|02|        5.x; 4.9 stores it without the last 02

Decoding follows Java exactly: a piece without 0x01, with an empty name or an empty value is
dropped, further 0x01 belong to the value, of equal names the last is used.

**Source:** RocketMQ MessageDecoder#string2messageProperties, #messageProperties2String.
"""

from collections.abc import Mapping

from broker.errors import LocalProtocolError

NAME_VALUE_SEPARATOR = b"\x01"
PROPERTY_SEPARATOR = b"\x02"
PROPERTIES_MAX_SIZE = 32767  # the length field of a record is a signed short


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode properties in the given order, each terminated by 0x02.

    Raises LocalProtocolError if a name contains 0x01 or 0x02 or is empty, or a value contains
    0x02. The size is checked when the record is encoded.
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    if text.count("\x02") != len(properties) or text.count("\x01") != len(properties):
        for name, value in properties.items():
            if "\x01" in name or "\x02" in name or "\x02" in value:
                raise LocalProtocolError(
                    f"property {name!r:.80} holds a separator character (0x01, 0x02)"
                )
    if "" in properties:
        raise LocalProtocolError("a property without name")
    return text.encode("utf-8", "replace")


def decode_properties(raw: bytes | memoryview | str) -> dict[str, str]:
    """Decode a property string (bytes, or text as in a request header) by Java's rules.

    Invalid UTF-8 is decoded as U+FFFD, as in Java. Never raises.
    """
    text = raw if isinstance(raw, str) else bytes(raw).decode("utf-8", "replace")
    properties: dict[str, str] = {}
    for piece in text.split("\x02"):
        name, _, value = piece.partition("\x01")
        if name and value:
            properties[name] = value
    return properties


def peek_property(raw: bytes, name: bytes) -> bytes | None:
    """Return one property of the raw string, None if absent; same rules, without splitting."""
    needle = b"\x02" + name + b"\x01"
    end = len(raw)
    while True:
        at = raw.rfind(needle, 0, end)
        if at < 0:
            break
        start = at + len(needle)
        stop = raw.find(b"\x02", start)
        if stop < 0:
            stop = len(raw)
        if stop > start:
            return raw[start:stop]
        end = at + 1  # an empty value counts as absent: look for an earlier one
    if raw.startswith(needle[1:]):
        start = len(needle) - 1
        stop = raw.find(b"\x02", start)
        if stop < 0:
            stop = len(raw)
        if stop > start:
            return raw[start:stop]
    return None


def append_property(raw: bytes, name: bytes, value: bytes) -> bytes:
    """Append a pair to the string; it overrides an earlier one with the same name."""
    if raw and raw[-1] != 2:
        raw += b"\x02"
    return b"%b%b\x01%b\x02" % (raw, name, value)


def remove_property(raw: bytes, name: bytes) -> bytes:
    """Remove all pairs with that name; the bytes of the others are unchanged."""
    start = name + b"\x01"
    if start not in raw:
        return raw
    pieces = [piece for piece in raw.split(b"\x02") if not piece.startswith(start)]
    return b"\x02".join(pieces)


def set_property(raw: bytes, name: bytes, value: bytes) -> bytes:
    """Replace all pairs with that name by one pair at the end."""
    return append_property(remove_property(raw, name), name, value)
