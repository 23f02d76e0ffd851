"""Both paths for the tests of ingest: ``compare(reads, prepare, **broker.conf)``."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.remoting.ingest import LEAST_FRAMES
from broker.remoting.server import RemotingServer
from broker.server.ingest.figures import IngestFigures
from tests.support.desk import Desk
from tests.support.ingest_pair import IngestRun, Outcome, Read, Turn


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
    code_cache = importlib.import_module("broker.machine_code.code_cache")
    monkeypatch.setattr(code_cache, "chosen", list(code_cache.chosen))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def compare(tmp_path: Path) -> Callable[..., Outcome]:
    """Send reads to both paths; assert equal outcomes; return the vectorized one."""
    pytest.importorskip("numba", reason="ingest needs the extra 'fast'")
    number = 0

    def compare(
        reads: Sequence[Read] | Sequence[Turn],
        prepare: Callable[[Desk], None],
        *,
        watched: bool = False,
        least_frames: int = LEAST_FRAMES,
        **properties: str,
    ) -> Outcome:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        turns = [[read] if isinstance(read[0], int) else read for read in reads]

        def attach_least(*to: Any) -> None:
            attach(*to)
            to[1].ingest.least_frames = least_frames

        fast = IngestRun(folder / "fast", properties, attach_least, watched=watched)
        fast_outcome = fast.run(turns, prepare)
        check_order(turns, fast_outcome)
        plain = IngestRun(folder / "plain", properties, watched=watched)
        plain_outcome = plain.run(fast_outcome.served, prepare)
        assert plain_outcome.taken == 0
        assert fast_outcome.replies == plain_outcome.replies
        assert fast_outcome.closed == plain_outcome.closed
        assert fast_outcome.counters == plain_outcome.counters
        assert fast_outcome.arrivals == plain_outcome.arrivals
        assert fast_outcome.files == plain_outcome.files
        return fast_outcome

    return compare


def check_order(turns: Sequence[Turn], outcome: Outcome) -> None:
    """Each connection's frames were served in order, and in the turn in which they arrived.

    Bytes after a frame that closed the connection are not served.
    """
    received: dict[int, bytes] = {}
    served: dict[int, bytes] = {}
    for reads, ones in zip(turns, outcome.served, strict=True):
        for number, data in reads:
            received[number] = received.get(number, b"") + data
        for number, data in ones:
            served[number] = served.get(number, b"") + data
        for number, data in received.items():
            done = served.get(number, b"")
            assert data.startswith(done)
            rest = data[len(done) :]
            assert outcome.closed[number] or len(rest) < 8 or is_incomplete(rest)


def is_incomplete(data: bytes) -> bool:
    """Whether bytes end before the frame that starts with them."""
    return len(data) < 4 + int.from_bytes(data[:4], "big")
