"""SIGTERM ends a command as Ctrl-C does: incomplete files are removed, locks are released.

cron, systemd and timeout(1) send it. By default it ends the process at once, so that a half copy of
a store stays under its final name.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt in here, unless the caller ignores or handles it."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
