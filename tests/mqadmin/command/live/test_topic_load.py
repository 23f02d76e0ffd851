"""``mqadmin topic stats`` and ``topic top --once``."""

import json
from collections.abc import Callable
from typing import Any

from broker.remoting.protocol.body.consumer.consume import BrokerStatsData, BrokerStatsItem
from broker.remoting.protocol.body.consumer.group import GroupList
from tests.support.fake_brokers import FakeCluster


def test_topics_are_listed_and_sorted_by_a_field(
    mqadmin: Callable[..., Any], cluster: FakeCluster
) -> None:
    broker = cluster.brokers[0]
    rates = {"quiet": 1.0, "busy": 7.0}
    for topic in rates:
        broker.store(topic)
    broker.on_300 = lambda *_: GroupList()  # type: ignore[attr-defined]
    broker.on_315 = lambda header, _: BrokerStatsData(  # type: ignore[attr-defined]
        stats_minute=BrokerStatsItem(tps=rates[header.stats_key])
    )

    def topics(*words: str) -> list[str]:
        done = mqadmin("topic", *words, "-o", "json")
        assert done.status == 0, done.err
        return [row["topic"] for row in json.loads(done.out)["items"]]

    assert topics("stats") == ["busy", "quiet"]
    assert topics("stats", "quiet") == ["quiet"]
    assert topics("top", "--once") == ["busy", "quiet"]
    assert topics("top", "--once", "--sort", "topic", "--no-lag") == ["quiet", "busy"]
    assert mqadmin("topic", "stats", "nosuch").status == 1
    cluster.namesrvs[0].down = True
    assert mqadmin("topic", "stats").status == 3
