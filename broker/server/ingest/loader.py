"""IngestLoader: loads vectorized ingest into a running broker, once the traffic warrants it.

::

    waiting ─ many reads with several frames ─ loading ─┬─ active
                                                        └─ unavailable: the plain path stays

Importing numba and loading machine code cost a second of processor time and about 130 MiB, so a
broker that receives few messages never does it. A child process fills the cache first; then a
thread imports the modules and loads the code. Reads are served by the plain path meanwhile.
"""

import importlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.remoting.ingest import IngestPeer
from broker.server.context import BrokerContext
from broker.server.ingest.figures import IngestFigures
from broker.server.processor.send.parts import SendParts

if TYPE_CHECKING:
    from broker.remoting.server import RemotingServer

Done = Callable[[BaseException | None], None]
InThread = Callable[[Callable[[], None], Done], None]

log = logging.getLogger("broker.server")

START_READS: Final = 500
"""Reads with several frames, within one period, that start the loading."""

PERIOD_S: Final = 10.0
COMPILE_LIMIT_S: Final = 300
CACHE_VARIABLE: Final = "NUMBA_CACHE_DIR"
REQUIRED: Final = ("numpy", "numba")


class IngestLoader:
    """Takes no frame; replaces itself at ``server.ingest`` by the compiled loops."""

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
        self._left = START_READS
        self._install: Callable[[], None] | None = None
        self._child = CompilingChild()
        figures.state = "waiting"

    def take(self, peer: IngestPeer, data: bytes) -> int:
        """Count the read; start loading when there were many of its kind."""
        self._figures.offered += 1
        now_s = time.monotonic()
        if now_s > self._period_ends_s:
            self._period_ends_s = now_s + PERIOD_S
            self._left = START_READS
        self._left -= 1
        if self._left == 0 and self._figures.state == "waiting":
            self.start()
        return 0

    def start(self) -> None:
        """Load in a thread; the plain path serves all reads until it has ended."""
        self._figures.state = "loading"
        self._in_thread(self._load, self._loaded)

    def stop(self) -> None:
        """End the loading; called when the broker stops."""
        self._child.stop()

    def _load(self) -> None:
        """Import and load; runs in a thread."""
        missing = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
        if missing:
            raise ModuleNotFoundError(f"not installed: {', '.join(missing)}")
        own_cache = make_cache_folder()
        try:
            compile_in_child(self._child)
            if self._child.stopped:
                return
            kernels = importlib.import_module("broker.server.ingest.warm_up").load()
        finally:
            if own_cache:
                os.environ.pop(CACHE_VARIABLE, None)
                shutil.rmtree(own_cache, ignore_errors=True)
        module = importlib.import_module("broker.server.ingest.vectorized_ingest")

        def install() -> None:
            ingest = module.VectorizedIngest(
                self._context, self._server, self._parts, kernels, self._figures
            )
            self._context.on_config_change.append(ingest.settings_changed)
            self._server.ingest = ingest

        self._install = install

    def _loaded(self, error: BaseException | None) -> None:
        """Use the loops; runs on the event loop."""
        if self._child.stopped:
            return
        if error is None and self._install is not None:
            try:
                self._install()
            except ValueError as failure:
                error = failure
        if error is None:
            self._figures.state = "active"
            log.info("vectorized ingest: active")
            return
        self._figures.state = f"unavailable: {error}"
        self._server.ingest = None
        level = logging.INFO if isinstance(error, ModuleNotFoundError) else logging.WARNING
        log.log(level, "vectorized ingest: unavailable, the plain path serves: %s", error)


def make_cache_folder() -> str:
    """Make numba's cache usable: return a temporary folder if it cannot write its folders.

    numba raises if it can write neither next to the module nor in the user's cache folder. The
    returned folder is to be removed after loading; empty: none is needed.
    """
    if os.environ.get(CACHE_VARIABLE):
        return ""
    next_to_module = Path(__file__).parent / "__pycache__"
    in_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    if any(can_write(folder) for folder in (next_to_module, in_home)):
        return ""
    folder = tempfile.mkdtemp(prefix="mqbroker-ingest-")
    os.environ[CACHE_VARIABLE] = folder
    return folder


def can_write(folder: Path) -> bool:
    """Whether a file can be made in a folder, which is created if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


class CompilingChild:
    """The child process that fills the cache; ``stop`` may be called from another thread."""

    def __init__(self) -> None:
        self.arguments = [sys.executable, "-m", "broker.server.ingest.warm_up"]
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
                env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{known}" if known else root},
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


def compile_in_child(child: CompilingChild) -> None:
    """Fill the cache; returns early if ``child`` is stopped."""
    child.run()
