"""The blocking push consumer over real sockets."""

import queue
import threading
from collections.abc import Iterator, Sequence

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


def test_a_failed_start_leaves_nothing_running(namesrv: str) -> None:
    consumer = PushConsumer("g", namesrv)
    consumer.subscribe("T")
    consumer.unsubscribe("T")
    with pytest.raises(ClientError, match="listener"):
        consumer.start()
    assert "rocketmq-client" not in {thread.name for thread in threading.enumerate()}
