"""Our client while brokers and name servers die, hang and start again: real processes."""

import queue
import resource
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
from tests.interop.conftest import OurServers, await_registered, close_all

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

    def restart_namesrv(self, number: int) -> None:
        """Start a name server again at its port; returns once both brokers are registered there."""
        port = int(self.namesrvs[number].rpartition(":")[2])
        self.servers.namesrv(self.work / f"ns{number}", port)
        for name in NAMES:
            await_registered(self.namesrvs[number], name)

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

    def __init__(self, producer: Producer, topic: str, padding: bytes = b"") -> None:
        super().__init__(daemon=True)
        self.padding = padding
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
                result = self.producer.send(Message(self.topic, body + self.padding))
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


def test_every_send_succeeds_while_the_disk_of_one_broker_is_full(
    pair: Pair, topic: str, until: Callable[..., Any]
) -> None:
    """New files may not have more than 1 MiB: the next log file of 32 MiB cannot be created."""
    pid = pair.brokers["broker-b"].process.pid
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    with Producer("faults", pair.client(), avoiding(compress_over=1 << 30)) as producer:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 20, hard))
        sending = Sending(producer, topic, padding=b"x" * 500_000)
        sending.start()
        until(lambda: "broker-b" in str(producer.faults), "broker-b has refused a message")
        before = len(sending.sent)
        until(lambda: len(sending.sent) > before + 50, "50 more sends")
        latest = list(sending.sent.values())[before + 1 :]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        count = len(sending.sent)
        until(
            lambda: "broker-b" in list(sending.sent.values())[count:], "broker-b is used again", 40
        )
        sending.stop()
        assert sending.failures == []
        assert latest.count("broker-b") <= 1


def test_every_send_succeeds_while_one_of_two_brokers_is_slow(
    pair: Pair, topic: str, until: Callable[..., Any]
) -> None:
    """The slow broker runs for a tenth of the time: its answers take up to a second."""
    over = threading.Event()

    def slow_down() -> None:
        while not over.wait(0.1):
            pair.send_signal("broker-b", signal.SIGSTOP)
            over.wait(0.9)
            pair.send_signal("broker-b", signal.SIGCONT)

    slowing = threading.Thread(target=slow_down, daemon=True)
    with Producer("faults", pair.client(), avoiding()) as producer:
        sending = Sending(producer, topic)
        sending.start()
        until(lambda: set(sending.sent.values()) == set(NAMES), "both brokers used")
        slowing.start()
        # The length of a pause and its effect are tested on a manual clock.
        until(lambda: not producer.faults.is_available("broker-b"), "a pause of broker-b")
        before = len(sending.sent)
        until(lambda: len(sending.sent) > before + 300, "300 more sends")
        over.set()
        slowing.join()
        sending.stop()
        assert sending.failures == []


def test_name_servers_dying_in_turn_stop_neither_sends_nor_new_topics(
    pair: Pair, topic: str, make_topic: Callable[..., None], until: Callable[..., Any]
) -> None:
    with Producer("faults", pair.client(), avoiding()) as producer:
        sending = Sending(producer, topic)
        sending.start()
        until(lambda: len(sending.sent) > 50, "50 sends")
        for number in (0, 1):
            pair.namesrv_processes[number].process.kill()
            pair.namesrv_processes[number].process.wait()
            for broker in pair.brokers.values():
                make_topic(broker.address, f"Later{number}", queues=1)
            until(lambda topic=f"Later{number}": _stored(producer, topic), "a topic made meanwhile")
            pair.restart_namesrv(number)
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
