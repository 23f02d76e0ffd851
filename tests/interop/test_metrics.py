"""The metrics of a Java broker and of ours after the same traffic."""

import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.ports import free_port

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

# Equal in both brokers: counts and bytes of records. Times, disk and connections of tools are not.
COMPARED = (
    "rocketmq_messages_in_total",
    "rocketmq_throughput_in_total",
    "rocketmq_messages_out_total",
    "rocketmq_throughput_out_total",
    "rocketmq_consumer_connections",
    "rocketmq_broker_permission",
)
# Series that only the Java broker has: its delivery of delays is a consumer group there.
JAVA_ONLY = ("consumer_group", "SCHEDULE_CONSUMER")


def scrape(port: int) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = frozenset(
                (name, value) for name, value in sample.labels.items() if name != "otel_scope_name"
            )
            found[sample.name, labels] = sample.value
    return found


@pytest.fixture
def sides(java_servers: Any, our_servers: Any, tmp_path: Path) -> list[tuple[str, str, int]]:
    """Name server, broker and port of the metrics, Java's and ours."""
    found = []
    for servers in (java_servers, our_servers):
        work = tmp_path / type(servers).__name__
        namesrv = servers.namesrv(work)
        port = free_port()
        settings = {"metricsExporterType": "PROM", "metricsPromExporterHost": "127.0.0.1"}
        broker = servers.broker(
            work, work / "store", namesrv, metricsPromExporterPort=port, **settings
        )
        found.append((namesrv, broker.address, port))
    return found


def test_counts_and_labels_equal_those_of_a_java_broker(
    sides: list[tuple[str, str, int]],
    peer_533: Any,
    make_topic: Callable[..., None],
    until: Callable[..., Any],
) -> None:
    scrapes: list[Samples] = []
    for number, (namesrv, broker, port) in enumerate(sides):
        make_topic(broker, "Metered")
        send = {"namesrv": namesrv, "topic": "Metered", "mode": "sync"}
        peer_533.produce(**send, count=3)
        peer_533.produce(**send, count=2, delayLevel=1)
        consumer = f"metered{number}"
        peer_533.ask("consume", namesrv=namesrv, topic="Metered", group="g-m", consumer=consumer)
        peer_533.messages(consumer, 5)
        out = frozenset(
            {
                ("node_type", "broker"),
                ("cluster", "DefaultCluster"),
                ("node_id", "broker-a"),
                ("topic", "Metered"),
                ("consumer_group", "g-m"),
                ("is_system", "false"),
            }
        )
        until(
            lambda port=port, out=out: scrape(port).get(("rocketmq_messages_out_total", out)) == 5,
            "the metric of 5 delivered messages",
        )
        scrapes.append(scrape(port))
        peer_533.ask("stop", consumer=consumer)
    java, ours = (
        {key: value for key, value in one.items() if key[0] in COMPARED and value}
        for one in scrapes
    )
    java = {key: value for key, value in java.items() if JAVA_ONLY not in key[1]}
    assert ours == java
    assert any(("message_type", "delay") in labels for _, labels in ours)
    names = {name for name, _ in scrapes[0]}
    own = {name for name, _ in scrapes[1]} - names
    allowed = {f"rocketmq_{path}_ingest_messages_total" for path in ("plain", "vectorized")}
    assert own <= allowed, "other names are Java's"
