"""An asyncio loop on a manual clock: a wait ends at once and moves the clock by its length.

Only for code without threads and sockets: the clock moves as soon as nothing is ready.
"""

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from broker.common.clock import ManualClock

Result = TypeVar("Result")


class _Selector(selectors.BaseSelector):
    def __init__(self, clock: ManualClock) -> None:
        self._real = selectors.DefaultSelector()
        self._clock = clock
        self._left_ms = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = self._real.select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            raise RuntimeError("every task waits for something that cannot happen any more")
        self._left_ms += max(timeout, 0.0) * 1000
        whole_ms = int(self._left_ms) + 1  # rounded up: a timer must be due afterwards
        self._left_ms = 0.0
        self._clock.advance(whole_ms)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time is that of ``clock``."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        super().__init__(_Selector(clock))

    def time(self) -> float:
        return self.clock.monotonic_ms() / 1000


def run_virtual(main: Coroutine[Any, Any, Result], clock: ManualClock) -> Result:
    """Run ``main`` to its end on virtual time; no task may be left over."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main)
