"""MemoryBudget: the memory used on behalf of peers, bounded per peer and in total.

A limit on the number of requests does not bound memory: each of a hundred requests may use 16 MiB.
All data that outlives the call that created it (partial frames, unsent responses, suspended pulls,
registrations, queued requests) is counted here under the peer that caused it.

::

    reserve(owner, n)    count n bytes before they are kept; False at the owner's limit: refuse
    charge(owner, n)     count n bytes that are kept already
    release(owner, n)    n bytes were freed
    adjust(owner, b, n)  of b bytes that were counted, n are kept now
    forget(owner)        the peer disconnected: release all its bytes
    on_over()            called when a charge exceeds a limit: close the ``over_limit`` owners

When the total limit is exceeded, ``over_limit`` selects the largest owners, not the latest one: a
peer that uses little is not closed because of others. With ``group_of`` (the host of a connection)
the largest owner is taken from the group with the largest sum, so that many small owners of one
host do not make a peer of another host the largest.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import Generic, TypeVar

Owner = TypeVar("Owner", bound=Hashable)


class MemoryBudget(Generic[Owner]):
    """Bytes by owner. ``owner_limit_bytes`` bounds each, ``total_limit_bytes`` the sum."""

    __slots__ = (
        "_group_of",
        "_held",
        "on_over",
        "owner_limit_bytes",
        "total_bytes",
        "total_limit_bytes",
    )

    def __init__(
        self,
        owner_limit_bytes: int,
        total_limit_bytes: int,
        group_of: Callable[[Owner], Hashable] | None = None,
    ) -> None:
        self._group_of = group_of or _itself
        self.owner_limit_bytes = owner_limit_bytes
        self.total_limit_bytes = total_limit_bytes
        self.total_bytes = 0
        self.on_over: Callable[[], None] | None = None
        self._held: dict[Owner, int] = {}

    def held_bytes(self, owner: Owner) -> int:
        """Return the bytes counted for one owner."""
        return self._held.get(owner, 0)

    def reserve(self, owner: Owner, size: int) -> bool:
        """Count ``size`` more bytes; at the owner's limit count nothing and return False."""
        if self._held.get(owner, 0) + size > self.owner_limit_bytes:
            return False
        self.charge(owner, size)
        return True

    def charge(self, owner: Owner, size: int) -> None:
        """Count ``size`` more bytes that exist already, even beyond the limits."""
        held = self._held[owner] = self._held.get(owner, 0) + size
        self.total_bytes += size
        over = held > self.owner_limit_bytes or self.total_bytes > self.total_limit_bytes
        if over and self.on_over is not None:
            self.on_over()

    def release(self, owner: Owner, size: int) -> None:
        """Count ``size`` bytes less; never below zero, because ``forget`` may have run first."""
        held = self._held.get(owner, 0)
        gone = min(size, held)
        self.total_bytes -= gone
        if held > gone:
            self._held[owner] = held - gone
        else:
            self._held.pop(owner, None)

    def adjust(self, owner: Owner, before: int, size: int) -> None:
        """Count ``size`` bytes, which exist already, in place of ``before`` bytes."""
        if size > before:
            self.charge(owner, size - before)
        else:
            self.release(owner, before - size)

    def forget(self, owner: Owner) -> None:
        """Release all bytes of an owner."""
        self.total_bytes -= self._held.pop(owner, 0)

    def over_limit(self) -> list[Owner]:
        """Return the owners to close so that the others are within the limits."""
        limit = self.owner_limit_bytes
        chosen = [owner for owner, held in self._held.items() if held > limit]
        rest = self.total_bytes - sum(self._held[owner] for owner in chosen)
        if rest <= self.total_limit_bytes:
            return chosen
        groups: dict[Hashable, list[tuple[int, Owner]]] = {}
        sums: Counter[Hashable] = Counter()
        for owner, held in sorted(self._held.items(), key=itemgetter(1)):
            if held <= limit:
                group = self._group_of(owner)
                groups.setdefault(group, []).append((held, owner))
                sums[group] += held
        while rest > self.total_limit_bytes:
            largest = max(sums, key=sums.__getitem__)
            held, owner = groups[largest].pop()
            sums[largest] -= held
            rest -= held
            chosen.append(owner)
        return chosen


def _itself(owner: Hashable) -> Hashable:
    return owner
