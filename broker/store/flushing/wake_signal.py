"""WakeSignal: wakes one sleeping thread; one C call to set it and one to wait for it.

The flushing thread holds the interpreter lock while it goes to sleep. With ``threading.Event`` that
takes 15 µs, and the event loop, which the thread has just woken, waits for the lock meanwhile.
"""

import threading


class WakeSignal:
    """As ``threading.Event`` for one waiting thread; a wait consumes the signal."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        # The lock is free while the signal is set.
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiting thread, or let its next wait return at once."""
        try:
            self._lock.release()
        except RuntimeError:
            pass  # set already

    def wait(self, timeout_seconds: float = -1) -> bool:
        """Wait until the signal is set, and clear it; False after the timeout (-1: none)."""
        return self._lock.acquire(timeout=timeout_seconds)
