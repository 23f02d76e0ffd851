"""Our client while brokers and name servers die, hang and come back: real processes."""

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.client import (
    ClientConfig,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumerConfig,
    Message,
    MessageExt,
    Producer,
    ProducerConfig,
    PushConsumer,
)
from tests.interop.conftest import OurServers, close_all

NAMES = ("broker-a", "broker-b")


class Pair:
    """Two name servers and two brokers, each a process."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.servers = OurServers()
        self.namesrvs = [self.servers.namesrv(work / f"ns{number}") for number in range(2)]
        self.namesrv_processes = list(self.servers.running)
        self.brokers: dict[str, Any] = {}

    def start(self, name: str) -> None:
        port = None
        if name in self.brokers:
            port = int(self.brokers[name].address.rpartition(":")[2])
        self.brokers[name] = self.servers.broker(
            self.work / name,
            self.work / name / "store",
            ";".join(self.namesrvs),
            brokerName=name,
            listenPort=port,
        )

    def client(self) -> ClientConfig:
        return ClientConfig(namesrv=self.namesrvs)

    def send_signal(self, name: str, number: signal.Signals) -> None:
        self.brokers[name].process.send_signal(number)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path)
    try:
        for name in NAMES:
            found.start(name)
    except BaseException:
        close_all(found.servers.running)
        raise
    yield found
    for daemon in found.servers.running:
        if daemon.process.poll() is None:
            daemon.process.send_signal(signal.SIGCONT)
    close_all(found.servers.running)


@pytest.fixture
def topic(pair: Pair, make_topic: Callable[..., None], until: Callable[..., Any]) -> str:
    for broker in pair.brokers.values():
        make_topic(broker.address, "Faults", queues=2)
    with Producer("probe", pair.client()) as producer:

        def both() -> bool:
            try:
                return (
                    len({one.broker_name for one in producer.fetch_publish_queues("Faults")}) == 2
                )
            except Exception:
                return False

        until(both, "both brokers in the route")
    return "Faults"


class Sending(threading.Thread):
    """Sends one message after the other until it is stopped; counts successes and failures."""

    def __init__(self, producer: Producer, topic: str) -> None:
        super().__init__(daemon=True)
        self.producer, self.topic = producer, topic
        self.sent: dict[bytes, str] = {}
        self.failures: list[BaseException] = []
        self.slowest_s = 0.0
        self.over = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            body = b"%d" % number
            began = time.monotonic()
            try:
                result = self.producer.send(Message(self.topic, body))
                self.sent[body] = result.message_queue.broker_name
            except Exception as error:
                self.failures.append(error)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def stop(self) -> None:
        self.over.set()
        self.join(60)


def avoiding(**options: Any) -> ProducerConfig:
    return ProducerConfig(send_msg_timeout_ms=6_000, send_latency_enable=True, **options)


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_every_send_succeeds_while_one_of_two_brokers_is_sick(
    pair: Pair, topic: str, fault: signal.Signals, until: Callable[..., Any]
) -> None:
    with Producer("faults", pair.client(), avoiding()) as producer:
        sending = Sending(producer, topic)
        sending.start()
        until(lambda: set(sending.sent.values()) == set(NAMES), "both brokers used")
        pair.send_signal("broker-b", fault)
        before = len(sending.sent)
        until(lambda: len(sending.sent) > before + 200, "200 more sends")
        table = str(producer.faults)
        sending.stop()
        assert sending.failures == []
        assert "broker-b" in table
        if fault is signal.SIGSTOP:
            pair.send_signal("broker-b", signal.SIGCONT)


def test_name_servers_dying_in_turn_stop_neither_sends_nor_new_topics(
    pair: Pair, topic: str, make_topic: Callable[..., None], until: Callable[..., Any]
) -> None:
    with Producer("faults", pair.client(), avoiding()) as producer:
        sending = Sending(producer, topic)
        sending.start()
        until(lambda: len(sending.sent) > 50, "50 sends")
        pair.namesrv_processes[0].process.kill()
        for broker in pair.brokers.values():
            make_topic(broker.address, "Later", queues=1)
        until(lambda: _stored(producer, "Later"), "a topic created meanwhile")
        sending.stop()
        assert sending.failures == []


def _stored(producer: Producer, topic: str) -> bool:
    try:
        return bool(producer.send(Message(topic, b"x")).msg_id)
    except Exception:
        return False


def test_a_consumer_loses_nothing_and_resumes_within_twenty_seconds(
    pair: Pair, topic: str, until: Callable[..., Any]
) -> None:
    got: queue.Queue[bytes] = queue.Queue()

    def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            got.put(message.body)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer = PushConsumer("faults", pair.client(), ConsumerConfig(consume_from_where=first))
    consumer.subscribe(topic)
    consumer.listen(listener)
    seen: set[bytes] = set()

    def all_of(sent: dict[bytes, str]) -> bool:
        while not got.empty():
            seen.add(got.get())
        return set(sent) <= seen

    with consumer, Producer("faults", pair.client(), avoiding()) as producer:
        sending = Sending(producer, topic)
        sending.start()
        until(lambda: set(sending.sent.values()) == set(NAMES), "both brokers used")
        pair.send_signal("broker-b", signal.SIGKILL)
        pair.brokers["broker-b"].process.wait()
        before = len(sending.sent)
        until(lambda: len(sending.sent) > before + 50, "50 sends to the other broker")
        pair.start("broker-b")
        back = time.monotonic()
        sending.stop()
        assert sending.failures == []
        until(lambda: all_of(sending.sent), "everything consumed")
        assert time.monotonic() - back < 20
