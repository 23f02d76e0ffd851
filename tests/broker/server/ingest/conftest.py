"""Both paths for the tests of ingest: ``compare(reads, prepare, **broker.conf)``."""

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from broker.remoting.ingest import LEAST_FRAMES
from broker.remoting.server import RemotingServer
from broker.server.ingest.figures import IngestFigures
from tests.support.desk import Desk
from tests.support.ingest_pair import IngestRun, Outcome, Read


def attach(
    desk: Desk, server: RemotingServer, figures: IngestFigures, least: int = LEAST_FRAMES
) -> None:
    """Give a server the compiled loops; ``least``: frames from which a read is offered to them."""
    ingest = importlib.import_module("broker.server.ingest.vectorized_ingest")
    kernels = importlib.import_module("broker.server.ingest.warm_up").load()
    server.ingest = ingest.VectorizedIngest(
        desk.context, server, lambda: desk.sends.parts, kernels, figures
    )
    server.ingest.least_frames = least
    if least == 1:
        server.ingest.least_bytes = 1


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
        least: int = LEAST_FRAMES,
        **properties: str,
    ) -> Outcome:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        plain = IngestRun(folder / "plain", properties, watched=watched).run(reads, prepare)
        added = partial(attach, least=least)
        fast = IngestRun(folder / "fast", properties, added, watched=watched).run(reads, prepare)
        assert plain.taken == 0
        assert fast.replies == plain.replies
        assert fast.closed == plain.closed
        assert fast.counters == plain.counters
        assert fast.arrivals == plain.arrivals
        assert fast.files == plain.files
        return fast

    return compare
