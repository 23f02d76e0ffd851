"""The findings about consumer groups, one fault at a time."""

from typing import Any

import msgspec
import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.message_queue import MessageQueue
from broker.common.subscription import SubscriptionData
from broker.errors import ClientError
from broker.remoting.protocol.body.consumer.connection import Connection
from broker.remoting.protocol.body.consumer.running import ConsumerRunningInfo, ProcessQueueInfo
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.doctor.consumer import (
    GroupFacts,
    examine_consumers,
    group_findings,
    queue_findings,
)
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker

NOW_MS = 1_700_000_000_000
QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]


def client(client_id: str, host: str = "10.0.0.9", version: int = 479) -> Connection:
    return Connection(
        client_id=client_id, client_addr=f"{host}:1", language="JAVA", version=version
    )


def info(*queues: MessageQueue, tags: str = "*") -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        mq_table={queue: ProcessQueueInfo() for queue in queues},
        subscription_set=[SubscriptionData(topic="orders", sub_string=tags)],
    )


def facts(**fields: Any) -> GroupFacts:
    sound = GroupFacts(
        group="g",
        model="CLUSTERING",
        connections={"broker-a": [client("c1"), client("c2")]},
        running={"c1": info(QUEUES[0]), "c2": info(QUEUES[1])},
        silent={},
        queues=QUEUES,
    )
    return msgspec.structs.replace(sound, **fields)


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({}, []),
        (
            {"running": {"c1": info(QUEUES[0]), "c2": info(QUEUES[1], tags="a")}},
            ["subscriptionsDiffer"],
        ),
        ({"running": {"c1": info(QUEUES[0]), "c2": info()}}, ["queueWithoutOwner"]),
        ({"running": {"c1": info(*QUEUES), "c2": info(QUEUES[1])}}, ["queueWithTwoOwners"]),
        ({"connections": {"broker-a": [client("c1"), client("c1")]}}, ["duplicateClientId"]),
        (
            {"connections": {"a": [client("c1")], "b": [client("c1", "10.0.0.8")]}},
            ["duplicateClientId"],
        ),
        ({"connections": {"a": [client("c1")], "b": [client("c1")]}}, []),
        (
            {"connections": {"a": [client("c1"), client("c2", version=401)]}},
            ["clientVersions"],
        ),
        ({"silent": {"c3": "no answer"}}, ["clientSilent"]),
        ({"model": "BROADCASTING", "running": {"c1": info(*QUEUES), "c2": info(*QUEUES)}}, []),
    ],
)
def test_a_fault_of_a_group_is_one_finding(fields: dict[str, Any], kinds: list[str]) -> None:
    found = group_findings(facts(**fields), NOW_MS)
    assert [one.kind for one in found] == kinds
    assert all(one.cause and one.fix for one in found)


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({}, []),
        ({"last_pull_timestamp": NOW_MS - 10_000, "cached_msg_count": 5}, []),
        ({"last_pull_timestamp": NOW_MS - 130_000}, ["stuckQueue"]),
        ({"last_pull_timestamp": NOW_MS - 130_000, "droped": True}, []),
        ({"cached_msg_count": 1001}, ["flowControl"]),
        ({"cached_msg_size_in_mib": 101}, ["flowControl"]),
        ({"cached_msg_count": 1, "last_consume_timestamp": NOW_MS - 61_000}, ["longRunning"]),
        ({"cached_msg_count": 0, "last_consume_timestamp": NOW_MS - 61_000}, []),
    ],
)
def test_a_fault_of_a_queue_is_one_finding(fields: dict[str, Any], kinds: list[str]) -> None:
    state = ProcessQueueInfo(**fields)
    found = queue_findings("g", "c1", QUEUES[0], state, ConsumerRunningInfo(), NOW_MS)
    assert [one.kind for one in found] == kinds


def test_a_client_with_another_threshold_is_compared_with_that() -> None:
    state = ProcessQueueInfo(cached_msg_count=1001)
    own = ConsumerRunningInfo(properties={"pullThresholdForQueue": "5000"})
    assert queue_findings("g", "c1", QUEUES[0], state, own, NOW_MS) == []


def test_a_group_of_a_cluster_is_examined(admin: MQAdmin, cluster: Any) -> None:
    broker: FakeBroker = cluster.brokers[0]
    for number in range(4):
        broker.store("orders", number)
    broker.connect("g", "c1", "orders")
    assert examine_consumers(admin, ["g"], now=lambda: NOW_MS / 1000) == []
    broker.queues.pop(("orders", 3))
    broker.running["c1"].mq_table.pop(MessageQueue("orders", "broker-a", 3))
    (finding,) = examine_consumers(admin, now=lambda: NOW_MS / 1000)
    assert (finding.kind, finding.target) == ("queueWithoutOwner", "g orders")


def test_a_group_that_does_not_exist_is_an_error(admin: MQAdmin, cluster: Any) -> None:
    cluster.brokers[0].groups["g"] = SubscriptionGroupConfig(group_name="g")
    names = ", ".join(one.name for one in cluster.brokers)
    with pytest.raises(ClientError) as raised:
        examine_consumers(admin, ["g", "billng"])
    assert raised.value.message == f"group billng does not exist on {names}"
    assert "mqadmin group list" in raised.value.hint


def test_a_group_that_only_a_silent_broker_has_is_not_reported_as_missing(
    admin: MQAdmin, cluster: Any
) -> None:
    cluster.brokers[1].groups["far"] = SubscriptionGroupConfig(group_name="far")
    cluster.brokers[1].down = True
    found = [(one.kind, one.target) for one in examine_consumers(admin, ["far"])]
    assert found[0][0] == "brokerUnreachable"
    assert found[0][1].startswith("broker-b")


def test_lag_without_clients_and_offsets_below_the_minimum_are_warnings(
    admin: MQAdmin, cluster: Any
) -> None:
    broker: FakeBroker = cluster.brokers[0]
    for _ in range(3):
        broker.store("orders")
    broker.groups["g"] = SubscriptionGroupConfig(group_name="g")
    broker.offsets["orders@g"] = {0: 1}
    broker.expire("orders", 0, 2)
    found = examine_consumers(admin, ["g"])
    assert [one.kind for one in found] == ["belowMin", "noClient"]
    assert found[0].message.startswith("1 messages were deleted")


def test_a_broker_that_does_not_answer_and_a_client_that_does_not_are_findings(
    admin: MQAdmin, cluster: Any
) -> None:
    broker: FakeBroker = cluster.brokers[0]
    broker.connect("g", "c1")
    broker.refuse(RequestCode.GET_CONSUMER_RUNNING_INFO, 1, "no answer of the client")
    cluster.brokers[1].down = True
    found = {one.kind for one in examine_consumers(admin)}
    assert found == {"brokerUnreachable", "clientSilent"}
