"""Our client with features of both 5.x brokers: transactions, replies, recall, POP."""

import asyncio
import itertools
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from broker.client import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumerConfig,
    LitePullConsumer,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageTrace,
    Producer,
    ProducerConfig,
    PushConsumer,
    SimpleConsumer,
    TransactionProducer,
    reply_to,
)
from broker.errors import BrokerError, RequestTimeoutError
from tests.interop.conftest import JavaServers, OurServers, close_all

Cluster = tuple[str, str]
NAMES = itertools.count()
PATIENT = ProducerConfig(send_msg_timeout_ms=20_000)
FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
SUCCESS = ConsumeConcurrentlyStatus.CONSUME_SUCCESS
WAIT_S = 60

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOWN = LocalTransactionState.UNKNOWN


@pytest.fixture(scope="module", params=["java", "ours"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The real servers and ours in turn, with short transaction checks and recall."""
    java = request.param == "java"
    work = tmp_path_factory.mktemp("features")
    servers: Any = JavaServers(request.getfixturevalue("java_533")) if java else OurServers()
    namesrv = servers.namesrv(work)
    broker = servers.broker(
        work,
        work / "store",
        namesrv,
        transactionCheckInterval=1_000,
        transactionTimeOut=1_000,
        recallMessageEnable="true",
        timerWheelEnable="true",
        traceTopicEnable="true",
    )
    yield namesrv, broker.address
    close_all(servers.running)


@pytest.fixture
def topic(cluster: Cluster, make_topic: Callable[..., None]) -> str:
    name = f"Feature{next(NAMES)}"
    make_topic(cluster[1], name)
    return name


class Decisions:
    """A transaction listener: decisions by body, for the local transaction and for checks."""

    def __init__(self, execute: dict[bytes, Any], check: dict[bytes, Any]) -> None:
        self.execute, self.check = execute, check
        self.checked: queue.Queue[bytes] = queue.Queue()

    def execute_local_transaction(self, message: Message, argument: object) -> Any:
        if message.body not in self.execute:
            raise ValueError("the local transaction failed")
        return self.execute[message.body]

    def check_local_transaction(self, message: MessageExt) -> Any:
        self.checked.put(message.body)
        # with such short times the broker also asks about some that were decided already
        return self.check.get(message.body) or self.execute.get(message.body, UNKNOWN)


def consuming(namesrv: str, topic: str, group: str) -> tuple[PushConsumer, queue.Queue[bytes]]:
    got: queue.Queue[bytes] = queue.Queue()

    def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            got.put(message.body)
        return SUCCESS

    consumer = PushConsumer(group, namesrv, FIRST)
    consumer.subscribe(topic)
    consumer.listen(listener)
    return consumer, got


def test_transactions_are_delivered_only_when_committed(cluster: Cluster, topic: str) -> None:
    decisions = Decisions(
        {b"commit": COMMIT, b"rollback": ROLLBACK, b"later": UNKNOWN, b"never": UNKNOWN},
        {b"later": COMMIT, b"never": ROLLBACK, b"raised": COMMIT},
    )
    consumer, got = consuming(cluster[0], topic, f"g-{topic}")
    producer = TransactionProducer(f"tx-{topic}", cluster[0], decisions, PATIENT)
    with consumer, producer:
        for body in (b"rollback", b"never", b"commit", b"later", b"raised"):
            result = producer.send_in_transaction(Message(topic, body, properties={"DELAY": "3"}))
            assert result.local_transaction_state is decisions.execute.get(body, UNKNOWN)
        delivered: set[bytes] = set()
        while not delivered >= {b"commit", b"later", b"raised"}:
            delivered.add(got.get(timeout=WAIT_S))
        asked: set[bytes] = set()
        while not asked >= {b"later", b"never", b"raised"}:
            asked.add(decisions.checked.get(timeout=WAIT_S))
        while not got.empty():  # a check that overtakes the decision may deliver a second copy
            delivered.add(got.get())
        assert delivered == {b"commit", b"later", b"raised"}


def test_a_transaction_of_one_producer_is_decided_by_another_of_its_group(
    cluster: Cluster, topic: str
) -> None:
    undecided = Decisions({b"orphan": UNKNOWN}, {})
    with TransactionProducer(f"tx-{topic}", cluster[0], undecided, PATIENT) as first:
        first.send_in_transaction(Message(topic, b"orphan"))
    decided = Decisions({b"own": COMMIT}, {b"orphan": COMMIT})
    consumer, got = consuming(cluster[0], topic, f"g-{topic}")
    with consumer, TransactionProducer(f"tx-{topic}", cluster[0], decided, PATIENT) as second:
        second.send_in_transaction(Message(topic, b"own"))
        delivered: set[bytes] = set()
        while not delivered >= {b"orphan", b"own"}:
            delivered.add(got.get(timeout=WAIT_S))


def test_a_request_gets_the_reply_of_its_consumer(cluster: Cluster, topic: str) -> None:
    with Producer(f"replier-{topic}", cluster[0], PATIENT) as replier:

        def listener(
            messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
        ) -> ConsumeConcurrentlyStatus:
            for message in messages:
                if message.body != b"silence":
                    replier.send(reply_to(message, b"re: " + message.body))
            return SUCCESS

        consumer = PushConsumer(f"g-{topic}", cluster[0], FIRST)
        consumer.subscribe(topic)
        consumer.listen(listener)
        with consumer, Producer(f"asker-{topic}", cluster[0], PATIENT) as asker:
            for body in (b"one", b"two" * 5_000):
                reply = asker.request(Message(topic, body), timeout_ms=WAIT_S * 1_000)
                assert reply.body == b"re: " + body
            with pytest.raises(RequestTimeoutError, match="no reply"):
                asker.request(Message(topic, b"silence"), timeout_ms=2_000)


def test_delayed_messages_come_late_and_can_be_recalled(cluster: Cluster, topic: str) -> None:
    consumer, got = consuming(cluster[0], topic, f"g-{topic}")
    with consumer, Producer(f"p-{topic}", cluster[0], PATIENT) as producer:
        due_ms = int(time.time() * 1000) + 8_000

        def timed(body: bytes) -> Message:
            return Message(topic, body, properties={"TIMER_DELIVER_MS": str(due_ms)})

        kept = producer.send(timed(b"kept"))
        gone = producer.send(timed(b"gone"))
        assert kept.recall_handle
        assert gone.recall_handle
        assert producer.recall(topic, gone.recall_handle) == gone.msg_id
        producer.send(Message(topic, b"level", properties={"DELAY": "1"}))
        assert got.get(timeout=WAIT_S) == b"level"
        assert got.get(timeout=WAIT_S) == b"kept"
        assert time.time() * 1000 >= due_ms - 1_000
        with pytest.raises(BrokerError):
            producer.recall(topic, kept.recall_handle)
        assert got.empty()


def test_a_simple_consumer_receives_acknowledges_and_extends(cluster: Cluster, topic: str) -> None:
    with SimpleConsumer(f"g-{topic}", cluster[0]) as consumer:
        consumer.subscribe(topic, "A")
        assert consumer.receive(wait_ms=100) == []
        with Producer(f"p-{topic}", cluster[0], PATIENT) as producer:
            for number in range(8):
                producer.send(Message(topic, b"%d" % number, tags="AB"[number % 2]))
        found: list[MessageExt] = []
        while len(found) < 4:
            batch = consumer.receive(32, 20_000, wait_ms=20_000)
            assert batch, "none came"
            found += batch
        assert sorted(one.body for one in found) == [b"0", b"2", b"4", b"6"]
        kept, *others = found
        assert all(consumer.ack(one) for one in others)
        assert consumer.change_invisible_duration(kept, 5_000)
        again = consumer.receive(32, 20_000, wait_ms=40_000)
        assert [one.body for one in again] == [kept.body]
        assert consumer.ack(again[0])
        assert consumer.receive(32, wait_ms=3_000) == []


def test_a_lite_pull_consumer_polls_seeks_and_commits(cluster: Cluster, topic: str) -> None:
    with Producer(f"p-{topic}", cluster[0], PATIENT) as producer:
        for number in range(20):
            producer.send(Message(topic, b"%02d" % number))
    consumer = LitePullConsumer(f"g-{topic}", cluster[0], FIRST, auto_commit=False)
    consumer.subscribe(topic)
    with consumer:
        bodies: list[bytes] = []
        while len(bodies) < 20:
            bodies += [one.body for one in consumer.poll(WAIT_S * 1_000)]
        assert sorted(bodies) == [b"%02d" % number for number in range(20)]
        queues = consumer.assignment()
        mine = [one for one in queues if one.topic == topic]
        assert len(mine) == 4
        assert [consumer.committed(one) or 0 for one in mine] == [0] * 4
        consumer.commit()
        assert sum(consumer.committed(one) or 0 for one in mine) == 20
        consumer.seek(mine[0], 2)
        assert [one.queue_offset for one in consumer.poll(WAIT_S * 1_000)] == [2, 3, 4]


def test_java_mqadmin_reads_our_trace(
    cluster: Cluster, topic: str, peer_533: Any, until: Callable[..., Any]
) -> None:
    async def traced() -> str:
        trace = MessageTrace(cluster[0])
        got = asyncio.Event()

        async def listener(
            messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
        ) -> ConsumeConcurrentlyStatus:
            got.set()
            return SUCCESS

        consumer = AsyncPushConsumer(f"g-{topic}", cluster[0], FIRST)
        consumer.subscribe(topic)
        consumer.listen(listener)
        consumer.consume_hooks.append(trace.consumed)
        producer = AsyncProducer(f"p-{topic}", cluster[0], PATIENT)
        producer.send_hooks.append(trace.sent)
        await trace.start()
        async with producer, consumer:
            result = await producer.send(Message(topic, b"x", tags="A", keys="traced"))
            await asyncio.wait_for(got.wait(), WAIT_S)
        await trace.shutdown()
        assert trace.dropped == 0
        return result.msg_id

    msg_id = asyncio.run(traced())

    def both() -> str:
        text: str = peer_533.mqadmin("queryMsgTraceById", "-n", cluster[0], "-i", msg_id)
        return text if f"p-{topic}" in text and f"g-{topic}" in text else ""

    text = until(both, "trace of the send and of the consumption")
    assert "success" in text


def test_transactions_of_our_producer_are_decided_by_javas_and_the_other_way_round(
    cluster: Cluster, topic: str, peer_533: Any
) -> None:
    """The checks go to whichever producer of the group is there; the half messages stay."""
    group, names = f"tx-{topic}", {"namesrv": cluster[0], "topic": topic, "group": f"tx-{topic}"}

    def java(local: str, check: str, producer: str) -> None:
        properties = {"local": local, "check": check}
        peer_533.ask("transaction", **names, producer=producer, count=1, properties=properties)

    consumer, got = consuming(cluster[0], topic, f"g-{topic}")
    with consumer:
        undecided = Decisions(dict.fromkeys((b"ours-1", b"ours-0"), UNKNOWN), {})
        with TransactionProducer(group, cluster[0], undecided, PATIENT) as ours:
            for body, check in ((b"ours-0", "rollback"), (b"ours-1", "commit")):
                properties = {"local": "unknown", "check": check}
                ours.send_in_transaction(Message(topic, body, properties=properties))
        java("commit", "commit", f"java-{topic}")  # body-0: registers the producer
        # A slow first send is checked, too, and a Java broker then commits it twice.
        first = {got.get(timeout=WAIT_S), got.get(timeout=WAIT_S)}
        while len(first) < 2:
            first.add(got.get(timeout=WAIT_S))
        assert first == {b"body-0", b"ours-1"}
        java("unknown", "unknown", f"java-{topic}")
        peer_533.ask("stopProducer", producer=f"java-{topic}")
        decided = Decisions({b"own": COMMIT}, {b"body-0": COMMIT})
        with TransactionProducer(group, cluster[0], decided, PATIENT) as ours:
            ours.send_in_transaction(Message(topic, b"own"))
            last = {got.get(timeout=WAIT_S), got.get(timeout=WAIT_S)}
            while len(last) < 2:
                last.add(got.get(timeout=WAIT_S))
            assert last == {b"body-0", b"own"}
        # Not the rolled-back message. A check that overtakes a decision may deliver a second copy.
        while not got.empty():
            assert got.get() in {b"body-0", b"ours-1", b"own"}
