"""Two brokers with ACL 2.0."""

import pytest

from tests.support.access_broker import AccessTable
from tests.support.fake_brokers import FakeBroker


@pytest.fixture
def tables(broker_a: FakeBroker, broker_b: FakeBroker) -> list[AccessTable]:
    return [AccessTable().serve(broker_a), AccessTable().serve(broker_b)]
