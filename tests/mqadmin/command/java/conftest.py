"""An embedded cluster for the commands with a Java name."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.server.standalone import BlockingEmbeddedBroker
from tests.support.online_clients import Online, online_clients

Run = Callable[..., Any]

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEmbeddedBroker]:
    """A broker and a name server in this process, shared by the tests of a module."""
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("java") / "store"), SMALL) as running:
        yield running


@pytest.fixture(scope="module")
def online(embedded: BlockingEmbeddedBroker) -> Iterator[Online]:
    """Group billing with one client, which has consumed two messages of topic orders."""
    with online_clients(embedded) as running:
        yield running


@pytest.fixture
def java(mqadmin: Run, embedded: BlockingEmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run one line against the embedded cluster; ``$B`` is the broker, ``$N`` the name server."""
    monkeypatch.setenv("NAMESRV_ADDR", embedded.namesrv_address)

    def run(line: str, *words: str) -> Any:
        places = {"$B": embedded.address, "$N": embedded.namesrv_address}
        return mqadmin(*[places.get(word, word) for word in line.split()], *words)

    return run


@pytest.fixture
def topic(java: Run, request: pytest.FixtureRequest) -> str:
    """A topic with four queues, named after the test."""
    name = request.node.name.replace("[", "-").replace("]", "")[:100]
    assert java(f"updateTopic -b $B -t {name} -r 4 -w 4").status == 0
    return str(name)
