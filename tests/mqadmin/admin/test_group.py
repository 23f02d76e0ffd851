"""Subscription groups: reading without creating, patches, deletion."""

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.errors import ClientError, ConfigError
from broker.remoting.protocol.codes import RequestCode


def add(broker, group="g", **fields):
    broker.groups[group] = SubscriptionGroupConfig(group_name=group, **fields)


def test_looking_at_a_group_never_asks_for_it_alone(admin, cluster) -> None:
    """A 5.x broker creates a group that is asked for by name."""
    admin.group.show("unknown")
    admin.group.list()
    with pytest.raises(ClientError):
        admin.group.plan_update("unknown", settings={"retryMaxTimes": 1})
    assert not cluster.asked(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)


def test_list_and_show(admin, broker_a, broker_b) -> None:
    add(broker_a)
    add(broker_b, retry_max_times=3)
    add(broker_b, "TOOLS_CONSUMER")
    rows = [(r.group, r.broker_name) for r in admin.group.list(include_system=False).items]
    assert rows == [("g", "broker-a"), ("g", "broker-b")]
    assert [record.retry_max_times for record in admin.group.show("g").items] == [16, 3]
    assert "TOOLS_CONSUMER" in {record.group for record in admin.group.list().items}


def test_create_with_class_defaults(admin, broker_a) -> None:
    """The Java tool creates groups with other defaults than the brokers do; ours does not."""
    outcome = admin.apply(admin.group.plan_create("g", settings={"retryMaxTimes": 2}))
    assert outcome.ok
    made = broker_a.groups["g"]
    assert (made.retry_max_times, made.consume_from_min_enable) == (2, True)
    assert made.consume_broadcast_enable is True


def test_create_refuses_an_existing_object(admin, broker_b) -> None:
    add(broker_b)
    with pytest.raises(ClientError, match="exists already on broker-b"):
        admin.group.plan_create("g")
    plan = admin.group.plan_create("g", if_not_exists=True)
    assert [change.unchanged for change in plan.changes] == [False, True]


def test_update_is_a_patch(admin, broker_a, broker_b) -> None:
    add(broker_a, consume_enable=False, attributes={"x": "1"})
    outcome = admin.apply(admin.group.plan_update("g", settings={"retryMaxTimes": 5}))
    assert outcome.ok
    assert len(outcome.items) == 1
    assert broker_a.groups["g"].consume_enable is False
    assert broker_a.groups["g"].retry_max_times == 5
    assert "g" not in broker_b.groups


def test_attributes_are_not_sent_back(admin, broker_a) -> None:
    add(broker_a, attributes={"x": "1"})
    plan = admin.group.plan_update("g", settings={"retryMaxTimes": 5})
    assert b'"attributes":{}' in plan.changes[0].request.body


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"nope": 1}, "no setting nope"),
        ({"groupName": "h"}, "no setting groupName"),
        ({"retryQueueNums": -1}, "cannot be negative"),
    ],
)
def test_bad_settings(admin, broker_a, settings, reason) -> None:
    add(broker_a)
    with pytest.raises(ClientError, match=reason):
        admin.group.plan_update("g", settings=settings)


def test_nothing_to_change_is_a_matter_of_the_command_line(admin, broker_a) -> None:
    add(broker_a)
    with pytest.raises(ConfigError, match="nothing to change"):
        admin.group.plan_update("g", settings={})


def test_bad_names(admin) -> None:
    with pytest.raises(ClientError, match="illegal"):
        admin.group.plan_create("a b")


def test_delete_sends_the_flag_under_both_names(admin, broker_a) -> None:
    add(broker_a)
    plan = admin.group.plan_delete("g", remove_offset=True)
    ext = plan.changes[0].request.ext_fields
    assert (ext["cleanOffset"], ext["removeOffset"]) == ("true", "true")
    assert admin.apply(plan).ok
    assert not broker_a.groups


def test_delete_warns_about_connected_clients(admin, broker_a) -> None:
    broker_a.connect("g", "c1", "t")
    (warning,) = admin.group.plan_delete("g").warnings
    assert "1 clients of g are connected" in warning


def test_system_groups_stay(admin, broker_a) -> None:
    add(broker_a, "TOOLS_CONSUMER")
    with pytest.raises(ClientError, match="itself"):
        admin.group.plan_delete("TOOLS_CONSUMER")


def test_a_dead_broker_is_an_error_of_the_plan(admin, broker_a, broker_b) -> None:
    add(broker_a)
    broker_b.down = True
    plan = admin.group.plan_update("g", settings={"retryMaxTimes": 5})
    assert [error.target for error in plan.errors] == ["broker-b"]
    assert not admin.apply(plan).ok
