"""Unique keys for messages that their producer sent without one.

**Source:** RocketMQ MessageClientIDSetter#createUniqID, as the 5.x broker uses it.
"""

import os
import time
from typing import Final

from broker.common.address import parse_address
from broker.common.clock import Clock
from broker.message.message_id import compose_uniq_key

# Replaces the hash of Java's class loader: two processes with the same pid must differ.
PROCESS_MARK: Final = int.from_bytes(os.urandom(4), "big")


class UniqueKeys:
    """Make keys that are unique across calls and processes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counter = 0
        self._month = (0, 0)  # bounds of the current month in epoch ms; its start is the time base

    def next(self, address: str) -> str:
        """Return a new key of the broker at ``address``."""
        now_ms = self._clock.now_ms()
        if not self._month[0] <= now_ms < self._month[1]:
            self._month = month_bounds(now_ms)
        self._counter += 1
        host, _ = parse_address(address)
        return compose_uniq_key(
            host, os.getpid(), PROCESS_MARK, now_ms - self._month[0], self._counter
        )


def month_bounds(now_ms: int) -> tuple[int, int]:
    """Return start and end, in epoch ms, of the local month that contains ``now_ms``."""
    year, month = time.localtime(now_ms / 1000)[:2]
    start = time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))
    # mktime normalises month 13 to the next January.
    end = time.mktime((year, month + 1, 1, 0, 0, 0, 0, 0, -1))
    return int(start * 1000), int(end * 1000)
