"""The request mode of a group: stored by each broker, read back."""

import pytest

from broker.errors import ClientError
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from tests.support.live_broker import send, until


@pytest.fixture(autouse=True)
def topic(broker: BlockingEmbeddedBroker, library: MQAdmin) -> None:
    send(broker, "T", "a")
    until(lambda: library.routes.find("T"))
    library.apply(library.group.plan_create("g", settings={}, if_not_exists=True))


def test_a_mode_is_set_and_read_back(library: MQAdmin) -> None:
    assert library.mode.modes("g").items == []
    plan = library.mode.plan("g", "T", "POP", share=2)
    assert [change.before for change in plan.changes] == [None]
    assert library.mode.apply(plan).ok
    (row,) = library.mode.modes("g").items
    assert (row.topic, row.mode, row.pop_share_queue_num) == ("T", "POP", 2)
    assert library.mode.plan("g", "T", "POP", share=2).empty
    assert library.mode.modes("g", topic="U").items == []


def test_a_retry_topic_has_no_mode(library: MQAdmin) -> None:
    with pytest.raises(ClientError, match="is a retry topic"):
        library.mode.plan("g", "%RETRY%g", "POP")


def test_a_group_without_clients_has_no_assignments(library: MQAdmin) -> None:
    assert library.mode.assignments("g", "T").items == []
