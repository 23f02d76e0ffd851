"""``broker promote`` while Java producers and consumers (5.3.3, 4.9.8) run against our brokers.

The interruption that the clients see is printed, not asserted: it is below 5 s on a free machine,
and measures the other load on a busy one.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.errors import RocketMQError
from broker.message.message import Message
from mqadmin.admin.failover.switch import SwitchResult
from tests.support.replica_set import ReplicaSet, Writer, records, until

pytestmark = pytest.mark.timeout(400)

TOPIC = "Orders"
SENDS = 3  # of one message: a Java producer repeats a failed send twice
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


def unique_keys(brokers: ReplicaSet, number: int) -> list[str]:
    """The unique keys of all records of the topic in the log of a broker."""
    return [str(record.uniq_key) for record in records(brokers.brokers[number], TOPIC)]


def consumed(peer: Any, consumer: str, producer: JavaProducer) -> None:
    """Wait until a consumer has every acknowledged message; its other ones were sent, too."""
    seen: list[str] = []

    def all_seen() -> bool:
        drain(peer, consumer, seen)
        return producer.keys <= set(seen)

    until(all_seen, "every acknowledged message at the Java consumer", ROUTE_S)
    peer.ask("stop", consumer=consumer)


def test_planned_switches_there_and_back_lose_no_message_of_java_clients(
    replicas: ReplicaSet,
    peer: Any,
    make_topic: Callable[..., None],
) -> None:
    make_topic(replicas.brokers[0].address, TOPIC)
    namesrv = replicas.namesrv.address
    consume(peer, namesrv, "java@planned")
    producer = JavaProducer(peer, namesrv)
    with Writer(producer.send) as writer:
        until(lambda: len(producer.keys) > 50, "messages before the switch")
        for number in (1, 0):
            result = complete(replicas.promote(number))
            before = len(producer.keys)
            until(lambda before=before: len(producer.keys) > before + 50, "later messages", ROUTE_S)
            assert result.interrupted_ms is not None
            print(f"to broker {number}: no master for {result.interrupted_ms:.0f} ms")
            until(replicas.level, "all slaves follow the new master")
    print(f"longest time without an acknowledged send: {writer.longest_gap_s:.1f} s")
    consumed(peer, "java@planned", producer)
    peer.ask("forget", namesrv=namesrv)
    until(replicas.level, "all slaves follow the new master")
    assert replicas.masters() == [0]
    for number in range(3):
        keys = Counter(unique_keys(replicas, number))
        assert producer.keys <= set(keys)
        assert max(keys.values()) <= SENDS
        assert len(keys) <= len(producer.keys) + len(writer.failures)


def test_an_unplanned_switch_loses_no_message_that_a_java_producer_got_acknowledged(
    replicas: ReplicaSet, peer: Any, make_topic: Callable[..., None]
) -> None:
    make_topic(replicas.brokers[0].address, TOPIC)
    namesrv = replicas.namesrv.address
    consume(peer, namesrv, "java@unplanned")
    producer = JavaProducer(peer, namesrv)
    with Writer(producer.send):
        until(lambda: len(producer.keys) > 50, "messages before the kill")
        replicas.brokers[0].kill()
        complete(replicas.rerun())
        before = len(producer.keys)
        until(lambda: len(producer.keys) > before + 50, "messages after the switch", ROUTE_S)
    consumed(peer, "java@unplanned", producer)
    peer.ask("forget", namesrv=namesrv)
    until(replicas.level, "the other slave follows the new master")
    assert len(replicas.masters()) == 1
    for number in (1, 2):
        assert producer.keys <= set(unique_keys(replicas, number))
