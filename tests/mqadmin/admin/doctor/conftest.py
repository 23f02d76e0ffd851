"""A cluster in memory with one name server and the brokers broker-a and broker-b."""

from collections.abc import Iterator

import pytest

from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeCluster


@pytest.fixture(autouse=True)
def no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host that runs the tests is not examined."""
    monkeypatch.setattr("mqadmin.admin.doctor.cluster.is_this_host", lambda address: False)


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    for name in ("broker-a", "broker-b"):
        made.add(name).config |= {"brokerPermission": "6", "flushDiskType": "SYNC_FLUSH"}
    return made


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[MQAdmin]:
    with cluster.admin() as session:
        yield session
