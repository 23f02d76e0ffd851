"""An embedded cluster for the commands of maintenance."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.server.standalone import BlockingEmbeddedBroker

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}

Run = Callable[..., Any]


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEmbeddedBroker]:
    """A broker and a name server in this process, shared by all tests of this folder."""
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("live") / "store"), SMALL) as embedded:
        yield embedded


@pytest.fixture
def live(mqadmin: Run, running: BlockingEmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run one command line against the embedded cluster."""
    monkeypatch.setenv("NAMESRV_ADDR", running.namesrv_address)

    def run(line: str) -> Any:
        return mqadmin(*line.split())

    return run
