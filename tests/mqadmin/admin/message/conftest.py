"""Fixtures of callers whose peers answer by script."""

import pytest

from broker.remoting.rpc.caller import Caller
from tests.support.scripted_peers import Scripted


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
def caller(scripted: Scripted) -> Caller:
    return Caller(["ns:1", "ns:2"], scripted)
