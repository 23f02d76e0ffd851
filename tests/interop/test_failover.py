"""``broker promote`` while Java 5.3.3 producers and consumers run against our brokers."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.errors import RocketMQError
from broker.message.message import Message
from mqadmin.admin.failover.switch import SwitchResult
from tests.support.replica_set import ReplicaSet, Writer, bodies, until

pytestmark = pytest.mark.timeout(400)

TOPIC = "Orders"
INTERRUPTION_S = 5.0
# A Java client asks for routes every 30 s (pollNameServerInterval).
ROUTE_S = 240.0


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[ReplicaSet]:
    copies = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "10000"}
    with ReplicaSet(tmp_path, slaves=2, master=copies) as brokers:
        yield brokers


class JavaProducer:
    """One synchronous send of a Java producer per call; ``keys`` are those answered SEND_OK."""

    def __init__(self, peer: Any, namesrv: str) -> None:
        self.keys: set[str] = set()
        self._words = {"namesrv": namesrv, "topic": TOPIC, "count": 1}
        self._peer = peer
        self._numbers = itertools.count()

    def send(self, message: Message) -> None:
        """Send a message of the driver; RocketMQError if it is not answered SEND_OK."""
        (event,) = self._peer.produce(first=next(self._numbers), **self._words)
        if event["event"] != "sent" or event["status"] != "SEND_OK":
            raise RocketMQError(str(event.get("error") or event.get("status")))
        self.keys.add(event["msgId"])


def consume(peer: Any, namesrv: str, consumer: str) -> None:
    words = {"namesrv": namesrv, "topic": TOPIC, "group": consumer.replace("@", "_")}
    peer.ask("consume", consumer=consumer, **words)


def drain(peer: Any, consumer: str, seen: list[str]) -> None:
    """Take over the messages that a consumer has received until now."""
    inbox = peer.consumer(consumer)
    while not inbox.empty():
        seen.append(inbox.get()["uniqKey"])


def complete(result: SwitchResult) -> SwitchResult:
    assert result.error is None, (result.error, result.steps)
    return result


def record_count(brokers: ReplicaSet, number: int) -> int:
    return len(bodies(brokers.brokers[number], TOPIC))


def test_a_planned_switch_interrupts_java_clients_for_less_than_5_s_and_loses_nothing(
    replicas: ReplicaSet, peer_533: Any, make_topic: Callable[..., None]
) -> None:
    make_topic(replicas.brokers[0].address, TOPIC)
    namesrv = replicas.namesrv.address
    consume(peer_533, namesrv, "java@planned")
    producer = JavaProducer(peer_533, namesrv)
    seen: list[str] = []
    with Writer(producer.send) as writer:
        until(lambda: len(producer.keys) > 50, "messages before the switch")
        result = complete(replicas.promote(1))
        before = len(producer.keys)
        until(lambda: len(producer.keys) > before + 50, "messages after the switch")
    assert result.interrupted_ms is not None
    assert result.interrupted_ms < INTERRUPTION_S * 1000
    assert writer.longest_gap_s < INTERRUPTION_S, writer.failures

    def all_seen() -> bool:
        drain(peer_533, "java@planned", seen)
        return producer.keys <= set(seen)

    until(all_seen, "every acknowledged message at the Java consumer", ROUTE_S)
    peer_533.ask("stop", consumer="java@planned")
    peer_533.ask("forget", namesrv=namesrv)
    until(replicas.level, "all slaves follow the new master")
    assert replicas.masters() == [1]
    for number in range(3):
        assert record_count(replicas, number) >= len(producer.keys)


def test_an_unplanned_switch_loses_no_message_that_a_java_producer_got_acknowledged(
    replicas: ReplicaSet, peer_533: Any, make_topic: Callable[..., None]
) -> None:
    make_topic(replicas.brokers[0].address, TOPIC)
    namesrv = replicas.namesrv.address
    consume(peer_533, namesrv, "java@unplanned")
    producer = JavaProducer(peer_533, namesrv)
    seen: list[str] = []
    with Writer(producer.send):
        until(lambda: len(producer.keys) > 50, "messages before the kill")
        replicas.brokers[0].kill()
        complete(replicas.rerun())
        before = len(producer.keys)
        until(lambda: len(producer.keys) > before + 50, "messages after the switch", ROUTE_S)

    def all_seen() -> bool:
        drain(peer_533, "java@unplanned", seen)
        return producer.keys <= set(seen)

    until(all_seen, "every acknowledged message at the Java consumer", ROUTE_S)
    peer_533.ask("stop", consumer="java@unplanned")
    peer_533.ask("forget", namesrv=namesrv)
    until(replicas.level, "the other slave follows the new master")
    assert len(replicas.masters()) == 1
    for number in (1, 2):
        assert record_count(replicas, number) >= len(producer.keys)
