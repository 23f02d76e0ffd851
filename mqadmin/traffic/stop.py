"""Ending a long command in order: SIGINT and SIGTERM become a flag that is polled.

An exception in the middle of a call would leave open whether its messages were sent or printed.
Calls that may wait without limit and have no effect yet are marked as interruptible.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Records the first signal; a second one raises KeyboardInterrupt at once.

    ``number`` is the signal, 0 if none arrived. Outside of the main thread signals are not
    handled, :meth:`request` still works.
    """

    def __init__(self) -> None:
        self.number = 0
        self._interruptible = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> "StopSignal":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        repeated = bool(self.number)
        self.number = self.number or number
        if repeated or self._interruptible:
            raise KeyboardInterrupt

    def request(self, number: int = signal.SIGINT) -> None:
        """Record a signal as if it had arrived."""
        self.number = self.number or number

    @property
    def requested(self) -> bool:
        """Whether the command is to end."""
        return bool(self.number)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal raise KeyboardInterrupt in here, also one that arrived before."""
        self._interruptible = True
        try:
            if self.number:
                raise KeyboardInterrupt
            yield
        finally:
            self._interruptible = False
