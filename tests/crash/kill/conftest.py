"""A real broker process to be killed, senders with a ledger of the acknowledged messages."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit import Audit
from tests.support.child import Child
from tests.support.kill_rounds import SETTINGS, KillRounds
from tests.support.load import Ledger, Senders


@pytest.fixture
def make_child(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """``make_child(flushDiskType="SYNC_FLUSH", …)``: a broker to be started and killed."""
    made: list[Child] = []

    def make(**settings: str) -> Child:
        made.append(Child(tmp_path / f"broker{len(made)}", **settings))
        return made[-1]

    yield make
    for child in made:
        child.close()


@pytest.fixture
def make_rounds(make_child: Callable[..., Child], rng: random.Random) -> Callable[..., KillRounds]:
    """``make_rounds(flushDiskType="SYNC_FLUSH", …)``: rounds over one such broker."""

    def make(**settings: Any) -> KillRounds:
        return KillRounds(make_child(**SETTINGS, **settings), rng)

    return make


@pytest.fixture
def make_senders(rng: random.Random) -> Callable[..., Senders]:
    """``make_senders(child, ledger, connections=…)``."""

    def make(child: Child, ledger: Ledger, **options: Any) -> Senders:
        return Senders(child, ledger, rng, **options)

    return make


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def make_audit() -> Callable[[Child, Ledger], Audit]:
    return Audit
