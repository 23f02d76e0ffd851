"""Our client against the real broker and ours, and in one group with the real client."""

import base64
import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    ConsumerConfig,
    Message,
    MessageExt,
    MessageModel,
    Producer,
    ProducerConfig,
    PushConsumer,
)

Cluster = tuple[str, str]
NAMES = itertools.count()
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
WAIT_S = 60


@pytest.fixture(params=["java_cluster", "our_cluster"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The real servers and ours in turn: (name server address, broker address)."""
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def topic(cluster: Cluster, make_topic: Callable[..., None]) -> str:
    name = f"Client{next(NAMES)}"
    make_topic(cluster[1], name)
    return name


class Got:
    """A consumer of ours that remembers its messages; ``fails`` bodies fail that many times."""

    def __init__(
        self,
        namesrv: str,
        topic: str,
        group: str,
        *,
        orderly: bool = False,
        tags: str = "*",
        **config: Any,
    ) -> None:
        self.messages: queue.Queue[MessageExt] = queue.Queue()
        self.fails: dict[bytes, int] = {}
        settings = ConsumerConfig(**{"consume_from_where": FIRST, **config})
        self.consumer = PushConsumer(group, namesrv, settings)
        self.consumer.subscribe(topic, tags)
        if orderly:
            self.consumer.listen_orderly(self._orderly)
        else:
            self.consumer.listen(self._concurrently)

    def _take(self, messages: Sequence[MessageExt]) -> bool:
        for message in messages:
            if self.fails.get(message.body, 0) > 0:
                self.fails[message.body] -= 1
                return False
            self.messages.put(message)
        return True

    def _concurrently(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        context.delay_level_when_next_consume = 1
        done = self._take(messages)
        return (
            ConsumeConcurrentlyStatus.CONSUME_SUCCESS
            if done
            else (ConsumeConcurrentlyStatus.RECONSUME_LATER)
        )

    def _orderly(
        self, messages: Sequence[MessageExt], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        context.suspend_current_queue_ms = 50
        done = self._take(messages)
        return (
            ConsumeOrderlyStatus.SUCCESS
            if done
            else (ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT)
        )

    def take(self, count: int) -> list[MessageExt]:
        return [self.messages.get(timeout=WAIT_S) for _ in range(count)]


@pytest.mark.parametrize("compress_type", ["zlib", "lz4", "zstd"])
def test_java_reads_all_manners_of_our_sending(
    cluster: Cluster, topic: str, peer_533: Any, compress_type: str
) -> None:
    config = ProducerConfig(compress_type=compress_type, send_msg_timeout_ms=20_000)
    sent: list[bytes] = []

    def message(body: bytes) -> Message:
        sent.append(body)
        return Message(topic, body, tags="A", keys=["k1", "k2"], properties={"own": "ä"})

    with Producer("our-producer", cluster[0], config) as producer:
        results = [
            producer.send(message(b"plain")),
            producer.send(message(b"x" * 20_000)),
            producer.send_async(message(b"async")).result(WAIT_S),
            producer.send_batch([message(b"batch-1"), message(b"batch-2")]),
        ]
        producer.send_oneway(message(b"oneway"), queue=results[0].message_queue)
        results.append(producer.send(message(b"last"), queue=results[0].message_queue))
    _, events = peer_533.dump(namesrv=cluster[0], topic=topic)
    assert Counter(base64.b64decode(event["body"]) for event in events) == Counter(sent)
    by_place = {(event["queueId"], event["queueOffset"]): event for event in events}
    for result in results:
        event = by_place[result.message_queue.queue_id, result.queue_offset]
        assert event["uniqKey"] == result.msg_id.split(",")[0]
        assert (event["tags"], event["keys"].strip()) == ("A", "k1 k2")
        assert event["properties"]["own"] == "ä"


def test_messages_of_java_reach_our_listener(cluster: Cluster, topic: str, peer_533: Any) -> None:
    peer_533.produce(namesrv=cluster[0], topic=topic, count=20, tags="A,B", size=20_000)
    got = Got(cluster[0], topic, f"g-{topic}", tags="A || C")
    with got.consumer:
        found = got.take(10)
        assert len({one.body for one in found}) == 10
        assert all(len(one.body) == 20_000 for one in found)
        peer_533.produce(namesrv=cluster[0], topic=topic, count=4, first=20, tags="A,B")
        found += got.take(2)
        assert {one.tags for one in found} == {"A"}
    committed = {
        event["queueId"]: event["offset"]
        for event in peer_533.ask("committed", namesrv=cluster[0], topic=topic, group=f"g-{topic}")
        if event["event"] == "committed"
    }
    assert all(committed[one.queue_id] > one.queue_offset for one in found)


def test_failures_come_again_and_end_in_the_dead_letters(
    cluster: Cluster, topic: str, peer_533: Any
) -> None:
    group = f"g-{topic}"
    got = Got(cluster[0], topic, group, max_reconsume_times=1)
    got.fails = {b"body-1": 1, b"body-2": 9}
    with got.consumer:
        peer_533.produce(namesrv=cluster[0], topic=topic, count=4)
        found = got.take(3)
        assert {one.body: one.reconsume_times for one in found} == {
            b"body-0": 0,
            b"body-1": 1,
            b"body-3": 0,
        }
        assert {one.topic for one in found} == {topic}
        dead = Got(cluster[0], f"%DLQ%{group}", f"dead-{topic}")
        with dead.consumer:
            (letter,) = dead.take(1)
        assert letter.body == b"body-2"
        assert letter.get_property("RETRY_TOPIC") == topic


def test_orderly_listeners_keep_the_order_with_retries_in_place(
    cluster: Cluster, topic: str, peer_533: Any
) -> None:
    peer_533.produce(namesrv=cluster[0], topic=topic, count=20, queue=1)
    got = Got(cluster[0], topic, f"g-{topic}", orderly=True)
    got.fails = {b"body-5": 3}
    with got.consumer:
        assert [one.body for one in got.take(20)] == [b"body-%d" % one for one in range(20)]


def test_broadcasting_members_get_everything(
    cluster: Cluster, topic: str, tmp_path: Path, peer_533: Any
) -> None:
    from broker.client import ClientConfig

    options = {"message_model": MessageModel.BROADCASTING, "offset_dir": str(tmp_path)}
    members = []
    for name in ("a", "b"):
        client: Any = ClientConfig(namesrv=cluster[0], instance_name=name)
        members.append(Got(client, topic, f"g-{topic}", **options))
    with members[0].consumer, members[1].consumer:
        peer_533.produce(namesrv=cluster[0], topic=topic, count=10)
        for member in members:
            assert len({one.body for one in member.take(10)}) == 10
    assert len(list(tmp_path.rglob("offsets.json"))) == 2


def test_java_mqadmin_sees_and_steers_our_consumer(
    cluster: Cluster, topic: str, peer_533: Any, until: Callable[..., Any]
) -> None:
    group = f"g-{topic}"
    peer_533.produce(namesrv=cluster[0], topic=topic, count=8)
    got = Got(cluster[0], topic, group)
    with got.consumer:
        got.take(8)
        text = peer_533.mqadmin("consumerConnection", "-n", cluster[0], "-g", group)
        assert topic in text
        assert "PYTHON" in text
        status = peer_533.mqadmin("consumerStatus", "-n", cluster[0], "-g", group)
        assert "V5_3_3" in status
        until(
            lambda: (
                "Diff Total: 0"
                in peer_533.mqadmin("consumerProgress", "-n", cluster[0], "-g", group)
            ),
            "everything committed",
        )
        peer_533.mqadmin("resetOffsetByTime", "-n", cluster[0], "-g", group, "-t", topic, "-s", "0")
        assert len({one.body for one in got.take(8)}) == 8


# ---- one group of ours and Java's


class Group:
    """Members of both kinds: the owner of each queue of the topic."""

    def __init__(self, peer: Any, namesrv: str, topic: str) -> None:
        self.peer, self.namesrv, self.topic, self.group = peer, namesrv, topic, f"g-{topic}"
        self.ours: dict[str, Got] = {}
        self.javas: set[str] = set()
        self.everything: Counter[bytes] = Counter()

    def join(self, name: str, *, java: bool) -> None:
        if java:
            self.javas.add(name)
            self.peer.ask(
                "consume", namesrv=self.namesrv, topic=self.topic, group=self.group, consumer=name
            )
        else:
            self.ours[name] = Got(self.namesrv, self.topic, self.group)
            self.ours[name].consumer.start()

    def leave(self, name: str) -> None:
        if name in self.javas:
            self.peer.ask("stop", consumer=name)
            self.javas.discard(name)
        else:
            got = self.ours.pop(name)
            got.consumer.shutdown()
            self._drain(got)

    def owners(self) -> list[int]:
        owned = [one.queue_id for got in self.ours.values() for one in got.consumer.assignment()]
        for name in self.javas:
            owned += [
                event["queueId"]
                for event in self.peer.ask("assigned", consumer=name, topic=self.topic)
                if event["event"] == "assigned"
            ]
        return sorted(owned)

    def _drain(self, got: Got) -> None:
        while not got.messages.empty():
            self.everything[got.messages.get().body] += 1

    def consumed(self, java_names: set[str]) -> Counter[bytes]:
        for got in self.ours.values():
            self._drain(got)
        for name in java_names:
            inbox = self.peer.consumer(name)
            while not inbox.empty():
                event = inbox.get()
                if event["event"] == "message":
                    self.everything[base64.b64decode(event["body"])] += 1
        return self.everything


def test_a_mixed_group_has_one_owner_per_queue_and_loses_nothing(
    cluster: Cluster, topic: str, peer_533: Any, until: Callable[..., Any]
) -> None:
    group = Group(peer_533, cluster[0], topic)
    names = {f"{topic}-java-{number}" for number in range(2)}
    java, java_2 = sorted(names)
    steps: list[Callable[[], None]] = [
        lambda: group.join("ours", java=False),
        lambda: group.join(java, java=True),
        lambda: group.join("ours-2", java=False),
        lambda: group.leave("ours"),
        lambda: group.join(java_2, java=True),
        lambda: group.leave(java),
        lambda: group.leave(java_2),
    ]
    with Producer("mixed", cluster[0], ProducerConfig(send_msg_timeout_ms=20_000)) as producer:
        sent = []
        for number, step in enumerate(steps):
            step()
            until(lambda: group.owners() == [0, 1, 2, 3], f"one owner per queue, step {number}")
            for part in range(8):
                sent.append(b"%d-%d" % (number, part))
                producer.send(Message(topic, sent[-1]))
            until(lambda: set(sent) <= set(group.consumed(names)), f"all consumed, step {number}")
    assert set(group.consumed(names)) == set(sent)
    group.leave("ours-2")


MEMBER = """
import os, sys, time
from broker.client import *
def listener(messages, context):
    for message in messages:
        os.write(1, message.body + b"\\n")  # listeners run in threads: print would mix lines
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
consumer = PushConsumer(sys.argv[2], sys.argv[1], config)
consumer.subscribe(sys.argv[3])
consumer.listen(listener)
consumer.start()
print("started", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A member of ours in a process that can be killed."""
    running: list[subprocess.Popen[str]] = []

    def start(namesrv: str, group: str, topic: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, namesrv, group, topic],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_java_member_takes_over_from_a_killed_one_of_ours(
    cluster: Cluster,
    topic: str,
    peer_533: Any,
    member: Any,
    until: Callable[..., Any],
    committed: Callable[..., str | None],
) -> None:
    group = Group(peer_533, cluster[0], topic)
    process = member(cluster[0], group.group, topic)
    seen: list[bytes] = []
    reader = threading.Thread(
        target=lambda: seen.extend(line.strip().encode() for line in process.stdout), daemon=True
    )
    reader.start()
    name = f"{topic}-java"
    group.join(name, java=True)
    until(lambda: len(group.owners()) == 2, "two queues each")
    sent = [b"%d" % number for number in range(40)]
    with Producer("killed", cluster[0], ProducerConfig(send_msg_timeout_ms=20_000)) as producer:
        for number in range(16):
            producer.send(Message(topic, b"before %d" % number))
        # Without an offset the Java member may begin at the end of a queue.
        until(
            lambda: all(committed(cluster[1], topic, group.group, n) is not None for n in range(4)),
            "an offset of each queue",
        )
        for number, body in enumerate(sent):
            producer.send(Message(topic, body))
            if number == 20:
                process.send_signal(signal.SIGKILL)
                killed = time.monotonic()
    until(lambda: group.owners() == [0, 1, 2, 3], "all queues at the Java member")
    assert time.monotonic() - killed < 20
    reader.join(10)
    until(lambda: set(sent) <= {*seen, *group.consumed({name})}, "nothing lost")
    group.leave(name)
