"""Our push consumer in POP mode, and the Java one, at both brokers."""

import base64
import queue
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from broker.client import (
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
from tests.support.pop_mode import set_request_mode

WAIT_S = 60
POPPING = ConsumerConfig(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    client_rebalance=False,
    pop_invisible_ms=10_000,
)
Delivery = tuple[str, bytes, int]


def failing_first(got: "queue.Queue[Delivery]") -> Callable[..., ConsumeConcurrentlyStatus]:
    """A listener that records deliveries and fails the first one of each message."""

    def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            got.put((message.topic, message.body, message.reconsume_times))
        if all(message.reconsume_times for message in messages):
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    return listener


def take(got: "queue.Queue[Delivery]", count: int) -> list[Delivery]:
    return [got.get(timeout=WAIT_S) for _ in range(count)]


def ours(namesrv: str, broker: str) -> "Counter[Delivery]":
    set_request_mode(broker, "PopPush", "CGOurPop")
    got: queue.Queue[Delivery] = queue.Queue()
    consumer = PushConsumer("CGOurPop", namesrv, POPPING)
    consumer.subscribe("PopPush")
    consumer.listen(failing_first(got))
    with consumer:
        seen = take(got, 16)
    return Counter(seen)


def java(peer: Any, namesrv: str, broker: str) -> "Counter[Delivery]":
    set_request_mode(broker, "PopPush", "CGJavaPop")
    name = f"popper-{namesrv}"
    peer.ask(
        "consume", consumer=name, namesrv=namesrv, topic="PopPush", group="CGJavaPop",
        pop=True, invisibleMs=10_000, failTimes=1,
    )  # fmt: skip
    events = peer.messages(name, 16)
    peer.ask("stop", consumer=name)
    return Counter(
        (event["topic"], base64.b64decode(event["body"]), event["reconsumeTimes"])
        for event in events
    )


def test_our_push_consumer_in_pop_mode_receives_the_messages_of_javas_on_both_brokers(
    our_servers: Any,
    java_servers: Any,
    peer_533: Any,
    make_topic: Callable[..., None],
    tmp_path: Path,
) -> None:
    seen = {}
    for name, servers in (("java", java_servers), ("ours", our_servers)):
        namesrv = servers.namesrv(tmp_path / name)
        broker = servers.broker(tmp_path / name, tmp_path / name / "store", namesrv)
        make_topic(broker.address, "PopPush", 2)
        peer_533.produce(namesrv=namesrv, topic="PopPush", count=8, tags="A")
        seen[name, "our client"] = ours(namesrv, broker.address)
        seen[name, "java client"] = java(peer_533, namesrv, broker.address)
        peer_533.ask("forget", namesrv=namesrv)
    first = seen["java", "java client"]
    assert {times for _, _, times in first} == {0, 1}
    for place, deliveries in seen.items():
        assert deliveries == first, place


def test_a_running_consumer_follows_the_mode_and_loses_nothing(
    our_servers: Any, java_servers: Any, make_topic: Callable[..., None], tmp_path: Path
) -> None:
    for name, servers in (("java", java_servers), ("ours", our_servers)):
        namesrv = servers.namesrv(tmp_path / name)
        broker = servers.broker(tmp_path / name, tmp_path / name / "store", namesrv)
        make_topic(broker.address, "Switch", 2)
        got: queue.Queue[Delivery] = queue.Queue()
        consumer = PushConsumer("CGSwitch", namesrv, POPPING)
        consumer.subscribe("Switch")
        consumer.listen(failing_first(got))
        producer = Producer("PGSwitch", namesrv, ProducerConfig(send_msg_timeout_ms=20_000))
        with producer, consumer:
            inner = consumer.async_consumer
            for round_number, mode in enumerate(("PULL", "POP", "PULL")):
                set_request_mode(broker.address, "Switch", "CGSwitch", mode)
                until_s = time.monotonic() + WAIT_S
                while {one.queue_id for one in inner.pop_queues} != (
                    {-1} if mode == "POP" else set()
                ) or (mode == "PULL" and len(consumer.assignment()) < 2):
                    assert time.monotonic() < until_s, (name, mode, consumer.assignment())
                    time.sleep(0.2)
                bodies = {b"%d-%d" % (round_number, number) for number in range(4)}
                for body in bodies:
                    producer.send(Message("Switch", body))
                ended: set[bytes] = set()
                while ended < bodies:  # a message in flight during the switch may come again
                    topic, body, times = got.get(timeout=WAIT_S)
                    assert topic == "Switch", (name, mode)
                    if times:
                        ended.add(body)


def test_our_member_and_a_java_one_share_a_popping_group_and_lose_nothing(
    our_servers: Any,
    java_servers: Any,
    peer_533: Any,
    make_topic: Callable[..., None],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    for name, servers in (("java", java_servers), ("ours", our_servers)):
        namesrv = servers.namesrv(tmp_path / name)
        broker = servers.broker(tmp_path / name, tmp_path / name / "store", namesrv)
        make_topic(broker.address, "Shared", 2)
        set_request_mode(broker.address, "Shared", "CGShared")
        got: queue.Queue[Delivery] = queue.Queue()
        consumer = PushConsumer("CGShared", namesrv, POPPING)
        consumer.subscribe("Shared")
        consumer.listen(failing_first(got))
        peer_533.ask(
            "consume", consumer=name, namesrv=namesrv, topic="Shared", group="CGShared",
            pop=True, invisibleMs=10_000,
        )  # fmt: skip
        producer = Producer("PGShared", namesrv, ProducerConfig(send_msg_timeout_ms=20_000))
        with producer:
            with consumer:
                until(lambda consumer=consumer: len(consumer.assignment()) == 1, "a queue to pop")
                for number in range(40):
                    producer.send(Message("Shared", b"%d" % number))
                missing = {b"%d" % number for number in range(40)}
                until_s = time.monotonic() + WAIT_S
                while missing:  # a message that fails at ours may succeed at the Java member
                    assert time.monotonic() < until_s, (name, sorted(missing))
                    missing -= {body for _, body, times in drained(got) if times}
                    events = drained(peer_533.consumer(name))
                    missing -= {base64.b64decode(event["body"]) for event in events}
                    time.sleep(0.05)
            producer.send(Message("Shared", b"after our member left"))
            last = None
            while last != b"after our member left":  # messages in flight at ours come again first
                last = base64.b64decode(peer_533.messages(name, 1)[0]["body"])
        peer_533.ask("stop", consumer=name)
        peer_533.ask("forget", namesrv=namesrv)


def drained(got: "queue.Queue[Any]") -> list[Any]:
    found = []
    while not got.empty():
        found.append(got.get())
    return found
