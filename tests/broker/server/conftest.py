"""A broker without sockets: real tables and store, a manual clock, connections made of lists."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.message.message import MessageExt
from broker.message.record import scan_records
from broker.remoting.protocol.command import RemotingCommand
from tests.support.desk import Desk, FakeConnection, decode


@pytest.fixture
def make_desk(tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """``make_desk(key=value, …)``: a broker core with these broker.conf keys."""
    desks: list[Desk] = []

    def make(**properties: str) -> Desk:
        desks.append(Desk(tmp_path / str(len(desks)), properties))
        return desks[-1]

    yield make
    for desk in desks:
        desk.end_turn()
        if desk.context.timers is not None:
            desk.context.timers.timers.shutdown()
        desk.store.shutdown()
        root = Path(desk.settings.store.root)
        assert not (root / "abort").exists(), "the store did not stop cleanly"


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    """A broker core with default settings."""
    return make_desk()


@pytest.fixture
def fake_connection() -> Callable[..., FakeConnection]:
    """``fake_connection("127.0.0.1:50001")``."""
    return FakeConnection


@pytest.fixture
def decode_frame() -> Callable[[Any], RemotingCommand]:
    """Reads the output of a processor or a fake connection as a peer would."""
    return decode


@pytest.fixture
def records() -> Callable[[RemotingCommand], list[MessageExt]]:
    """The records in an answer's body."""
    return lambda answer: list(scan_records(answer.body_bytes()))
