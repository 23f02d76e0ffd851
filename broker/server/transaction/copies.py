"""CopyChains: which half message a copy made by a check comes from, bounded and in memory.

A producer may end a transaction with the position of an older copy, because its answer and the
check cross. The op record then lists every copy: otherwise the newest one would be checked again
and a second commit would follow, as with a Java broker. It also decides older copies that the
next start scans again because progress was not persisted yet. After a restart the chains are
empty, which costs such a duplicate and nothing else.

**Source:** no Java counterpart.
"""

from typing import Final

MAX_CHAINS: Final = 10_000
"""Half messages remembered: about 4 MiB. The oldest are forgotten first."""
MAX_COPIES: Final = 16
"""Copies remembered of one half message, the newest."""


class _Chain:
    """The copies of one half message, oldest first."""

    __slots__ = ("committed", "offsets")

    def __init__(self, offset: int) -> None:
        self.offsets = [offset]
        self.committed = False


class CopyChains:
    """queue offset of any copy → its chain."""

    def __init__(self, limit: int = MAX_CHAINS) -> None:
        self._limit = limit
        self._chains: dict[_Chain, None] = {}
        self._chain_of: dict[int, _Chain] = {}

    def __len__(self) -> int:
        return len(self._chain_of)

    def copied(self, old: int, new: int) -> None:
        """Note that the half message at queue offset ``old`` was copied to ``new``."""
        chain = self._chain_of.get(old)
        if chain is None:
            chain = self._chain_of[old] = _Chain(old)
        self._chains.pop(chain, None)
        self._chains[chain] = None
        chain.offsets.append(new)
        self._chain_of[new] = chain
        if len(chain.offsets) > MAX_COPIES:
            del self._chain_of[chain.offsets.pop(0)]
        if len(self._chains) > self._limit:
            oldest = next(iter(self._chains))
            del self._chains[oldest]
            for offset in oldest.offsets:
                del self._chain_of[offset]

    def decided(self, offset: int, *, commit: bool) -> list[int]:
        """Note a decision about the copy at ``offset``; return the queue offsets it decides."""
        chain = self._chain_of.get(offset)
        if chain is None:
            return [offset]
        chain.committed = chain.committed or commit
        return list(chain.offsets)

    def is_committed(self, offset: int) -> bool:
        """Return whether a copy of the half message at ``offset`` was committed already."""
        chain = self._chain_of.get(offset)
        return chain is not None and chain.committed
