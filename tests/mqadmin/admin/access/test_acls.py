"""Access rules on every broker: merged by subject, read back."""

import pytest

from broker.errors import ClientError, ConfigError
from mqadmin.admin.access.acls import AclAdmin, Rule
from mqadmin.admin.facade import MQAdmin
from tests.support.access_broker import AccessTable
from tests.support.fake_brokers import FakeCluster

ORDERS = Rule(
    subject="User:alice", resources=["Topic:orders"], actions=["Pub", "Sub"], decision="Allow"
)
GROUP = Rule(
    subject="User:alice",
    resources=["Group:g"],
    actions=["Sub"],
    decision="Deny",
    source_ips=["10.0.0.0/8"],
)


@pytest.fixture
def acl(admin: MQAdmin, tables: list[AccessTable]) -> AclAdmin:
    assert admin.acl.apply(admin.acl.plan_create(ORDERS)).ok
    return admin.acl


def test_rules_are_created_on_every_broker(acl: AclAdmin) -> None:
    assert acl.apply(acl.plan_create(GROUP)).ok
    rows = acl.get("User:alice", broker="broker-b").items
    assert [(row.resource, row.actions, row.source_ips, row.decision) for row in rows] == [
        ("Topic:orders", ["Pub", "Sub"], [], "Allow"),
        ("Group:g", ["Sub"], ["10.0.0.0/8"], "Deny"),
    ]
    assert len(acl.list(subject="alice").items) == 4
    assert acl.list(subject="bob").items == []


def test_a_second_rule_for_a_resource_is_refused(acl: AclAdmin) -> None:
    with pytest.raises(ClientError, match=r"has a rule for Topic:orders on broker-a"):
        acl.plan_create(ORDERS)


def test_an_update_replaces_one_rule_and_keeps_the_others(acl: AclAdmin) -> None:
    acl.apply(acl.plan_create(GROUP))
    changed = Rule(
        subject="User:alice", resources=["Topic:orders"], actions=["All"], decision="Deny"
    )
    plan = acl.plan_update(changed)
    assert plan.changes[0].before == {
        "Topic:orders": "Allow Pub,Sub",
        "Group:g": "Deny Sub from 10.0.0.0/8",
    }
    assert acl.apply(plan).items[0].read_back == {
        "Topic:orders": "Deny All",
        "Group:g": "Deny Sub from 10.0.0.0/8",
    }
    assert acl.plan_update(changed).empty


def test_one_rule_or_all_rules_are_deleted(acl: AclAdmin, tables: list[AccessTable]) -> None:
    acl.apply(acl.plan_create(GROUP))
    assert acl.apply(acl.plan_delete("User:alice", resource="Group:g")).ok
    assert list(tables[0].rules["User:alice"]) == ["Topic:orders"]
    with pytest.raises(ClientError, match="no rule for Group:g"):
        acl.plan_delete("User:alice", resource="Group:g")
    assert acl.apply(acl.plan_delete("User:alice", resource="Topic:orders")).ok
    assert tables[0].rules == {}
    with pytest.raises(ClientError, match="User:alice has no rules"):
        acl.plan_delete("User:alice")


def test_rules_are_copied(admin: MQAdmin, tables: list[AccessTable]) -> None:
    for rule in (ORDERS, GROUP):
        admin.acl.apply(admin.acl.plan_create(rule, broker="broker-a"))
    for plan in admin.acl.copy_plans("broker-a", "broker-b"):
        assert admin.acl.apply(plan).ok
    assert tables[1].rules.keys() == tables[0].rules.keys()
    assert list(tables[1].rules["User:alice"]) == ["Topic:orders", "Group:g"]
    with pytest.raises(ClientError, match="User:bob has no rules"):
        list(admin.acl.copy_plans("broker-a", "broker-b", ["User:bob"]))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"subject": "alice"}, "not User:NAME"),
        ({"resources": ["orders"]}, "not TYPE:NAME"),
        ({"resources": ["Queue:x"]}, "not TYPE:NAME"),
        ({"actions": ["Read"]}, "not an action"),
        ({"resources": []}, "needs a resource"),
    ],
)
def test_invalid_rules_are_refused_before_any_request(
    admin: MQAdmin, words: dict[str, object], reason: str
) -> None:
    given = {"subject": "User:a", "resources": ["Topic:t"], "actions": ["Pub"], **words}
    with pytest.raises(ConfigError, match=reason):
        admin.acl.plan_create(Rule(decision="Allow", **given))  # type: ignore[arg-type]


def test_an_action_that_brokers_refuse_in_a_rule_is_refused_before(acl: AclAdmin) -> None:
    rule = Rule(subject="User:alice", resources=["Topic:t"], actions=["Any"], decision="Allow")
    with pytest.raises(ConfigError, match="'Any' is not an action"):
        acl.plan_create(rule)


def test_rules_and_users_of_no_broker_are_an_error() -> None:
    admin = FakeCluster().admin()
    for query in (admin.acl.list, admin.user.list):
        with pytest.raises(ClientError, match="no broker is registered"):
            query()
    with pytest.raises(ClientError, match="no broker is registered"):
        admin.user.get("alice")
