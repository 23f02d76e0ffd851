"""SIGQUIT (``kill -3 PID``): the stacks of all threads on stderr, as a JVM; the daemon continues.

A thread waits for the signal, so the stacks appear even if the event loop or another thread hangs.
A handler of :mod:`faulthandler` would not need the interpreter lock, but it reads the frames of
threads that run at that moment: 9 of 400 daemons that had just started ended with SIGSEGV.
"""

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Final

from broker.common.thread_name import show_thread_name

_SIGNALS: Final = {signal.SIGQUIT}
# The stop does not wait longer for a write to a full pipe.
JOIN_S: Final = 1.0


@contextlib.contextmanager
def stack_dump_on_sigquit() -> Iterator[None]:
    """Wait for the signal during the block; without stderr or outside the main thread do nothing.

    All threads that are started in the block have the signal blocked.
    """
    # A closed stderr has no descriptor; its number may belong to a store file by now.
    if sys.__stderr__ is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    ended, woken = threading.Event(), threading.Event()
    arguments = sys.__stderr__.fileno(), ended, woken
    thread = threading.Thread(target=_dump, args=arguments, name="stack-dump", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        assert thread.ident is not None
        signal.pthread_kill(thread.ident, signal.SIGQUIT)
        woken.set()
        thread.join(JOIN_S)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _dump(fd: int, ended: threading.Event, woken: threading.Event) -> None:
    """Write the stacks at each signal until ``ended`` is set."""
    show_thread_name()
    while True:
        signal.sigwait(_SIGNALS)
        if ended.is_set():
            woken.wait()  # it may be another signal: the one of the stop needs the thread
            return
        left = stacks().encode(errors="backslashreplace")
        with contextlib.suppress(OSError):  # the reader of stderr has ended
            while left:
                left = left[os.write(fd, left) :]


def stacks() -> str:
    """The stacks of all threads but the calling one, the main thread last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames = sys._current_frames()
    del frames[threading.get_ident()]
    lines = []
    for ident in sorted(frames, key=lambda ident: (ident == main, ident)):
        lines.append(f"Thread 0x{ident:016x} {names.get(ident, '')} (most recent call last):\n")
        lines += traceback.format_stack(frames[ident])
        lines.append("\n")
    return "".join(lines)
