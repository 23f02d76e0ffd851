"""Offline decoding of message ids.

A text of 32 digits can be parsed both as an offsetMsgId and as a uniqKey; only the port field
distinguishes them: the first four digits after the address are zero in an offsetMsgId and a
process id in a uniqKey.
"""

import msgspec

from broker.errors import ClientError, ProtocolError
from broker.message.message_id import parse_offset_msg_id, parse_uniq_key


class DecodedId(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields encoded in a message id.

    ``address`` and ``physicalOffset`` are the fields of an offsetMsgId, None when it cannot be one;
    ``ip``, ``pid``, ``classLoaderHash``, ``millisInMonth`` (since the 1st of the producer's month)
    and ``counter`` are the fields of a uniqKey. ``likely`` is ``offsetMsgId`` or ``uniqKey``.
    """

    id: str
    likely: str
    address: str | None = None
    physical_offset: int | None = None
    ip: str | None = None
    pid: int | None = None
    class_loader_hash: int | None = None
    millis_in_month: int | None = None
    counter: int | None = None


def decode_id(text: str) -> DecodedId:
    """Decode an id offline; ClientError when the text is not an id."""
    clean = text.strip()
    try:
        parts = parse_uniq_key(clean)
    except ProtocolError as error:
        raise ClientError(
            f"{text!r:.80} is neither an offsetMsgId nor a uniqKey",
            error.hint or "an id has 32 or 56 hexadecimal digits",
        ) from None
    address: str | None = None
    physical_offset: int | None = None
    try:
        host, port, offset = parse_offset_msg_id(clean)
        if port > 0:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            physical_offset = offset
    except ProtocolError:
        pass
    return DecodedId(
        id=clean.upper(),
        likely="uniqKey" if address is None else "offsetMsgId",
        address=address,
        physical_offset=physical_offset,
        ip=parts.ip,
        pid=parts.pid,
        class_loader_hash=parts.loader_hash,
        millis_in_month=parts.time_diff_ms,
        counter=parts.counter,
    )
