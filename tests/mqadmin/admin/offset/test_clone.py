"""Offsets copied from group to group, read back, with the refusals."""

from collections.abc import Iterator

import pytest

from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.offset.clone import OffsetCloner
from tests.support.live_broker import SMALL, call, send, until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEmbeddedBroker]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("store")), SMALL) as running:
        send(running, "T", "a")
        yield running


@pytest.fixture
def cloner(broker: BlockingEmbeddedBroker) -> Iterator[OffsetCloner]:
    with MQAdmin([broker.namesrv_address], timeout_ms=60_000) as admin:
        until(lambda: admin.routes.find("T"))
        for group in ("source", "target"):
            admin.apply(admin.group.plan_create(group, if_not_exists=True))
        fields = {"consumerGroup": "source", "topic": "T", "queueId": 0, "commitOffset": 1}
        call(broker, RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        yield OffsetCloner(admin)


def test_committed_offsets_are_copied_and_read_back(cloner: OffsetCloner) -> None:
    plan = cloner.plan("source", "target", "T")
    assert [(one.target, one.before, one.after) for one in plan.changes] == [
        ("broker-a 0", None, {"consumerOffset": 1})
    ]
    outcome = cloner.apply(plan)
    assert outcome.ok
    assert outcome.items[0].read_back == {"consumerOffset": 1}
    assert cloner.plan("source", "target", "T").empty


def test_impossible_copies_are_refused(cloner: OffsetCloner) -> None:
    with pytest.raises(ClientError, match="the source and the target"):
        cloner.plan("source", "source", "T")
    with pytest.raises(ClientError, match="no committed offset in topic T"):
        cloner.plan("none", "target", "T")
    with pytest.raises(ClientError, match="no route"):
        cloner.plan("source", "target", "none")
