"""A broker of this process with our own producer and consumer connected to it."""

import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from broker.client.config import ClientConfig, ConsumerConfig
from broker.client.facade.producer import Producer
from broker.client.facade.push_consumer import PushConsumer
from broker.client.listener.listeners import ConsumeConcurrentlyContext
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.client.results import ConsumeConcurrentlyStatus
from broker.message.message import Message, MessageExt
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from tests.support.live_broker import until

FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


class Online(NamedTuple):
    """Topic ``orders``, producer group ``shop``, consumer group ``billing`` with one client.

    ``sent`` are ids of two consumed messages with body a and b; ``got`` receives each consumed
    message. A message with the body ``fail`` is not consumed.
    """

    broker: BlockingEmbeddedBroker
    sent: Sequence[str]
    got: "queue.Queue[MessageExt]"
    client_id: str


@contextmanager
def online_clients(broker: BlockingEmbeddedBroker) -> Iterator[Online]:
    """Start both clients; they run until the end of the context."""
    got: queue.Queue[MessageExt] = queue.Queue()

    def listener(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            if message.body == b"fail":
                return ConsumeConcurrentlyStatus.RECONSUME_LATER
            got.put(message)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    client = ClientConfig(namesrv=[broker.namesrv_address])
    with MQAdmin([broker.namesrv_address], timeout_ms=60_000) as admin:
        admin.apply(admin.topic.plan_create("orders", read_queues=2, write_queues=2))
        admin.apply(admin.group.plan_create("billing"))
    consumer = PushConsumer("billing", client, FIRST)
    consumer.subscribe("orders", "*")
    consumer.listen(listener)
    with Producer("shop", client) as producer:
        ids = [
            producer.send(Message("orders", body, tags="A", keys="k")).offset_msg_id or ""
            for body in (b"a", b"b")
        ]
        with consumer, MQAdmin([broker.namesrv_address], timeout_ms=60_000) as admin:
            for _ in ids:
                got.get(timeout=60)
            until(lambda: admin.producer.connections("shop").connections)
            (one,) = until(lambda: admin.consumer.connections("billing").connections)
            yield Online(broker, ids, got, one.client_id)
