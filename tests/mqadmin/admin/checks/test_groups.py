"""Lag and dead letters of groups."""

from broker.common.group import SubscriptionGroupConfig
from mqadmin.admin.checks.groups import LagLimits, check_dlq, check_lag
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker, FakeCluster

LIMITS = LagLimits(warn_messages=1, crit_messages=3, warn_seconds=60, crit_seconds=600)


def fill(broker: FakeBroker, messages: int, committed: int) -> None:
    for _ in range(messages):
        broker.store("orders")
    broker.groups["g"] = SubscriptionGroupConfig(group_name="g")
    broker.offsets["orders@g"] = {0: committed}


def test_the_lag_of_a_group_is_summed_over_queues_and_brokers(
    cluster: FakeCluster, admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    fill(broker_a, 3, 1)
    (row,) = check_lag(admin, LIMITS)
    assert (row.name, row.status, row.metrics[0].value) == ("g/orders", "WARNING", 2)
    fill(broker_b, 3, 1)
    (row,) = check_lag(cluster.admin(), LIMITS, ["g"])
    assert (row.status, row.metrics[0].value) == ("CRITICAL", 4)


def test_the_age_of_the_oldest_message_has_limits_too(
    cluster: FakeCluster, admin: MQAdmin, broker_a: FakeBroker
) -> None:
    fill(broker_a, 2, 1)
    cluster.clock.advance(120_000)
    (row,) = check_lag(admin, LIMITS, ["g"], "orders")
    assert (row.status, row.metrics[1].value) == ("WARNING", 120)


def test_too_few_clients_are_critical_only_when_some_are_needed(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    fill(broker_a, 1, 1)
    assert check_lag(admin, LIMITS, ["g"])[0].status == "OK"
    needed = LagLimits(online=1)
    assert check_lag(admin, needed, ["g"])[0].status == "CRITICAL"
    broker_a.connect("g", "client@1", "orders")
    (row,) = check_lag(admin, needed, ["g"])
    assert (row.status, row.metrics[2].value) == ("OK", 1)
    assert row.metrics[0].sample is not None
    assert row.metrics[0].sample.labels == {
        "group": "g",
        "topic": "orders",
        "countOfOnlineConsumers": "1",
        "msgModel": "CLUSTERING",
    }


def test_a_broker_that_does_not_answer_makes_a_group_unknown_and_not_0(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    fill(broker_a, 1, 1)
    broker_b.silent = True
    assert "UNKNOWN" in {row.status for row in check_lag(admin, LIMITS)}


def test_a_named_group_without_offsets_and_clients_is_unknown(admin: MQAdmin) -> None:
    (row,) = check_lag(admin, LIMITS, ["nosuch"])
    assert row.status == "UNKNOWN"


def test_dead_letters_are_counted_per_group(admin: MQAdmin, broker_a: FakeBroker) -> None:
    for _ in range(3):
        broker_a.store("%DLQ%g")
    broker_a.expire("%DLQ%g", 0, 1)
    (row,) = check_dlq(admin, 0, 10)
    assert (row.name, row.status, row.metrics[0].value) == ("g", "WARNING", 2)
    sample = row.metrics[1].sample
    assert sample is not None
    assert (sample.name, row.metrics[1].value) == ("rocketmq_topic_dlq_offset", 3)
    assert check_dlq(admin, 5, 10, ["g"])[0].status == "OK"
    assert check_dlq(admin, 0, 1, ["g"])[0].status == "CRITICAL"


def test_a_group_without_dead_letters_is_ok_and_a_failed_broker_unknown(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    assert check_dlq(admin, 0, 10, ["g"])[0].status == "OK"
    broker_a.store("%DLQ%g")
    broker_a.down = True
    assert check_dlq(admin, 0, 10, ["g"])[0].status == "UNKNOWN"
