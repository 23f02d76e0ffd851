"""Stores with delayed messages that a Java broker wrote."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqadmin.inspector.directory import StoreDirectory


@pytest.fixture(scope="session")
def delay_store(golden_store: Callable[..., Path]) -> StoreDirectory:
    return StoreDirectory(golden_store("delay-533") / "store")


@pytest.fixture(scope="session")
def pop_store(golden_store: Callable[..., Path]) -> StoreDirectory:
    return StoreDirectory(golden_store("pop-533") / "store")
