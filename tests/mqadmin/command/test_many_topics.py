"""1,000 topics, 500 queues, 500 groups: complete output, requests that do not grow with them."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.connections import FAN_OUT
from tests.support.fake_brokers import FakeCluster

TOPICS = 1_000
QUEUES = 500
GROUPS = 500

Run = Callable[..., Any]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Three brokers with all topics and groups; each group has consumed 1 of 2 of one topic."""
    made = FakeCluster()
    for name in ("broker-a", "broker-b", "broker-c"):
        broker = made.add(name)
        for number in range(TOPICS):
            topic = f"topic-{number:04d}"
            broker.topics[topic] = TopicConfig(
                topic_name=topic, read_queue_nums=1, write_queue_nums=1
            )
        broker.topics["wide"] = TopicConfig(
            topic_name="wide", read_queue_nums=QUEUES, write_queue_nums=QUEUES
        )
        for queue_id in range(QUEUES):
            broker.store("wide", queue_id)
        for number in range(GROUPS):
            group, topic = f"group-{number:03d}", f"topic-{number:04d}"
            broker.groups[group] = SubscriptionGroupConfig(group_name=group)
            broker.store(topic)
            broker.store(topic)
            broker.committed(group, topic)[0] = 1
    monkeypatch.setattr("mqadmin.command.execution.session.connect", lambda *_: made.admin())
    return made


def items(done: Any) -> list[dict[str, Any]]:
    assert done.status == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)["items"]
    return found


def requests_by_code(cluster: FakeCluster) -> dict[int, int]:
    return dict(Counter(code for _, code in cluster.calls))


def test_topic_list_takes_one_request_per_broker(mqadmin: Run, large: FakeCluster) -> None:
    rows = items(mqadmin("topic", "list", "-o", "json"))
    assert len(rows) == 3 * (TOPICS + 1)
    assert {row["brokerName"] for row in rows} == {"broker-a", "broker-b", "broker-c"}
    assert requests_by_code(large) == {
        RequestCode.GET_BROKER_CLUSTER_INFO: 1,
        RequestCode.GET_ALL_TOPIC_CONFIG: 3,
    }
    table = mqadmin("topic", "list")
    assert table.status == 0
    assert len(table.out.splitlines()) == 3 * (TOPICS + 1) + 1


def test_topic_route_and_status_show_every_queue_of_a_wide_topic(
    mqadmin: Run, large: FakeCluster
) -> None:
    route = mqadmin("topic", "route", "wide", "-o", "json")
    assert route.status == 0
    assert [one["readQueueNums"] for one in json.loads(route.out)["queues"]] == [QUEUES] * 3
    rows = items(mqadmin("topic", "status", "wide", "-o", "json"))
    assert [(row["brokerName"], row["queueId"], row["maxOffset"]) for row in rows] == [
        (name, queue_id, 1)
        for name in ("broker-a", "broker-b", "broker-c")
        for queue_id in range(QUEUES)
    ]
    assert requests_by_code(large) == {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: 2,
        RequestCode.GET_TOPIC_STATS_INFO: 3,
    }


def test_the_lag_of_all_groups_takes_two_requests_per_broker(
    mqadmin: Run, large: FakeCluster
) -> None:
    """The second one finds queues that are only read, which consume statistics leave out."""
    rows = items(mqadmin("consumer", "lag", "--all", "-o", "json"))
    assert [(row["group"], row["lag"], row["queues"], row["state"]) for row in rows] == [
        (f"group-{number:03d}", 3, 3, "ok") for number in range(GROUPS)
    ]
    assert requests_by_code(large) == {
        RequestCode.GET_BROKER_CLUSTER_INFO: 1,
        RequestCode.GET_BROKER_CONSUME_STATS: 3,
        RequestCode.GET_ALL_TOPIC_CONFIG: 3,
    }


def test_a_group_on_500_queues_has_its_lag_on_each(mqadmin: Run, large: FakeCluster) -> None:
    for broker in large.brokers:
        broker.groups["billing"] = SubscriptionGroupConfig(group_name="billing")
        broker.committed("billing", "wide").update(dict.fromkeys(range(0, QUEUES, 2), 0))
    rows = items(mqadmin("consumer", "lag", "billing", "-o", "json"))
    assert len(rows) == 3 * QUEUES
    assert {row["lag"] for row in rows if row["queueId"] % 2 == 0} == {1}
    assert {(row["lag"], row["state"]) for row in rows if row["queueId"] % 2} == {
        (None, "noOffset")
    }
    (row,) = [
        row
        for row in items(mqadmin("consumer", "lag", "--all", "-o", "json"))
        if row["group"] == "billing"
    ]
    assert (row["queues"], row["lag"], row["noOffset"]) == (3 * QUEUES, 3 * 250, 3 * 250)
    assert requests_by_code(large)[RequestCode.GET_ALL_CONSUMER_OFFSET] == 3


def test_requests_per_queue_are_sent_a_bounded_number_at_once(
    mqadmin: Run, large: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    send = large.call_all

    def counting(calls: Any, timeout_ms: float | None = None) -> Any:
        sizes.append(len(calls))
        return send(calls, timeout_ms)

    monkeypatch.setattr(large, "call_all", counting)
    for broker in large.brokers:
        broker.groups["billing"] = SubscriptionGroupConfig(group_name="billing")
        broker.committed("billing", "wide")[0] = 1
    assert len(items(mqadmin("consumer", "lag", "billing", "-o", "json"))) == 3 * QUEUES
    assert max(sizes) <= FAN_OUT


def test_cluster_list_takes_one_request_per_broker(mqadmin: Run, large: FakeCluster) -> None:
    rows = items(mqadmin("cluster", "list", "-o", "json"))
    assert [row["brokerName"] for row in rows] == ["broker-a", "broker-b", "broker-c"]
    assert requests_by_code(large) == {
        RequestCode.GET_BROKER_CLUSTER_INFO: 1,
        RequestCode.GET_BROKER_RUNTIME_INFO: 3,
    }
