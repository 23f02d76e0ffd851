"""The row of one message, the same in every command: online, offline, exported.

The only declaration of a message's output fields; ``admin`` builds it from a broker's response,
``inspector`` from a store file.
"""

from binascii import a2b_base64, b2a_base64

import msgspec

from broker.message.message import MessageExt


class MessageRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One stored message with its location in CommitLog and queue.

    ``body`` is the body as the application sent it (decompressed; as stored with --raw), in
    ``bodyEncoding`` ("utf-8", "hex", "base64"), None unless requested; ``bodySize`` and
    ``bodyCrc`` refer to the stored body, ``crcOk`` is true when its CRC matches. Times are epoch
    ms, ``keys`` the words of KEYS, ``magic`` eight hex digits. The messages of an inner batch have
    the physical offset and size of the record.
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
    keys: list[str]
    uniq_key: str | None
    offset_msg_id: str
    properties: dict[str, str]


def row_of(
    message: MessageExt,
    broker_name: str | None,
    *,
    crc_ok: bool,
    body: str | None = None,
    body_encoding: str | None = None,
) -> MessageRow:
    """Build the row of a decoded message; ``body`` is already encoded as text."""
    return MessageRow(
        topic=message.topic,
        broker_name=broker_name,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        store_size=message.total_size,
        magic=f"{message.magic:08X}",
        body_crc=message.body_crc,
        crc_ok=crc_ok,
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
        body_encoding=body_encoding,
        tags=message.tags,
        keys=message.keys,
        uniq_key=message.uniq_key,
        offset_msg_id=message.offset_msg_id,
        properties=message.properties,
    )


def body_text(data: bytes, form: str) -> tuple[str, str]:
    """Return a body in the requested form (text, hex, base64) and the encoding used.

    Text that is not valid UTF-8 is returned in hex.
    """
    if form == "text":
        try:
            return data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            return data.hex(), "hex"
    if form == "base64":
        return b2a_base64(data, newline=False).decode("ascii"), "base64"
    return data.hex(), "hex"


def body_bytes(text: str, form: str | None) -> bytes:
    """Return the body that :func:`body_text` encoded as ``text``; ValueError if it is not valid."""
    if form == "base64":
        return a2b_base64(text, strict_mode=True)
    if form == "hex":
        return bytes.fromhex(text)
    if form in (None, "utf-8", "text"):
        return text.encode("utf-8")
    raise ValueError(f"bodyEncoding {form!r:.40} is not utf-8, hex or base64")
