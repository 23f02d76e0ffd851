"""The record of one message as every command shows it."""

from collections.abc import Mapping, Sequence

import msgspec


class MessageRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One stored message with its place in log and queue.

    ``body`` is what the application sent (decompressed), as text in ``bodyEncoding`` ("utf-8",
    "hex" or "base64"), None unless asked for; ``bodySize`` and ``bodyCrc`` are of the stored body.
    ``crcOk`` compares the stored body with ``bodyCrc``. Times are epoch ms; ``keys`` are
    the blank-separated words of KEYS.
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
