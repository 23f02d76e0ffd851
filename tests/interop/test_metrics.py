"""The metrics of a Java broker and of ours after the same traffic."""

import json
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.message.record import scan_records
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
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
# Equal when nothing is under way, too.
OF_ALL_KINDS = (
    *COMPARED,
    "rocketmq_send_to_dlq_messages_total",
    "rocketmq_commit_messages_total",
    "rocketmq_rollback_messages_total",
    "rocketmq_half_messages",
    "rocketmq_timing_messages",
    "rocketmq_timer_enqueue_lag",
    "rocketmq_timer_dequeue_lag",
    "rocketmq_consumer_lag_messages",
    "rocketmq_consumer_inflight_messages",
    "rocketmq_consumer_ready_messages",
)
# Series that only the Java broker has: its services read by consumer groups.
JAVA_ONLY = {
    ("consumer_group", group)
    for group in ("SCHEDULE_CONSUMER", "CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_REVIVE_GROUP")
}
POP, COMMIT, ROLLBACK = 200050, "8", "12"


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


def compared(samples: Samples, names: tuple[str, ...] = COMPARED) -> Samples:
    """The samples that have to be equal."""
    return {
        key: value
        for key, value in samples.items()
        if key[0] in names and value and not JAVA_ONLY & key[1]
    }


