"""Lag and dead letters of groups."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.body.consumer.connection import ConsumerConnection
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from mqadmin.admin.checks.groups import LagLimits, check_dlq, check_lag
from mqadmin.admin.connections import FAN_OUT
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


def test_all_groups_take_two_requests_per_broker_for_their_lag(
    cluster: FakeCluster, admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    for broker in (broker_a, broker_b):
        broker.store("orders")
        for number in range(300):
            name = f"g{number:03d}"
            broker.groups[name] = SubscriptionGroupConfig(group_name=name)
            broker.committed(name, "orders")[0] = 1
    broker_a.store("orders")
    rows = check_lag(admin, LIMITS)
    assert [row.name for row in rows] == [f"g{number:03d}/orders" for number in range(300)]
    assert {(row.status, row.metrics[0].value, row.metrics[1].value) for row in rows} == {
        ("OK", 1, 0)
    }
    per_broker = {broker_a.address: 1, broker_b.address: 1}
    assert Counter(cluster.asked(RequestCode.GET_BROKER_CONSUME_STATS)) == per_broker
    assert Counter(cluster.asked(RequestCode.GET_ALL_TOPIC_CONFIG)) == per_broker
    # the protocol has these per group only; ages are requested where there is a lag
    assert Counter(cluster.asked(RequestCode.GET_CONSUMER_CONNECTION_LIST)) == dict.fromkeys(
        per_broker, 300
    )
    assert Counter(cluster.asked(RequestCode.QUERY_CONSUME_TIME_SPAN)) == {broker_a.address: 300}
    assert len(cluster.calls) == 1 + 2 + 2 + 600 + 300


def test_requests_of_all_groups_are_sent_a_bounded_number_at_once(
    cluster: FakeCluster, broker_a: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker_a.store("orders")
    for number in range(700):
        broker_a.groups[f"g{number}"] = SubscriptionGroupConfig(group_name=f"g{number}")
        broker_a.committed(f"g{number}", "orders")[0] = 1
    broker_a.store("orders")
    sizes: list[int] = []
    send = cluster.call_all

    def counting(
        calls: Sequence[tuple[str, RemotingCommand]], timeout_ms: float | None = None
    ) -> list[RemotingCommand | RocketMQError]:
        sizes.append(len(calls))
        return send(calls, timeout_ms)

    monkeypatch.setattr(cluster, "call_all", counting)
    assert len(check_lag(cluster.admin(), LIMITS)) == 700
    assert max(sizes) == FAN_OUT


def test_one_topic_of_all_groups_leaves_out_the_groups_without_an_offset_in_it(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    fill(broker_a, 3, 1)
    broker_a.store("payments")
    broker_a.groups["h"] = SubscriptionGroupConfig(group_name="h")
    broker_a.committed("h", "payments")[0] = 1
    assert [row.name for row in check_lag(admin, LIMITS, topic="payments")] == ["h/payments"]
    with pytest.raises(ClientError, match="no route"):
        check_lag(admin, LIMITS, topic="nosuch")


def test_a_group_without_offsets_is_unknown_while_a_broker_is_missing(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    broker_a.groups["idle"] = SubscriptionGroupConfig(group_name="idle")
    assert [(row.name, row.status) for row in check_lag(admin, LIMITS)] == [("idle", "OK")]
    broker_b.down = True
    assert ("idle", "UNKNOWN") in [(row.name, row.status) for row in check_lag(admin, LIMITS)]


def test_a_group_in_broadcasting_mode_is_not_measured(
    cluster: FakeCluster, admin: MQAdmin, broker_a: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker_a, 9, 1)
    broker_a.connect("g", "client@1", "orders")
    clients = broker_a.on_203

    def broadcasting(header: object, command: RemotingCommand) -> ConsumerConnection:
        return msgspec.structs.replace(clients(header, command), message_model="BROADCASTING")

    monkeypatch.setattr(broker_a, "on_203", broadcasting)
    for names in ([], ["g"]):
        (row,) = check_lag(admin, LIMITS, names)
        assert (row.name, row.status, row.metrics) == ("g", "OK", [])
    assert cluster.asked(RequestCode.QUERY_CONSUME_TIME_SPAN) == []


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
    broker_a.groups["g"] = SubscriptionGroupConfig(group_name="g")
    assert check_dlq(admin, 0, 10, ["g"])[0].status == "OK"
    assert check_dlq(admin, 0, 10, ["billng"])[0].status == "UNKNOWN"
    broker_a.store("%DLQ%g")
    broker_a.down = True
    (row,) = check_dlq(admin, 0, 10, ["billng"])
    assert row.message == "billng: not found, and no answer from broker-a"
    assert check_dlq(admin, 0, 10, ["g"])[0].status == "UNKNOWN"
