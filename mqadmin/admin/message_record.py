"""Rows of messages, made from what a broker answered."""

from collections.abc import Iterable, Iterator

import msgspec

from broker.errors import ProtocolError
from broker.message.message import MessageExt
from broker.message.record import body_crc
from mqadmin.message_row import MessageRow, body_text, row_of

#: A body larger than this after decompression is shown as stored.
PAYLOAD_LIMIT_BYTES = 64 * 1024 * 1024


class BodyView(msgspec.Struct, frozen=True, kw_only=True):
    """How bodies are shown: ``encoding`` none, text, hex or base64; ``raw`` as stored."""

    encoding: str = "none"
    raw: bool = False


NO_BODY = BodyView()


def record_of(
    message: MessageExt, broker_name: str | None, view: BodyView | None = None
) -> MessageRow:
    """The row of a message; a body that cannot be shown as asked is shown in hex."""
    body, encoding = shown_body(message, view or NO_BODY)
    return row_of(
        message,
        broker_name,
        crc_ok=body_crc(message.body) == message.body_crc,
        body=body,
        body_encoding=encoding,
    )


def shown_body(message: MessageExt, view: BodyView) -> tuple[str | None, str | None]:
    """The body as text and the name of its encoding, (None, None) when none is asked for."""
    if view.encoding == "none":
        return None, None
    data = bytes(message.body)
    if not view.raw:
        try:
            data = message.payload(PAYLOAD_LIMIT_BYTES)
        except ProtocolError:
            # a body that does not decompress is still worth seeing
            return data.hex(), "hex"
    return body_text(data, view.encoding)


def unwrapped(messages: Iterable[MessageExt]) -> Iterator[MessageExt]:
    """The messages with each inner batch replaced by what is in it."""
    for message in messages:
        if message.is_inner_batch:
            from broker.message.batch import unwrap_inner_batch

            yield from unwrap_inner_batch(message)
        else:
            yield message
