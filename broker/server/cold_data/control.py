"""ColdDataControl: cold bytes per group and window, and the limits of each group.

A plain object that receives the time as an argument.

**Source:** RocketMQ ColdDataCgCtrService.
"""

from typing import Final

from broker.common.group import is_system_group

WINDOW_MS: Final = 5_000
"""Period after which the counters start at 0 again."""

KEEP_MS: Final = 60_000
"""A group that has read no cold data for so long is removed from the table."""

MAX_GROUPS: Final = 100_000
"""Limit on configured groups: names come from the network."""


class ColdRead:
    """The cold bytes a group has read in this window, and when it read the last ones."""

    __slots__ = ("last_read_ms", "size")

    def __init__(self, now_ms: int) -> None:
        self.size = 0
        self.last_read_ms = now_ms


class ColdDataControl:
    """Counters and limits; ``group_limit`` and ``global_limit`` are bytes per window."""

    def __init__(self, now_ms: int, group_limit: int, global_limit: int) -> None:
        self.group_limit = group_limit
        self.global_limit = global_limit
        self.limits: dict[str, int] = {}
        self.reads: dict[str, ColdRead] = {}
        self.total = 0
        self._window_ms = now_ms

    def add(self, group: str, size: int, now_ms: int) -> None:
        """Count ``size`` cold bytes that a group has read."""
        self._start_window(now_ms)
        if size <= 0:
            return
        self.total += size
        read = self.reads.get(group)
        if read is None:
            read = self.reads[group] = ColdRead(now_ms)
        read.size += size
        read.last_read_ms = now_ms

    def exceeded(self, group: str, now_ms: int) -> bool:
        """Return whether a group must not read cold data in this window; system groups may."""
        self._start_window(now_ms)
        read = self.reads.get(group)
        if read is None or is_system_group(group):
            return False
        limit = self.limits.get(group, self.group_limit)
        return read.size >= limit or self.total >= self.global_limit

    def set_limit(self, group: str, limit: int) -> None:
        """Give a group its own limit; ValueError if too many groups have one."""
        if group not in self.limits and len(self.limits) >= MAX_GROUPS:
            raise ValueError(f"more than {MAX_GROUPS} groups have a limit of their own")
        self.limits[group] = limit

    def remove_limit(self, group: str) -> None:
        """Give a group the common limit again."""
        self.limits.pop(group, None)

    def _start_window(self, now_ms: int) -> None:
        if 0 <= now_ms - self._window_ms < WINDOW_MS:
            return
        self._window_ms = now_ms
        self.total = 0
        for group, read in list(self.reads.items()):
            if now_ms - read.last_read_ms >= KEEP_MS:
                del self.reads[group]
            read.size = 0
