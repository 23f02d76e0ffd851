"""An embedded broker for the tests of this package."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.client import ClientConfig
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.session import AdminSession, ClusterAccess
from mqadmin.admin.topic import TopicAdmin

SMALL = {
    "mappedFileSizeCommitLog": "8388608",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "enablePropertyFilter": "true",
    "waitTimeMillsInSendQueue": "60000",
}


@pytest.fixture(scope="package")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traffic") / "store"


@pytest.fixture(scope="package")
def embedded(store_path: Path) -> Iterator[BlockingEmbeddedBroker]:
    with BlockingEmbeddedBroker(str(store_path), SMALL) as broker:
        yield broker


@pytest.fixture
def client(embedded: BlockingEmbeddedBroker) -> ClientConfig:
    return ClientConfig(namesrv=embedded.namesrv_address)


@pytest.fixture
def access(embedded: BlockingEmbeddedBroker) -> ClusterAccess:
    return ClusterAccess(namesrv=(embedded.namesrv_address,), timeout_ms=20_000)


@pytest.fixture
def admin(embedded: BlockingEmbeddedBroker) -> Iterator[AdminSession]:
    with AdminSession([embedded.namesrv_address], timeout_ms=30_000) as session:
        yield session


@pytest.fixture
def new_topic(admin: AdminSession) -> Callable[..., str]:
    """``new_topic("Orders", queues=4)`` creates a topic and returns its name."""

    def create(name: str, queues: int = 4) -> str:
        topics = TopicAdmin(admin)
        topics.apply(topics.plan_create(name, queues=queues))
        return name

    return create
