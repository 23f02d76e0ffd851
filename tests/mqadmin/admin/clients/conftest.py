"""One broker with connected clients per module, and the library."""

from collections.abc import Iterator

import pytest

from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from tests.support.live_broker import SMALL
from tests.support.online_clients import Online, online_clients


@pytest.fixture(scope="module")
def online(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    store = str(tmp_path_factory.mktemp("store"))
    with BlockingEmbeddedBroker(store, SMALL) as broker, online_clients(broker) as running:
        yield running


@pytest.fixture
def library(online: Online) -> Iterator[MQAdmin]:
    with MQAdmin([online.broker.namesrv_address], timeout_ms=60_000) as admin:
        yield admin
