"""Both paths for the tests of ingest: ``compare(reads, prepare, **broker.conf)``."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from broker.remoting.server import RemotingServer
from broker.server.ingest.figures import IngestFigures
from tests.support.desk import Desk
from tests.support.ingest_pair import IngestRun, Outcome, Read


def attach(desk: Desk, server: RemotingServer, figures: IngestFigures) -> None:
    """Give a server the compiled loops."""
    ingest = importlib.import_module("broker.server.ingest.vectorized_ingest")
    kernels = importlib.import_module("broker.server.ingest.warm_up").load()
    server.ingest = ingest.VectorizedIngest(
        desk.context, server, lambda: desk.sends.parts, kernels, figures
    )


@pytest.fixture
def warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops are in memory, so that a broker loads them at once; its cache is an empty one."""
    pytest.importorskip("numba", reason="ingest needs the extra 'fast'")
    importlib.import_module("broker.server.ingest.warm_up").load()
    config = importlib.import_module("numba.core.config")
    monkeypatch.setattr(config, "CACHE_DIR", config.CACHE_DIR)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def compare(tmp_path: Path) -> Callable[..., Outcome]:
    """Send reads to both paths; assert equal outcomes; return the vectorized one."""
    pytest.importorskip("numba", reason="ingest needs the extra 'fast'")
    number = 0

    def compare(
        reads: Sequence[Read],
        prepare: Callable[[Desk], None],
        *,
        watched: bool = False,
        **properties: str,
    ) -> Outcome:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        plain = IngestRun(folder / "plain", properties, watched=watched).run(reads, prepare)
        fast = IngestRun(folder / "fast", properties, attach, watched=watched).run(reads, prepare)
        assert plain.taken == 0
        assert fast.replies == plain.replies
        assert fast.closed == plain.closed
        assert fast.counters == plain.counters
        assert fast.arrivals == plain.arrivals
        assert fast.files == plain.files
        return fast

    return compare
