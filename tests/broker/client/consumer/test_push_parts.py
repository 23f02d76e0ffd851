"""Which parts a push consumer has for which settings."""

import pytest

from broker.client.config import MessageModel
from broker.client.listener.concurrently import ConsumeConcurrentlyService
from broker.client.listener.orderly import ConsumeOrderlyService
from broker.client.offset.offset_store import LocalFileOffsetStore, RemoteBrokerOffsetStore
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member
from tests.support.virtual_time import run_virtual

BROADCASTING = MessageModel.BROADCASTING


@pytest.mark.parametrize(
    ("orderly", "settings", "pops"),
    [
        (False, {}, False),
        (False, {"client_rebalance": False}, True),
        (True, {"client_rebalance": False}, False),
        (False, {"client_rebalance": False, "message_model": BROADCASTING}, False),
    ],
)
def test_listener_and_model_decide_about_service_offsets_and_pop(
    orderly: bool, settings: dict[str, object], pops: bool, tmp_path: object
) -> None:
    cluster = FakeCluster()
    cluster.create("T")

    async def main() -> None:
        member = Member(cluster, "m", orderly=orderly, offset_dir=str(tmp_path), **settings)
        async with member.consumer as consumer:
            parts = consumer.running_parts()
            kind = ConsumeOrderlyService if orderly else ConsumeConcurrentlyService
            assert isinstance(parts.service, kind)
            local = settings.get("message_model") is BROADCASTING
            store = LocalFileOffsetStore if local else RemoteBrokerOffsetStore
            assert isinstance(parts.offsets, store)
            assert (parts.pop is not None) is pops

    run_virtual(main(), cluster.clock)
