"""The blocking push consumer over real sockets."""

import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

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
    Producer,
    PushConsumer,
)
from broker.errors import ClientError
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.standalone import BlockingEmbeddedBroker

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}

FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("store")), SMALL) as both:
        yield both.namesrv_address


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_messages_reach_a_listener_in_a_thread(
    namesrv: str, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_LOOP", loop)
    got: queue.Queue[tuple[bytes, str]] = queue.Queue()

    def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            got.put((message.body, threading.current_thread().name))
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    topic = f"T-{loop}"
    with Producer("pg", namesrv) as producer:
        sent = {producer.send(Message(topic, b"%d" % one)).queue_offset for one in range(20)}
        assert sent
        consumer = PushConsumer(f"g-{loop}", namesrv, FIRST)
        consumer.subscribe(topic)
        consumer.listen(listener)
        with consumer:
            found = [got.get(timeout=30) for _ in range(20)]
            assert len(consumer.assignment()) == 4
            consumer.suspend()
            consumer.resume()
        assert {body for body, _ in found} == {b"%d" % one for one in range(20)}
        assert all(name.startswith(f"ConsumeMessageThread_g-{loop}") for _, name in found)


def test_orderly_listeners_keep_the_order_of_a_queue(namesrv: str) -> None:
    got: queue.Queue[bytes] = queue.Queue()
    failed = threading.Event()

    def listener(
        messages: Sequence[MessageExt], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        if messages[0].body == b"07" and not failed.is_set():
            failed.set()
            context.suspend_current_queue_ms = 10
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        for message in messages:
            got.put(message.body)
        return ConsumeOrderlyStatus.SUCCESS

    with Producer("pg", namesrv) as producer:
        for number in range(20):
            producer.send(Message("Ordered", b"%02d" % number), selector=lambda all: all[0])
        consumer = PushConsumer("ordered", namesrv, FIRST)
        consumer.subscribe("Ordered")
        consumer.listen_orderly(listener)
        with consumer:
            assert [got.get(timeout=30) for _ in range(20)] == [
                b"%02d" % number for number in range(20)
            ]
        assert failed.is_set()


def test_the_maximum_of_the_group_sends_a_failing_message_to_the_dead_letters(
    tmp_path: Path,
) -> None:
    """``retryMaxTimes`` 2 is three deliveries, although no client has a setting for it."""
    deliveries: queue.Queue[int] = queue.Queue()
    dead: queue.Queue[bytes] = queue.Queue()

    def failing(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        deliveries.put(messages[0].reconsume_times)
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    def repairing(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        dead.put(messages[0].body)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    settings = SMALL | {"messageDelayLevel": "1s 1s 1s 1s 1s"}
    with BlockingEmbeddedBroker(str(tmp_path), settings) as both:
        group = b'{"groupName":"gl","retryMaxTimes":2}'
        with BlockingClient() as admin:
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            assert admin.call(both.address, request(code, body=group)).code == 0
        with Producer("pg", both.namesrv_address) as producer:
            producer.send(Message("TL", b"poison"))
        consumer = PushConsumer("gl", both.namesrv_address, FIRST)
        consumer.subscribe("TL")
        consumer.listen(failing)
        repair = PushConsumer("repair", both.namesrv_address, FIRST)
        repair.subscribe("%DLQ%gl")
        repair.listen(repairing)
        with consumer, repair:
            assert dead.get(timeout=60) == b"poison"
    assert [deliveries.get(timeout=1) for _ in range(deliveries.qsize())] == [0, 1, 2]


def test_a_failed_start_leaves_nothing_running(namesrv: str) -> None:
    consumer = PushConsumer("g", namesrv)
    consumer.subscribe("T")
    consumer.unsubscribe("T")
    with pytest.raises(ClientError, match="listener"):
        consumer.start()
    assert "rocketmq-client" not in {thread.name for thread in threading.enumerate()}
