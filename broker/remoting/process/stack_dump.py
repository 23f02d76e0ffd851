"""SIGQUIT (``kill -3 PID``): the stacks of all threads on stderr, as a JVM; the daemon continues.

The stacks are written from the signal handler itself, so they appear even if the event loop or a
thread hangs. The names of the threads follow in the log as soon as the main thread runs.
"""

import contextlib
import faulthandler
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

log = logging.getLogger("broker.daemon")


@contextlib.contextmanager
def stack_dump_on_sigquit() -> Iterator[None]:
    """Install the handler for the block; without stderr or outside the main thread do nothing."""
    # A closed stderr has no descriptor; its number may belong to a store file by now.
    if sys.__stderr__ is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGQUIT, _log_names)
    faulthandler.register(signal.SIGQUIT, file=sys.__stderr__, all_threads=True, chain=True)
    try:
        yield
    finally:
        faulthandler.unregister(signal.SIGQUIT)
        signal.signal(signal.SIGQUIT, previous)


def _log_names(number: int, frame: FrameType | None) -> None:
    names = ", ".join(f"0x{one.ident or 0:016x} {one.name}" for one in threading.enumerate())
    log.info("SIGQUIT: stacks written to stderr; threads: %s", names)
