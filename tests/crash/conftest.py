"""Conditions that all crash suites vary."""

import random

import pytest

from broker.store.logfile.mapped_file import LONG_WRITE, MappedFile


@pytest.fixture(autouse=True)
def long_writes(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Write no record by a system call, some, or all: those of the suites are short."""
    monkeypatch.setattr(MappedFile, "long_write", rng.choice((LONG_WRITE, 200, 1)))
