"""Compile the loops of ingest in a child process, and load them next to a serving event loop.

Imported when ingest is loaded, not at the start of a broker.
"""

import contextlib
import ctypes
import importlib.util
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from broker.machine_code.code_cache import CACHE_VARIABLE

log = logging.getLogger("broker.server")

COMPILE_LIMIT_S: Final = 300
SWITCH_INTERVAL_S: Final = 0.000_2
"""While a thread runs Python code, each callback of the event loop waits so long for the lock of
the interpreter at most; with Python's 5 ms, one iteration of many callbacks took 115 ms."""

PRIVATE_UMASK: Final = 0o077
LARGE_LIBRARY_BYTES: Final = 1 << 20
RTLD_LAZY: Final = 1


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """Let other threads have the interpreter lock often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def preload_libraries(packages: Sequence[str]) -> int:
    """Load the large shared libraries of packages without the interpreter lock; their number.

    An import holds the lock while the dynamic linker works, 30 ms for LLVM alone. A library that
    cannot be loaded by itself is left to the import.
    """
    loader = ctypes.CDLL(None)
    loader.dlopen.argtypes = (ctypes.c_char_p, ctypes.c_int)
    loader.dlopen.restype = ctypes.c_void_p
    loaded = 0
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        folder = Path(spec.origin).parent
        found = [*folder.parent.glob(f"{name}.libs/*.so*"), *folder.rglob("*.so")]
        for path in found:
            if path.stat().st_size >= LARGE_LIBRARY_BYTES:
                loaded += loader.dlopen(os.fsencode(path), RTLD_LAZY) is not None
    return loaded


class CompilingChild:
    """The child process that fills the cache; ``stop`` may be called from another thread."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self.arguments = [sys.executable, "-P", "-m", "broker.server.ingest.warm_up"]
        self.on_started: Callable[[], None] = lambda: None
        self._stopped = threading.Event()
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def stopped(self) -> bool:
        """Whether the child is not needed any more."""
        return self._stopped.is_set()

    def run(self) -> None:
        """Run the child to its end; a failure only means that this process compiles."""
        if self.stopped:
            return
        root = str(Path(__file__).parents[3])
        known = os.environ.get("PYTHONPATH")
        try:
            self._running = subprocess.Popen(
                self.arguments,
                env={
                    **os.environ,
                    "PYTHONPATH": f"{root}{os.pathsep}{known}" if known else root,
                    CACHE_VARIABLE: str(self._cache),
                },
                umask=PRIVATE_UMASK,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            log.warning("vectorized ingest: no child process to compile in: %s", error)
            return
        self.on_started()
        if self._stopped.is_set():
            self._running.kill()
        try:
            status = self._running.wait(COMPILE_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._running.kill()
            status = self._running.wait()
        if status and not self.stopped:
            log.warning("vectorized ingest: the child that compiles ended with status %d", status)

    def stop(self) -> None:
        """End the child."""
        self._stopped.set()
        if self._running is not None:
            self._running.kill()
