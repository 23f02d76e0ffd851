"""Brokers against limits: overload, disks, brokers that do not answer."""

import pytest

from mqadmin.admin.checks.brokers import BrokerLimits, check_broker, check_disk
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker, FakeCluster


def statuses(rows: list) -> dict[str, str]:  # type: ignore[type-arg]
    return {row.name: row.status for row in rows}


@pytest.mark.parametrize(
    ("key", "value", "status"),
    [
        ("pageCacheLockTimeMills", "400", "OK"),
        ("pageCacheLockTimeMills", "600", "WARNING"),
        ("sendThreadPoolQueueHeadWaitTimeMills", "250", "CRITICAL"),
        ("dispatchBehindBytes", str(17 << 20), "WARNING"),
        ("remainHowManyDataToFlush", "3.0 GiB", "CRITICAL"),
        ("brokerActive", "false", "WARNING"),
        ("dispatchBehindBytes", "null", "OK"),
    ],
)
def test_a_value_past_its_limit_decides_the_status(
    admin: MQAdmin, broker_a: FakeBroker, key: str, value: str, status: str
) -> None:
    broker_a.runtime[key] = value
    assert statuses(check_broker(admin, BrokerLimits())) == {"broker-a": status, "broker-b": "OK"}


def test_a_limit_is_replaced_or_removed_by_its_name(admin: MQAdmin, broker_a: FakeBroker) -> None:
    broker_a.runtime["dispatchBehindBytes"] = "500"
    tight = BrokerLimits(warn={"dispatchBehind": 100})
    assert statuses(check_broker(admin, tight, broker="broker-a")) == {"broker-a": "WARNING"}
    broker_a.runtime["dispatchBehindBytes"] = str(1 << 40)
    none = BrokerLimits(warn={"dispatchBehind": None}, crit={"dispatchBehind": None})
    assert statuses(check_broker(admin, none, broker="broker-a")) == {"broker-a": "OK"}


def test_a_registered_broker_that_does_not_answer_is_critical_and_its_disk_unknown(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    broker_a.down = True
    broker_b.runtime |= {"commitLogDiskRatio": "0.5", "consumeQueueDiskRatio": "0.5"}
    assert statuses(check_broker(admin, BrokerLimits()))["broker-a"] == "CRITICAL"
    assert statuses(check_disk(admin, 80, 88)) == {"broker-a": "UNKNOWN", "broker-b": "OK"}


def test_a_cluster_without_brokers_is_critical(cluster: FakeCluster) -> None:
    for broker in cluster.brokers:
        broker.registered = False
    (row,) = check_broker(cluster.admin(), BrokerLimits())
    assert row.status == "CRITICAL"


@pytest.mark.parametrize(
    ("ratio", "status"),
    [("0.79", "OK"), ("0.81", "WARNING"), ("0.9", "CRITICAL"), ("-1", "UNKNOWN")],
)
def test_the_use_of_a_disk_is_compared_in_percent(
    admin: MQAdmin, broker_a: FakeBroker, ratio: str, status: str
) -> None:
    broker_a.runtime |= {"commitLogDiskRatio": ratio, "consumeQueueDiskRatio": "0.1"}
    assert statuses(check_disk(admin, 80, 88, broker="broker-a")) == {"broker-a": status}
