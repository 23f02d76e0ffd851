"""RecallHandle: the text by which a producer recalls a timer message before it is due.

URL-safe base64 of ``v1 topic broker timestamp uniqKey``, separated by blanks.

**Source:** RocketMQ RecallMessageHandle (5.3.2 and later).
"""

import base64
import binascii
from typing import Final, NamedTuple

from broker.errors import RemoteProtocolError

_VERSION: Final = "v1"
_FIELDS: Final = 5


class RecallHandle(NamedTuple):
    """A decoded handle; ``timestamp`` is text, because a foreign one need not be a number."""

    topic: str
    broker_name: str
    timestamp: str
    uniq_key: str


def encode_recall_handle(handle: RecallHandle) -> str:
    """Encode a handle as a broker adds it to the response of a send."""
    text = " ".join((_VERSION, *handle))
    return base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Decode a handle as Java does: padding may be absent, further fields are ignored.

    Raises RemoteProtocolError.
    """
    try:
        data = text.encode("ascii")
        if b"=" not in data:
            data += b"=" * (-len(data) % 4)
        parts = base64.b64decode(data, b"-_", validate=True).decode("utf-8", "replace").split(" ")
    except (UnicodeEncodeError, binascii.Error):
        raise RemoteProtocolError("recall handle: not URL-safe base64") from None
    while parts and not parts[-1]:
        parts.pop()
    if len(parts) < _FIELDS or parts[0] != _VERSION:
        raise RemoteProtocolError("recall handle: not of version v1 with five fields")
    return RecallHandle(*parts[1:_FIELDS])
