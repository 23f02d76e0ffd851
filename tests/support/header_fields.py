"""Rules of ext headers, checked against Java's declarations in a short notation.

::

    topic:s!, queueId:i=-1, order:b=false, offset:l?

``s`` text, ``i`` 32-bit integer, ``l`` 64-bit integer, ``b`` boolean; ``!`` required, ``?`` absent
by default, ``=x`` default.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.header.fields import (
    RequestHeader,
    ResponseHeader,
    TopicRequestHeader,
    decode_header_fields,
    encode_header_fields,
)

BASES = (RequestHeader, TopicRequestHeader, ResponseHeader)
COMMON = {"bname", "ns", "nsd", "oway", "lo"}  # fields of every request
SAMPLES = {"s": "text é", "i": "7", "l": "-8", "b": "true"}
BOUNDS = {"i": 31, "l": 63}
NOTATION = "expected name:type with ! or ? or =default"


class Field(NamedTuple):
    """One field of a declaration; ``default`` is text, None if absent by default."""

    name: str
    type: str
    required: bool
    default: str | None


def parse(declared: str) -> list[Field]:
    """Parse a declaration."""
    found = []
    for item in filter(None, map(str.strip, declared.split(","))):
        name, _, rest = item.partition(":")
        assert rest[:1] in SAMPLES, f"{item}: {NOTATION}"
        assert rest[1:2] in ("!", "?", "="), f"{item}: {NOTATION}"
        default = rest[2:] if rest[1] == "=" else None
        found.append(Field(name, rest[0], rest[1] == "!", default))
    return found


def headers_of(module: object) -> set[type]:
    """Return the header classes that a module defines."""
    return {
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, RequestHeader | ResponseHeader)
        and value not in BASES
    }


def check_header(cls: type[msgspec.Struct], declared: str) -> None:
    """Check wire names, types, required fields, defaults and bounds of a header class."""
    fields = parse(declared)
    names = set(cls.__struct_encode_fields__)
    assert names - COMMON == {field.name for field in fields}, cls.__name__
    whole = {field.name: SAMPLES[field.type] for field in fields}
    assert encode_header_fields(decode_header_fields(cls, whole)) == whole
    least = {field.name: SAMPLES[field.type] for field in fields if field.required}
    defaults = {field.name: field.default for field in fields if field.default is not None}
    assert encode_header_fields(decode_header_fields(cls, least)) == {**defaults, **least}
    for field in fields:
        _check_field(cls, field, whole)


def _check_field(cls: type[msgspec.Struct], field: Field, whole: Mapping[str, str]) -> None:
    without = {name: text for name, text in whole.items() if name != field.name}
    if field.required:
        with pytest.raises(RemoteProtocolError, match=rf"{field.name}\b.*missing"):
            decode_header_fields(cls, without)
    else:
        decode_header_fields(cls, without)
    if field.type in BOUNDS:
        high = 1 << BOUNDS[field.type]
        for text in (str(-high), str(high - 1)):
            _decode(cls, whole, field.name, text)
        for text in (str(-high - 1), str(high), "", "1.5", "seven"):
            with pytest.raises(RemoteProtocolError, match=field.name):
                _decode(cls, whole, field.name, text)
    elif field.type == "b":
        for text, value in (("true", "true"), ("TRUE", "true"), ("yes", "false")):
            header = _decode(cls, whole, field.name, text)
            assert encode_header_fields(header)[field.name] == value


def _decode(cls: type[msgspec.Struct], whole: Mapping[str, str], name: str, text: str) -> Any:
    return decode_header_fields(cls, {**whole, name: text})
