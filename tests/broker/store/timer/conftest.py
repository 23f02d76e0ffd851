"""Timers in temporary folders, closed at the end of the test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.timers import Timers


@pytest.fixture
def make_timers(tmp_path: Path) -> Iterator[Callable[..., Timers]]:
    """``make_timers(setting=value, …)``: an open store with timers."""
    made: list[Timers] = []

    def make(**config: Any) -> Timers:
        timers = Timers(str(tmp_path / f"store{len(made)}"), **config)
        made.append(timers.open())
        return timers

    yield make
    for timers in made:
        if timers.store.is_open:
            timers.close()


@pytest.fixture
def timers(make_timers: Callable[..., Timers]) -> Timers:
    """A store with timers, default settings."""
    return make_timers()
