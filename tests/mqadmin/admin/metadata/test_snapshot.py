"""The objects of a cluster: the ones of RocketMQ itself are left out, secrets are not read."""

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.metadata.metadata_file import KINDS
from mqadmin.admin.metadata.snapshot import Snapshot, acl_fields, acl_info, portable, read_snapshot

RULES = {
    "Topic:orders": {"actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.1"], "decision": "Allow"},
    "Default Group:*": {"actions": ["Sub"], "sourceIps": [], "decision": "Deny"},
}


def snapshot(admin) -> Snapshot:
    return read_snapshot(
        admin,
        KINDS,
        masters=admin.topology.writers(),
        processes=admin.topology.all(),
        namespaces=["ORDER_TOPIC_CONFIG"],
    )


def test_objects_of_rocketmq_itself_are_left_out(admin, broker_a) -> None:
    for name in ("orders", "%RETRY%g", "%DLQ%g", "broker-a", "DefaultCluster", "TBW102"):
        broker_a.topics[name] = TopicConfig(topic_name=name)
    for name in ("g", "TOOLS_CONSUMER"):
        broker_a.groups[name] = SubscriptionGroupConfig(group_name=name)
    names = {(kind, name) for _, kind, name in snapshot(admin).states}
    assert names == {("topic", "orders"), ("group", "g"), ("setting", "settings")}


def test_settings_that_identify_a_broker_or_are_secret_are_left_out() -> None:
    config = {
        "brokerName": "a",
        "storePathRootDir": "/x",
        "sslKeyPassword": "p",
        "initAuthenticationUser": "{}",
        "accessSecret": "s",
        "flushDiskType": "ASYNC_FLUSH",
    }
    assert portable(config) == {"flushDiskType": "ASYNC_FLUSH"}


def test_a_broker_without_acl_has_no_users_and_one_that_denies_is_an_error(admin, broker_a) -> None:
    assert snapshot(admin).errors == []
    assert any("no ACL 2.0" in note for note in snapshot(admin).notes)
    broker_a.refuse(RequestCode.AUTH_LIST_USER, ResponseCode.NO_PERMISSION, "denied")
    found = snapshot(admin)
    assert [error.target for error in found.errors] == ["broker-a"]
    assert (broker_a.address, "user") in found.failed


def test_a_dead_broker_costs_only_its_objects(admin, broker_a, broker_b) -> None:
    broker_a.topics["orders"] = TopicConfig(topic_name="orders")
    broker_b.down = True
    found = snapshot(admin)
    assert (broker_a.address, "topic", "orders") in found.states
    assert {"topic", "group", "setting"} <= {
        kind for address, kind in found.failed if address == broker_b.address
    }


def test_rules_survive_the_way_to_the_wire_and_back() -> None:
    assert acl_fields(acl_info("User:a", RULES)) == RULES
