"""Decode ext fields into typed headers and encode them.

On the wire values are text: ``true``/``false``, decimal integers, plain text. Decoding follows Java
where clients rely on it: any other boolean text is false, a sign and leading zeros are accepted.
Unlike Java, ``1.0`` and ``1e3`` are accepted as integers, too.

**Source:** RocketMQ ``RemotingCommand#decodeCommandCustomHeader``, ``#makeCustomHeaderToNet``.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from msgspec import Meta

from broker.errors import RemoteProtocolError

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class RequestHeader(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True
):
    """Optional fields of every request.

    ``bname`` name of the target broker; ``ns`` namespace; ``nsd`` whether names already include
    the namespace; ``oway`` hint that the request is one-way.

    **Source:** RocketMQ ``RpcRequestHeader`` (5.x; ``bname`` also in late 4.9).
    """

    bname: str | None = None
    ns: str | None = None
    nsd: bool | None = None
    oway: bool | None = None


class TopicRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """A request about a topic; ``lo`` marks a queue of a static topic.

    **Source:** RocketMQ ``TopicRequestHeader``.
    """

    lo: bool | None = None


class ResponseHeader(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True
):
    """Base of all response headers; it has no fields."""


H = TypeVar("H", bound=msgspec.Struct)

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_convert = msgspec.convert


def decode_header_fields(header: type[H], ext: Mapping[str, str]) -> H:
    """Decode ext fields into a header; undeclared fields are ignored.

    Raises RemoteProtocolError naming the first missing or invalid field. (Java logs it and uses
    null, which causes a NullPointerException at the first use of the field.)
    """
    try:
        decoded = _convert(ext, header, strict=False)
    except msgspec.ValidationError:
        return _decode_slowly(header, ext)
    # msgspec reads the text "1" as true.
    flags = _flags(header)
    if not flags.isdisjoint(ext) and any(ext.get(wire) == "1" for wire in flags):
        return _decode_slowly(header, ext)
    return decoded


def encode_header_fields(header: msgspec.Struct) -> dict[str, str]:
    """Encode a header as ext fields; omits fields that are None."""
    ext: dict[str, str] = {}
    for name, wire in wire_names(type(header)).items():
        value = getattr(header, name)
        if value is None:
            continue
        if value is True:
            ext[wire] = "true"
        elif value is False:
            ext[wire] = "false"
        else:
            ext[wire] = value if type(value) is str else str(value)
    return ext


@cache
def wire_names(header: type[msgspec.Struct]) -> Mapping[str, str]:
    """Return attribute -> wire name of a header's fields, in the order of the declaration."""
    return dict(zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True))


@cache
def _kinds(header: type[msgspec.Struct]) -> dict[str, str]:
    """Map each wire name to ``bool``, ``int``, ``float`` or ``str``."""
    kinds = {}
    hints = get_type_hints(header)
    for name, wire in wire_names(header).items():
        text = str(hints[name])
        kinds[wire] = next((kind for kind in ("bool", "int", "float") if kind in text), "str")
    return kinds


@cache
def _flags(header: type[msgspec.Struct]) -> frozenset[str]:
    """Return the wire names of the boolean fields."""
    return frozenset(wire for wire, kind in _kinds(header).items() if kind == "bool")


def _decode_slowly(header: type[H], ext: Mapping[str, str]) -> H:
    values: dict[str, Any] = {}
    for wire, kind in _kinds(header).items():
        text = ext.get(wire)
        if text is None:
            continue
        if kind == "bool":
            values[wire] = text.lower() == "true"
        elif kind == "int" and _INTEGER.fullmatch(text) and len(text) < 40:
            values[wire] = int(text)
        else:
            values[wire] = text
    try:
        return _convert(values, header, strict=False)
    except msgspec.ValidationError as err:
        raise RemoteProtocolError(f"{header.__name__}: {_say(header, str(err), values)}") from None


def _say(header: type[msgspec.Struct], reason: str, values: dict[str, Any]) -> str:
    """Rewrite ``Expected `int`, got `str` - at `$.queueId``` with the field name and its value."""
    attributes = {wire: name for name, wire in wire_names(header).items()}
    cause, _, where = reason.partition(" - at `$.")
    wire = where.rstrip("`")
    if wire in values:
        value = str(values[wire])[:60]
        return f"field {wire} ({attributes[wire]}) is {value!r}: {cause[0].lower()}{cause[1:]}"
    missing = re.search(r"missing required field `(\w+)`", reason)
    if missing:
        return f"field {missing[1]} ({attributes[missing[1]]}) is missing"
    return reason
