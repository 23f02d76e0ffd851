"""TagCodes: the tags codes of the TAGS texts that occur, computed once each.

**Source:** RocketMQ MessageExtBrokerInner#tagsString2tagsCode.
"""

from typing import Final

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
