"""Conditions that all crash suites vary."""

import random

import pytest

from broker.store.consumequeue import consume_queue_store
from broker.store.logfile.mapped_file import LONG_WRITE, MappedFile
from broker.store.logfile.mapped_file_limit import MAX_MAPPED


@pytest.fixture(autouse=True)
def long_writes(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Write no record by a system call, some, or all: those of the suites are short."""
    monkeypatch.setattr(MappedFile, "long_write", rng.choice((LONG_WRITE, 200, 1)))


@pytest.fixture(autouse=True)
def mapped_files(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Keep all ConsumeQueue files of the suite's process mapped, a few, or one."""
    most = rng.choice((MAX_MAPPED, 3, 1))
    monkeypatch.setattr(consume_queue_store, "max_mapped_files", lambda: most)
