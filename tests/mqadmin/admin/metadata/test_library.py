"""Metadata from one cluster to another: idempotent, nothing deleted, fields to ignore."""

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig
from broker.remoting.protocol.body.auth import PolicyEntryInfo, UserInfo
from mqadmin.admin.metadata.library import MetadataAdmin, scope_of
from tests.support.access_broker import AccessTable
from tests.support.fake_brokers import FakeCluster

ALL = scope_of(None, None, cluster=None, namespaces=None, settings=True)


def scope(*ignored, only=None):
    return scope_of(only, ignored, cluster=None, namespaces=None, settings=False)


@pytest.fixture
def source(admin, cluster, broker_a, broker_b):
    """Content of a cluster with two brokers that differ in one topic and one setting."""
    for broker in (broker_a, broker_b):
        broker.topics["orders"] = TopicConfig(
            topic_name="orders", perm=4, attributes={"message.type": "FIFO"}
        )
        broker.groups["g"] = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
        table = AccessTable().serve(broker)
        table.users["alice"] = UserInfo(
            username="alice", password="secret-1", user_type="Super", user_status="enable"
        )
        table.rules["User:alice"] = {
            "Topic:orders": PolicyEntryInfo(
                resource="Topic:orders", actions=["Pub"], decision="Allow"
            )
        }
    broker_b.topics["only-b"] = TopicConfig(topic_name="only-b")
    broker_b.config = broker_b.config | {"flushDelayOffsetInterval": "5"}
    content, listing = MetadataAdmin(admin, cluster.clock).export(ALL)
    assert not listing.errors
    return content


@pytest.fixture
def other():
    """Another cluster: brokers of the same names, nothing in them."""
    made = FakeCluster()
    for name in ("broker-a", "broker-b"):
        AccessTable().serve(made.add(name))
    with made.admin() as session:
        yield made, MetadataAdmin(session)


def test_the_same_objects_of_every_broker_are_one_item(source) -> None:
    found = [(item.kind, item.name, item.broker_name) for item in source.items]
    assert found == [
        ("acl", "User:alice", None),
        ("group", "g", None),
        ("setting", "settings", None),
        ("setting", "settings", "broker-a"),
        ("setting", "settings", "broker-b"),
        ("topic", "only-b", "broker-b"),
        ("topic", "orders", None),
        ("user", "alice", None),
    ]
    assert "secret-1" not in repr(source)


def test_the_cluster_of_a_file_does_not_differ_from_it(source, admin) -> None:
    library = MetadataAdmin(admin)
    assert library.diff(source, ALL).items == []
    assert library.plan(source, ALL).empty


def test_a_file_applied_to_another_cluster_makes_them_equal(source, other) -> None:
    cluster, library = other
    selected = scope(only=["topic", "group", "acl"])
    missing = library.diff(source, selected).items
    assert {row.status for row in missing} == {"missing"}
    assert len(missing) == 2 + 2 + 2 + 1
    done = library.apply(library.plan(source, selected))
    assert done.ok, done.errors
    assert library.diff(source, selected).items == []
    assert library.plan(source, selected).empty
    assert cluster.brokers[1].topics["orders"].attributes == {"message.type": "FIFO"}
    assert "only-b" not in cluster.brokers[0].topics
    assert cluster.brokers[0].groups["g"].retry_max_times == 3


def test_an_ignored_field_is_kept_where_the_object_exists(source, other) -> None:
    cluster, library = other
    cluster.brokers[0].topics["orders"] = TopicConfig(
        topic_name="orders", perm=6, attributes={"message.type": "FIFO"}
    )
    selected = scope("perm", only=["topic"])
    assert library.apply(library.plan(source, selected)).ok
    perms = [broker.topics["orders"].perm for broker in cluster.brokers]
    assert perms == [6, 4]  # kept, and that of the file where the topic is new
    assert library.diff(source, selected).items == []
    (row,) = library.diff(source, scope(only=["topic"])).items
    assert (row.file, row.cluster) == ({"perm": 4}, {"perm": 6})


