from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.brokers.maintenance import BrokerMaintenance
from mqadmin.admin.brokers.one_shot import send_plan
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker, FakeCluster


def test_each_target_is_asked_once_and_a_failure_is_its_own(
    admin: MQAdmin, cluster: FakeCluster, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    broker_a.on_306 = lambda header, command: None
    broker_b.down = True
    plan = BrokerMaintenance(admin).plan_clean("expired-queues", cluster="DefaultCluster")
    outcome = send_plan(admin, plan, lambda reply: {"code": reply.code})
    assert [(item.target, item.status) for item in outcome.items] == [
        ("broker-a", "done"),
        ("broker-b", "failed"),
    ]
    assert outcome.items[0].read_back == {"code": 0}
    assert [error.target for error in outcome.errors] == ["broker-b"]
    assert cluster.asked(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE) == [
        broker_a.address,
        broker_b.address,
    ]
