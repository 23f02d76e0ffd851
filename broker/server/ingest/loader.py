"""IngestLoader: loads vectorized ingest into a running broker, once the traffic warrants it.

::

    waiting ─ many pipelined sends ─ loading ─┬─ active
                                              └─ unavailable: the plain path stays

Importing numba and loading machine code cost a second of processor time and about 130 MiB, so a
broker that receives few messages never does it. A child process fills the cache first; then a
thread imports the modules and loads the code. Reads are served by the plain path meanwhile.

The environment variable ``MQ_INGEST`` decides instead of the setting: with ``plain`` a broker never
loads, with ``fast`` it loads at its start and offers each turn, whatever its size: the suites of
the plain path then check this one.
"""

import contextlib
import importlib
import importlib.util
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from broker.remoting.ingest import LEAST_FRAMES, Segment, starts_with_send
from broker.server.context import BrokerContext
from broker.server.ingest.figures import IngestFigures
from broker.server.processor.send.parts import SendParts

if TYPE_CHECKING:
    from broker.remoting.server import RemotingServer

Done = Callable[[BaseException | None], None]
InThread = Callable[[Callable[[], None], Done], None]

log = logging.getLogger("broker.server")

PERIOD_S: Final = 10.0
START_SENDS: Final = 10_000
"""Sends within one period, in reads of several, that start the loading: 1,000 per second."""

REQUIRED: Final = ("numpy", "numba")
LIBRARIES: Final = ("numpy", "llvmlite")  # packages of large shared libraries
FORCE_VARIABLE: Final = "MQ_INGEST"
_one_at_a_time: Final = threading.Lock()  # loads of the brokers of one process


class Child(Protocol):
    """A process that fills the cache of machine code."""

    def run(self) -> None:
        """Run it to its end."""
        ...

    def stop(self) -> None:
        """End it; it does not start any more."""
        ...


class IngestLoader:
    """Takes no frame; replaces itself at ``server.ingest`` by the compiled loops."""

    least_frames = LEAST_FRAMES

    def __init__(
        self,
        context: BrokerContext,
        server: "RemotingServer",
        parts: Callable[[], SendParts],
        figures: IngestFigures,
        in_thread: InThread,
    ) -> None:
        self._context = context
        self._server = server
        self._parts = parts
        self._figures = figures
        self._in_thread = in_thread
        self._period_ends_s = 0.0
        self._left = START_SENDS
        self._install: Callable[[], None] | None = None
        self._stopped = threading.Event()
        self._child: Child | None = None
        figures.state = "waiting"

    def take(self, segments: Sequence[Segment]) -> int:
        """Count sends; start loading when there were many of them."""
        # As many as a read has frames like its first one: exact for traffic that matters.
        sends = sum(
            one.frames for one in segments if not one.position and starts_with_send(one.data)
        )
        now_s = time.monotonic()
        if now_s > self._period_ends_s:
            self._period_ends_s = now_s + PERIOD_S
            self._left = START_SENDS
        self._left -= sends
        if self._left <= 0 and self._figures.state == "waiting":
            self.start()
        return len(segments)

    def start(self) -> None:
        """Load in a thread; the plain path serves all reads until it has ended."""
        self._figures.state = "loading"
        self._in_thread(self._load, self._loaded)

    def force(self) -> None:
        """Load now, and take every read."""
        self._figures.state = "loading"
        code_cache = importlib.import_module("broker.machine_code.code_cache")
        with _one_at_a_time, contextlib.closing(code_cache.open_folder()) as cache:
            self._import(cache.path, least_frames=1)
        self._loaded(None)

    def stop(self) -> None:
        """End the loading; called when the broker stops."""
        self._stopped.set()
        if self._child is not None:
            self._child.stop()

    def _compile(self, child: "Child") -> None:
        """Fill the cache of machine code in a child process."""
        self._child = child
        if self._stopped.is_set():  # a stop that came before it saw the child
            child.stop()
        child.run()

    def _load(self) -> None:
        """Import and load; runs in a thread."""
        compiling = importlib.import_module("broker.server.ingest.compiling")
        code_cache = importlib.import_module("broker.machine_code.code_cache")
        with _one_at_a_time:
            with compiling.short_turns():  # 40 ms of reading sources
                folder = code_cache.open_folder()
            with contextlib.closing(folder):
                self._compile(compiling.CompilingChild(folder.path))
                if self._stopped.is_set():
                    return
                with compiling.short_turns():
                    compiling.preload_libraries(LIBRARIES)
                    self._import(folder.path, LEAST_FRAMES)

    def _import(self, cache: Path, least_frames: int) -> None:
        importlib.import_module("broker.machine_code.code_cache").use_folder(cache)
        kernels = importlib.import_module("broker.server.ingest.warm_up").load()
        copies = importlib.import_module("broker.store.pulling.record_copies")
        module = importlib.import_module("broker.server.ingest.vectorized_ingest")

        def install() -> None:
            ingest = module.VectorizedIngest(
                self._context, self._server, self._parts, kernels, self._figures
            )
            ingest.least_frames = least_frames
            self._context.on_config_change.append(ingest.settings_changed)
            self._server.ingest = ingest
            self._context.store.reader.copies = copies.RecordCopies(self._context.store.reader)

        self._install = install

    def _loaded(self, error: BaseException | None) -> None:
        """Use the loops; runs on the event loop."""
        if self._stopped.is_set():
            return
        if error is None and self._install is not None:
            self._install()
            self._figures.state = "active"
            log.info("vectorized ingest: active")
            return
        self._figures.state = f"unavailable: {error}"
        self._server.ingest = None
        log.warning("vectorized ingest: unavailable, the plain path serves: %s", error)


def offer_ingest(
    context: BrokerContext,
    server: "RemotingServer",
    parts: Callable[[], SendParts],
    in_thread: InThread,
) -> IngestLoader | None:
    """Let whole reads take the vectorized path, where nothing but the store refuses a send.

    None if they cannot. Parameters as in :class:`IngestLoader`.
    """
    if not is_wanted(context.config.vectorized_ingest_enable) or context.config.is_slave:
        return None
    if context.durability.refuses:  # each put asks for its replicas first
        return None
    missing = missing_packages()
    if missing:
        context.ingest.state = f"unavailable: not installed: {', '.join(missing)}"
        return None
    loader = IngestLoader(context, server, parts, context.ingest, in_thread)
    server.ingest = loader
    if is_forced():
        loader.force()
    return loader


def is_forced() -> bool:
    """Whether this process is to load ingest at the start of a broker."""
    return os.environ.get(FORCE_VARIABLE) == "fast"


def is_wanted(enabled: bool) -> bool:
    """Whether a broker may load ingest; ``enabled`` is the setting."""
    return {"fast": True, "plain": False}.get(os.environ.get(FORCE_VARIABLE, ""), enabled)


def missing_packages() -> list[str]:
    """Return the packages of the extra ``fast`` that are not installed; imports none."""
    return [name for name in REQUIRED if importlib.util.find_spec(name) is None]
