"""Configurations of topics and groups as brokers send and store them."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from broker.errors import RemoteProtocolError

T = TypeVar("T", bound=msgspec.Struct)


def config_from_wire(wire: Mapping[str, object], kind: type[T], subject: str) -> T:
    """Convert a configuration; absent or null fields get the defaults of ``kind``.

    Fields that ``kind`` does not have are kept in its field ``extra``. Numbers and booleans may be
    given as text, as fastjson allows. Raises RemoteProtocolError naming the invalid field.
    """
    names = frozenset(kind.__struct_encode_fields__) - {"extra"}
    known: dict[str, object] = {}
    extra: dict[str, object] = {}
    for name, value in wire.items():
        if name not in names:
            extra[name] = value
        elif value is not None:
            known[name] = value
    known["extra"] = extra
    try:
        return msgspec.convert(known, kind, strict=False)
    except msgspec.ValidationError as error:
        raise RemoteProtocolError(f"{subject}: {error}") from None
