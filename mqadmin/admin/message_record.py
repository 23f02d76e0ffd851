"""The record of one message as every command shows it, and how it is made from a stored one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from broker.errors import ProtocolError
from broker.message.message import MessageExt
from broker.message.record import body_crc

#: A body larger than this after decompression is shown as stored.
PAYLOAD_LIMIT_BYTES = 64 * 1024 * 1024


class BodyView(msgspec.Struct, frozen=True, kw_only=True):
    """How bodies are shown: ``encoding`` none, text, hex or base64; ``raw`` as stored."""

    encoding: str = "none"
    raw: bool = False


NO_BODY = BodyView()


class MessageRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One stored message with its place in log and queue.

    ``body`` is what the application sent (decompressed), as text in ``bodyEncoding`` ("utf-8",
    "hex" or "base64"), None unless asked for; ``bodySize`` and ``bodyCrc`` are of the stored body.
    ``crcOk`` compares the stored body with ``bodyCrc``. Times are epoch ms; ``keys`` are
    the blank-separated words of KEYS; ``magic`` is eight hex digits.
    """

    topic: str
    broker_name: str | None
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    magic: str
    body_crc: int
    crc_ok: bool
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    body_size: int
    body: str | None
    body_encoding: str | None
    tags: str | None
    keys: Sequence[str]
    uniq_key: str | None
    offset_msg_id: str
    properties: Mapping[str, str]


def record_of(
    message: MessageExt, broker_name: str | None, view: BodyView | None = None
) -> MessageRecord:
    """The record of a message; a body that cannot be shown as asked is shown in hex."""
    body, encoding = shown_body(message, view or NO_BODY)
    return MessageRecord(
        topic=message.topic,
        broker_name=broker_name,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        store_size=message.total_size,
        magic=f"{message.magic:08X}",
        body_crc=message.body_crc,
        crc_ok=body_crc(message.body) == message.body_crc,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_timestamp=message.store_timestamp,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
        body_size=message.body_size,
        body=body,
        body_encoding=encoding,
        tags=message.tags,
        keys=message.keys,
        uniq_key=message.uniq_key,
        offset_msg_id=message.offset_msg_id,
        properties=message.properties,
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
    if view.encoding == "text":
        try:
            return data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            return data.hex(), "hex"
    if view.encoding == "base64":
        from binascii import b2a_base64

        return b2a_base64(data, newline=False).decode("ascii"), "base64"
    return data.hex(), "hex"


def unwrapped(messages: Iterable[MessageExt]) -> Iterator[MessageExt]:
    """The messages with each inner batch replaced by what is in it."""
    for message in messages:
        if message.is_inner_batch:
            from broker.message.batch import unwrap_inner_batch

            yield from unwrap_inner_batch(message)
        else:
            yield message
