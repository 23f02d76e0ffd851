"""A store on a simulated disk, driven by seeded scripts, and the data that a cut must keep."""

import pytest

from broker.store import message_store
from tests.support.crash_script import InlineWorker, Sim


@pytest.fixture(autouse=True)
def inline_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine without threads: every run of a script is the same."""
    monkeypatch.setattr(message_store, "Worker", InlineWorker)
    monkeypatch.setattr(message_store.FlushService, "start", lambda self: None)
    monkeypatch.setattr(message_store.DirectoryMonitor, "start", lambda self: None)


@pytest.fixture
def sim() -> type[Sim]:
    return Sim
