"""The conditions of a query about a store."""

from typing import Final

import msgspec


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows to return, and the form of bodies; None selects all.

    ``from_offset`` (first) and ``to_offset`` (end, exclusive) are physical offsets for the log and
    the index, queue offsets for ConsumeQueues. ``begin_ms`` and ``end_ms`` (exclusive) bound the
    storeTimestamp. ``key`` is a word of KEYS or a uniqKey, ``id`` an offsetMsgId or a uniqKey.
    ``body`` is "none", "text", "hex" or "base64"; ``raw`` shows it as stored.
    """

    topic: str | None = None
    queue_id: int | None = None
    key: str | None = None
    id: str | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    body: str = "none"
    raw: bool = False
    check_crc: bool = True


ALL_ROWS: Final = Query()
