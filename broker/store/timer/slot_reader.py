"""SlotReader: the units of one slot that is due, oldest first, in steps of bounded length.

The chain of a slot leads backwards, so it is read to its start before the first delivery. Memory
is 8 bytes per message and a digest per recall. Units that join the slot meanwhile are read in a
further pass.

**Source:** RocketMQ TimerMessageStore#dequeue.
"""

import hashlib
from array import array
from collections.abc import Callable
from typing import Final

from broker.store.format.timer import TimerLogUnit
from broker.store.timer.timer_log import MAGIC_DELETE, MAGIC_ROLL, TimerLog
from broker.store.timer.timer_wheel import Chain

_DIGEST_BYTES: Final = 16


class SlotReader:
    """Reads one slot: :meth:`read` until it returns True, then :meth:`next` until it is None.

    ``delete_key_of(unit)`` returns the key of the message that a unit recalls, None if its record
    is missing.
    """

    def __init__(
        self,
        log: TimerLog,
        time_ms: int,
        chain: Chain,
        delete_key_of: Callable[[TimerLogUnit], bytes | None],
    ) -> None:
        self.time_ms = time_ms
        self._log = log
        self._delete_key_of = delete_key_of
        self._position = self.last = chain.last
        self._stop = -1
        self._positions = array("q")
        self._markers = array("q")
        self._deleted: set[bytes] = set()

    def read(self, steps: int) -> bool:
        """Read up to ``steps`` units of the chain; True once its start is reached."""
        log, positions = self._log, self._positions
        while self._position > self._stop:
            if steps <= 0:
                return False
            steps -= 1
            position = self._position
            unit = log.read(position)
            if unit is None:
                self._position = -1
                break
            if unit.magic & MAGIC_DELETE and not unit.magic & MAGIC_ROLL:
                self._markers.append(position)
                key = self._delete_key_of(unit)
                if key is not None:
                    self._deleted.add(_digest(key))
            else:
                positions.append(position)
            before = unit.previous_position
            self._position = before if before < position else -1
        return True

    def next(self) -> TimerLogUnit | None:
        """The oldest unit that is not done; None without any. :meth:`done` moves on."""
        while self._positions:
            unit = self._log.read(self._positions[-1])
            if unit is not None:
                return unit
            self._positions.pop()
        return None

    def done(self) -> None:
        """Count the unit of :meth:`next` as delivered, recalled or rolled."""
        self._positions.pop()

    def recalls(self, key: bytes) -> bool:
        """Whether a unit of the slot recalls the message with this key."""
        return bool(self._deleted) and _digest(key) in self._deleted

    @property
    def recall_count(self) -> int:
        """Recalls read so far."""
        return len(self._markers)

    def extend(self, chain: Chain | None) -> bool:
        """Start a pass over the units that joined the slot, whose chain now is ``chain``.

        The last pass must have ended. Returns False if no unit joined.
        """
        if chain is None or chain.last == self.last:
            return False
        self._stop, self._position = self.last, chain.last
        self.last = chain.last
        return True

    def rest(self) -> list[int]:
        """Positions of the recalls and of the units that are not done, oldest first."""
        return sorted([*self._markers, *self._positions])


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()