class Traffic:
    """Requests of one client to one broker, with a topic and a group for each kind."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._client = BlockingClient(timeout_ms=20_000)

    def __enter__(self) -> "Traffic":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, code: int, header: dict[str, Any], body: bytes = b"") -> RemotingCommand:
        fields = {name: str(value) for name, value in header.items()}
        answer = self._client.call(self._broker, request(code, fields, body))
        assert answer.code == 0, answer.remark
        return answer

    def online(self, group: str, topic: str, kind: str) -> None:
        """Register a consumer by a heartbeat."""
        subscription = {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        consumer = {
            "groupName": group,
            "consumeType": kind,
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [subscription],
        }
        client = {"clientID": f"c@{group}", "producerDataSet": [], "consumerDataSet": [consumer]}
        self.ask(RequestCode.HEART_BEAT, {}, json.dumps(client).encode())

    def send(self, topic: str, *, sys_flag: int = 0, **properties: str) -> RemotingCommand:
        header = dict.fromkeys(("queueId", "flag", "reconsumeTimes"), "0")
        header |= {"producerGroup": "p", "topic": topic, "defaultTopic": "TBW102"}
        header |= {"defaultTopicQueueNums": "4", "sysFlag": str(sys_flag)}
        header |= {"bornTimestamp": str(time.time_ns() // 1_000_000), "unitMode": "false"}
        pairs = {"UNIQ_KEY": "7F000001000000000000000000000000", **properties}
        header["properties"] = "".join(f"{name}\1{value}\2" for name, value in pairs.items())
        return self.ask(RequestCode.SEND_MESSAGE, header, b"body")

    def end(self, topic: str, how: str) -> None:
        """Send a half message and end its transaction."""
        half = self.send(topic, sys_flag=4, TRAN_MSG="true", PGROUP="p").ext_fields
        header = {"producerGroup": "p", "tranStateTableOffset": half["queueOffset"]}
        header |= {"commitLogOffset": str(int(half["msgId"][16:], 16)), "commitOrRollback": how}
        header |= {"fromTransactionCheck": "false", "msgId": half["msgId"]}
        header |= {"transactionId": half["msgId"], "topic": topic}
        ended = request(RequestCode.END_TRANSACTION, header)
        assert self._client.call(self._broker, ended).remark in (None, "not set any response code")

    def pull(self, group: str, topic: str) -> bytes:
        header = {"consumerGroup": group, "topic": topic, "queueId": 0, "queueOffset": 0}
        header |= {"maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "subscription": "*"}
        header |= {"suspendTimeoutMillis": 0, "subVersion": 1, "expressionType": "TAG"}
        return bytes(self.ask(RequestCode.PULL_MESSAGE, header).body_bytes())

    def send_back(self, group: str, topic: str, physical_offset: int, level: int) -> None:
        header = {"group": group, "offset": physical_offset, "delayLevel": level}
        header |= {"originTopic": topic, "unitMode": "false", "maxReconsumeTimes": 16}
        self.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)

    def pop(self, group: str, topic: str, invisible_ms: int) -> bool:
        """Pop one message; whether there was one."""
        now_ms = time.time_ns() // 1_000_000
        header = {"consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 1}
        header |= {"invisibleTime": invisible_ms, "pollTime": 0, "bornTime": now_ms}
        header |= {"initMode": 0, "expType": "TAG", "exp": "*", "order": "false"}
        fields = {name: str(value) for name, value in header.items()}
        return self._client.call(self._broker, request(POP, fields)).code == 0


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
    java, ours = map(compared, scrapes)
    assert ours == java
    assert any(("message_type", "delay") in labels for _, labels in ours)
    names = {name for name, _ in scrapes[0]}
    own = {name for name, _ in scrapes[1]} - names
    allowed = {f"rocketmq_{path}_ingest_messages_total" for path in ("plain", "vectorized")}
    assert own <= allowed, "other names are Java's"


def test_other_kinds_of_traffic_have_the_series_of_a_java_broker(
    sides: list[tuple[str, str, int]],
    make_topic: Callable[..., None],
    until: Callable[..., Any],
) -> None:
    """Orders, timers, transactions, retries, dead letters, POP with a redelivery."""
    scrapes: list[Samples] = []
    for _, broker, port in sides:
        with Traffic(broker) as traffic:
            for topic in ("Sent", "Ended", "Popped", "Retried"):
                make_topic(broker, topic, queues=1)
            for group, topic in (("g-sent", "Sent"), ("g-retried", "Retried")):
                traffic.online(group, topic, "CONSUME_PASSIVELY")
            traffic.online("g-popped", "Popped", "CONSUME_POP")
            consumed = {"consumerGroup": "g-sent", "topic": "Sent", "queueId": 0, "commitOffset": 0}
            traffic.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumed)
            traffic.send("Sent", __SHARDINGKEY="k")
            traffic.send("Sent", TIMER_DELAY_SEC="1")
            traffic.send("Sent", TIMER_DELAY_SEC="20000")
            for how in (COMMIT, ROLLBACK):
                traffic.end("Ended", how)
            traffic.send("Ended", sys_flag=4, TRAN_MSG="true", PGROUP="p")
            traffic.send("Retried")
            until(lambda t=traffic: t.pull("g-retried", "Retried"), "the dispatch of the message")
            (record,) = scan_records(traffic.pull("g-retried", "Retried"))
            for level in (1, -1):
                traffic.send_back("g-retried", "Retried", record.physical_offset, level)
            traffic.send("Popped")
            pop = partial(traffic.pop, "g-popped", "Popped")
            # Java revives nothing that is due earlier.
            until(lambda pop=pop: pop(10_000), "the dispatch of the message")

            def revived(traffic: Traffic = traffic, port: int = port) -> bool:
                traffic.online("g-popped", "Popped", "CONSUME_POP")
                lag = [
                    value
                    for (name, labels), value in scrape(port).items()
                    if name == "rocketmq_consumer_lag_messages" and ("is_retry", "true") in labels
                ]
                return lag == [1]

            until(revived, "the redelivery of the popped message")
            assert pop(60_000)

            def in_the_wheel(port: int = port) -> Samples | None:
                found = scrape(port)
                lags = {name: value for (name, _), value in found.items() if "timer_" in name}
                waits = lags["rocketmq_timer_enqueue_lag"], lags["rocketmq_timer_dequeue_lag"]
                return found if waits == (0, 2) else None

            scrapes.append(until(in_the_wheel, "the timer and the check point in the wheel"))
    java, ours = (compared(one, OF_ALL_KINDS) for one in scrapes)
    assert ours == java
    for label in (("is_retry", "true"), ("is_retry", "false"), ("message_type", "fifo")):
        assert any(label in labels for _, labels in ours)
    assert set(OF_ALL_KINDS) - {"rocketmq_timer_enqueue_lag"} <= {name for name, _ in ours}
