"""An embedded cluster with a connected producer and consumer."""

from collections.abc import Iterator

import pytest

from broker.server.standalone import BlockingEmbeddedBroker
from tests.support.online_clients import Online, online_clients


@pytest.fixture(scope="session")
def online(embedded: BlockingEmbeddedBroker) -> Iterator[Online]:
    """Group billing with one client, which has consumed two messages of topic orders."""
    with online_clients(embedded) as running:
        yield running
