"""CopyChains: which half message a copy made by a check comes from, bounded and in memory.

A producer may end a transaction with the position of an older copy, because its answer and the
check cross. The op record then lists the newest copy too: otherwise that one would be checked
again and a second commit would follow, as with a Java broker. After a restart the chains are
empty, which costs such a duplicate and nothing else.

**Source:** no Java counterpart.
"""

from typing import Final

MAX_COPIES: Final = 20_000
"""Copies remembered: about 4 MiB. The oldest are forgotten first."""


class CopyChains:
    """queue offset of a copy → first copy, and first copy → newest copy."""

    def __init__(self, limit: int = MAX_COPIES) -> None:
        self._limit = limit
        self._first: dict[int, int] = {}
        self._newest: dict[int, int] = {}
        self._committed: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._first) + len(self._newest) + len(self._committed)

    def copied(self, old: int, new: int) -> None:
        """Note that the half message at queue offset ``old`` was copied to ``new``."""
        first = self._first.get(old, old)
        self._first[new] = first
        self._newest.pop(first, None)
        self._newest[first] = new
        for table in (self._first, self._newest):
            if len(table) > self._limit:
                del table[next(iter(table))]

    def decided(self, offset: int, *, commit: bool) -> list[int]:
        """Note a decision about the copy at ``offset``; return the queue offsets it decides."""
        first = self._first.get(offset, offset)
        newest = self._newest.get(first)
        if newest is None:
            return [offset]
        if commit:
            self._committed[first] = None
            if len(self._committed) > self._limit:
                del self._committed[next(iter(self._committed))]
        return [offset] if newest == offset else [offset, newest]

    def is_committed(self, offset: int) -> bool:
        """Return whether a copy of the half message at ``offset`` was committed already."""
        return self._first.get(offset, offset) in self._committed
