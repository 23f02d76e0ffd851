"""One running broker per module, and the library."""

from collections.abc import Iterator

import pytest

from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from tests.support.live_broker import SMALL


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEmbeddedBroker]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("store")), SMALL) as running:
        yield running


@pytest.fixture
def library(broker: BlockingEmbeddedBroker) -> Iterator[MQAdmin]:
    with MQAdmin([broker.namesrv_address], timeout_ms=60_000) as admin:
        yield admin
