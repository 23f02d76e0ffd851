"""TagCodes: the tags codes of the TAGS texts that occur, computed once each; delivery times.

**Source:** RocketMQ MessageExtBrokerInner#tagsString2tagsCode.
"""

from collections.abc import Mapping
from typing import Final

from broker.common.java import INT32_MAX, parse_number
from broker.message.properties import peek_property
from broker.store.format.consumequeue import tags_code

# Bounds of the tags cache, which is cleared when full: clients can send arbitrary tags.
MAX_TAGS: Final = 10_000
MAX_KEPT_TAG_BYTES: Final = 256


class TagCodes:
    """Cache of tags codes by TAGS text."""

    __slots__ = ("codes",)

    def __init__(self) -> None:
        self.codes: dict[bytes, int] = {}

    def code(self, tags: bytes) -> int:
        """The tags code of a message with these TAGS."""
        code = self.codes.get(tags)
        if code is None:
            if len(tags) > MAX_KEPT_TAG_BYTES:
                return tags_code(tags)
            if len(self.codes) >= MAX_TAGS:
                self.codes.clear()
            code = self.codes[tags] = tags_code(tags)
        return code


def schedule_code(
    properties: bytes, store_timestamp: int, delay_levels: Mapping[int, int]
) -> int | None:
    """Delivery time (epoch ms), the tags code in a schedule queue; None without a delay level.

    **Source:** RocketMQ CommitLog#checkMessageAndReturnSize,
    ScheduleMessageService#computeDeliverTimestamp.
    """
    text = peek_property(properties, b"DELAY")
    requested = None if text is None else parse_number(text, 1, INT32_MAX)
    if requested is None:
        return None
    level = min(requested, max(delay_levels, default=0))
    return store_timestamp + delay_levels.get(level, 1000)
