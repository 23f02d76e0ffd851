"""The findings about groups that send many messages back."""

from typing import Any

import pytest

from broker.remoting.protocol.body.consumer.consume import BrokerStatsData, BrokerStatsItem
from broker.remoting.protocol.codes import ResponseCode
from mqadmin.admin.doctor.retries import MIN_RETRIES, retry_findings
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import Answer, FakeBroker, FakeCluster


def count(broker: FakeBroker, counters: dict[tuple[str, str], int]) -> None:
    """Let the broker have these sums of the last minute; it refuses other counters, as Java."""

    def stats(header: Any, command: Any) -> BrokerStatsData:
        found = counters.get((header.stats_name, header.stats_key))
        if found is None:
            raise Answer(ResponseCode.SYSTEM_ERROR, "The stats item does not exist")
        return BrokerStatsData(stats_minute=BrokerStatsItem(sum=found))

    broker.on_315 = stats  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("retries", "got", "found"),
    [
        (0, 0, False),
        (MIN_RETRIES - 1, MIN_RETRIES - 1, False),
        (MIN_RETRIES, MIN_RETRIES, True),
        (MIN_RETRIES, 10 * MIN_RETRIES, False),
        (MIN_RETRIES, 10 * MIN_RETRIES - 1, True),
        (MIN_RETRIES, 0, True),
    ],
)
def test_more_than_a_tenth_of_the_delivered_messages_sent_back_is_a_warning(
    admin: MQAdmin, cluster: FakeCluster, retries: int, got: int, found: bool
) -> None:
    broker_a, broker_b = cluster.brokers
    count(broker_a, {("SNDBCK_PUT_NUMS", "orders@g"): retries})
    count(broker_b, {("GROUP_GET_NUMS", "orders@g"): got})
    findings = retry_findings(admin, {"g": ["orders"]}, admin.topology.readers())
    assert [one.target for one in findings] == (["g orders"] if found else [])


def test_the_counters_of_all_brokers_and_of_each_topic_are_added_up(
    admin: MQAdmin, cluster: FakeCluster
) -> None:
    for broker in cluster.brokers:
        count(
            broker,
            {
                ("SNDBCK_PUT_NUMS", "orders@g"): 6,
                ("GROUP_GET_NUMS", "orders@g"): 30,
                ("SNDBCK_PUT_NUMS", "bills@g"): 6,
                ("GROUP_GET_NUMS", "bills@g"): 600,
                ("SNDBCK_PUT_NUMS", "bills@h"): 50,
            },
        )
    topics = {"g": ["bills", "orders"], "h": ["bills"], "idle": []}
    findings = retry_findings(admin, topics, admin.topology.readers())
    assert [(one.target, one.message) for one in findings] == [
        ("g orders", "12 messages were sent back in the last minute, 60 were delivered"),
        ("h bills", "100 messages were sent back in the last minute, 0 were delivered"),
    ]


def test_more_groups_than_requests_sent_at_once_are_examined(
    admin: MQAdmin, cluster: FakeCluster
) -> None:
    count(cluster.brokers[1], {("SNDBCK_PUT_NUMS", f"orders@g{n}"): 10 + n for n in range(150)})
    count(cluster.brokers[0], {})
    topics = {f"g{n}": ["orders"] for n in range(150)}
    findings = retry_findings(admin, topics, admin.topology.readers())
    assert [one.message.split()[0] for one in findings] == [str(10 + n) for n in range(150)]


def test_a_broker_that_does_not_answer_is_left_out(admin: MQAdmin, cluster: FakeCluster) -> None:
    targets = admin.topology.readers()
    cluster.brokers[0].down = True
    count(cluster.brokers[1], {("SNDBCK_PUT_NUMS", "orders@g"): 10})
    (finding,) = retry_findings(admin, {"g": ["orders"]}, targets)
    assert (finding.severity, finding.kind) == ("warning", "manyRetries")
