"""BackPressure: a bound on asynchronous sends in flight, by number and by bytes.

**Source:** RocketMQ ``DefaultMQProducer#backPressureForAsyncSendNum``, ``#…Size``; Java has it off
by default, here a producer that never waits would keep unbounded bytes.
"""

import asyncio
from collections import deque


class BackPressure:
    """Admits sends in the order of arrival while both bounds hold.

    A send larger than the byte bound is admitted alone.
    """

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self.max_count = max(1, max_count)
        self.max_bytes = max(1, max_bytes)
        self.count = 0
        self.bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def _fits(self, size: int) -> bool:
        if self.count >= self.max_count:
            return False
        return self.count == 0 or self.bytes + size <= self.max_bytes

    async def acquire(self, size: int) -> None:
        """Wait until ``size`` bytes are admitted; a cancelled wait takes nothing."""
        if not self._waiting and self._fits(size):
            self._take(size)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, future)
        self._waiting.append(entry)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release(size)  # it was admitted and cancelled in the same loop turn
            else:
                self._waiting.remove(entry)
                self._admit()  # it may have been the one that did not fit
            raise

    def release(self, size: int) -> None:
        """Release the bytes and the slot of one send."""
        self.count -= 1
        self.bytes -= size
        self._admit()

    def _take(self, size: int) -> None:
        self.count += 1
        self.bytes += size

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, future = self._waiting.popleft()
            if not future.done():
                self._take(size)
                future.set_result(None)
