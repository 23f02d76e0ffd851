"""Message rows built from a broker's response."""

from collections.abc import Iterable, Iterator

import msgspec

from broker.errors import ProtocolError
from broker.message.batch import unwrap_inner_batch
from broker.message.message import MessageExt
from broker.message.record import body_crc
from mqadmin.message_row import MessageRow, body_text, row_of

#: A body larger than this after decompression is shown as stored.
PAYLOAD_LIMIT_BYTES = 64 * 1024 * 1024


class BodyView(msgspec.Struct, frozen=True, kw_only=True):
    """How bodies are shown: ``encoding`` none, text, hex or base64; ``raw``: not decompressed."""

    encoding: str = "none"
    raw: bool = False


NO_BODY = BodyView()


def record_of(
    message: MessageExt, broker_name: str | None, view: BodyView | None = None
) -> MessageRow:
    """Build the row of a message; a body that cannot be shown in the encoding is shown in hex."""
    body, encoding = shown_body(message, view or NO_BODY)
    return row_of(
        message,
        broker_name,
        crc_ok=body_crc(message.body) == message.body_crc,
        body=body,
        body_encoding=encoding,
    )


def shown_body(message: MessageExt, view: BodyView) -> tuple[str | None, str | None]:
    """Return the body as text and its encoding, (None, None) for encoding none."""
    if view.encoding == "none":
        return None, None
    data = bytes(message.body)
    if not view.raw:
        try:
            data = message.payload(PAYLOAD_LIMIT_BYTES)
        except ProtocolError:
            # a body that does not decompress is shown as stored
            return data.hex(), "hex"
    return body_text(data, view.encoding)


def unwrapped(messages: Iterable[MessageExt]) -> Iterator[MessageExt]:
    """Yield the messages; an inner batch is replaced by the messages in it."""
    for message in messages:
        if message.is_inner_batch:
            yield from unwrap_inner_batch(message)
        else:
            yield message