def test_objects_that_only_the_cluster_has_are_reported_and_kept(source, other) -> None:
    cluster, library = other
    cluster.brokers[0].topics["extra"] = TopicConfig(topic_name="extra")
    selected = scope(only=["topic"])
    assert library.apply(library.plan(source, selected)).ok
    (row,) = library.diff(source, selected).items
    assert (row.name, row.status, row.file) == ("extra", "extra", None)
    assert "extra" in cluster.brokers[0].topics


def test_a_user_without_a_password_is_updated_but_not_created(source, other) -> None:
    cluster, library = other
    selected = scope(only=["user"])
    for passwords, reason in (({}, "no password is given"), (None, "a plan file contains no")):
        plan = library.plan(source, selected, passwords)
        assert plan.empty
        assert all(error.message.startswith("user alice does not") for error in plan.errors)
        assert all(reason in error.message for error in plan.errors)
        assert len(plan.errors) == 2
    for broker in cluster.brokers:
        table = AccessTable().serve(broker)
        table.users["alice"] = UserInfo(
            username="alice", password="p", user_type="Normal", user_status="enable"
        )
    assert library.apply(library.plan(source, selected)).ok
    assert library.diff(source, selected).items == []


@pytest.mark.parametrize("name", ["alice", "MQADMIN_USER_PASSWORD_ALICE"])
def test_a_user_is_created_with_its_password_before_its_rules(source, other, name) -> None:
    cluster, library = other
    tables = [AccessTable().serve(broker) for broker in cluster.brokers]
    plan = library.plan(source, scope(only=["user", "acl"]), {name: "s3cret"})
    assert min(plan.changes, key=lambda one: one.step).subject == "user alice"
    assert "s3cret" not in repr([(one.before, one.after) for one in plan.changes])
    done = library.apply(plan)
    assert done.ok
    assert "s3cret" not in repr(done)
    for table in tables:
        assert table.users["alice"].password == "s3cret"
        assert table.users["alice"].user_type == "Super"
    assert library.plan(source, scope(only=["user"]), {}).empty


def test_settings_of_each_broker_are_applied_to_it(source, other) -> None:
    cluster, library = other
    selected = scope(only=["setting"])
    assert library.apply(library.plan(source, selected)).ok
    values = [broker.config["flushDelayOffsetInterval"] for broker in cluster.brokers]
    assert values == ["10000", "5"]
    del cluster.brokers[0].config["flushDelayOffsetInterval"]
    plan = library.plan(source, selected)
    assert plan.empty
    assert "broker-a has no setting flushDelayOffsetInterval: left out" in plan.warnings


def test_a_broker_that_the_cluster_lacks_is_an_error(source) -> None:
    made = FakeCluster()
    made.add("broker-x")
    with made.admin() as session:
        plan = MetadataAdmin(session).plan(source, scope(only=["topic"]))
    assert [error.message for error in plan.errors] == [
        "topic only-b: cluster DefaultCluster has no broker broker-b"
    ]
    assert [change.subject for change in plan.changes] == ["topic orders"]


def test_an_object_that_moved_since_the_plan_stays(source, other) -> None:
    cluster, library = other
    plan = library.plan(source, scope(only=["topic"]))
    cluster.brokers[0].topics["orders"] = TopicConfig(topic_name="orders", read_queue_nums=1)
    done = library.apply(plan)
    found = {item.target: item.status for item in done.items}
    assert found["topic orders broker-a"] == "moved"
    assert found["topic orders broker-b"] == "done"
    assert cluster.brokers[0].topics["orders"].read_queue_nums == 1


def test_kv_entries_go_to_every_name_server(admin, cluster, other) -> None:
    admin.namesrv.apply(admin.namesrv.plan_kv_put("ORDER_TOPIC_CONFIG", "orders", "broker-a:4"))
    content, _ = MetadataAdmin(admin).export(ALL)
    (item,) = [one for one in content.items if one.kind == "kv"]
    assert (item.name, item.broker_name) == ("ORDER_TOPIC_CONFIG/orders", None)
    _, library = other
    selected = scope(only=["kv"])
    assert library.apply(library.plan(content, selected)).ok
    assert library.diff(content, selected).items == []
