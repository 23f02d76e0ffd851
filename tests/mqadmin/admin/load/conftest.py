"""A cluster in memory with one name server and the brokers broker-a and broker-b."""

from collections.abc import Iterator

import pytest

from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.add("broker-a")
    made.add("broker-b")
    return made


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[MQAdmin]:
    with cluster.admin() as session:
        yield session
