"""The blocking lite pull consumer over real sockets."""

import time
from collections.abc import Iterator

import pytest

from broker.client import (
    ConsumeFromWhere,
    ConsumerConfig,
    LitePullConsumer,
    Message,
    Producer,
)
from broker.server.standalone import BlockingEmbeddedBroker

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}

FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("store")), SMALL) as both:
        with Producer("pg", both.namesrv_address) as producer:
            for number in range(20):
                producer.send(Message("T", b"%d" % number))
        yield both.namesrv_address


def drain(consumer: LitePullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    while len(bodies) < count:
        batch = consumer.poll(30_000)
        assert batch, "no message came"
        bodies += [one.body for one in batch]
    return bodies


def test_a_group_polls_and_a_new_member_continues(namesrv: str) -> None:
    consumer = LitePullConsumer("group", namesrv, FIRST)
    consumer.subscribe("T")
    with consumer:
        assert len(drain(consumer, 20)) == 20
    with Producer("pg", namesrv) as producer:
        producer.send(Message("T", b"next"))
    consumer = LitePullConsumer("group", namesrv, FIRST)
    consumer.subscribe("T")
    with consumer:
        assert drain(consumer, 1) == [b"next"]


def test_positions(namesrv: str) -> None:
    consumer = LitePullConsumer("positions", namesrv, FIRST, auto_commit=False)
    consumer.subscribe("T")
    with consumer:
        drain(consumer, 20)
        queue = next(one for one in consumer.assignment() if one.queue_id == 0)
        assert queue in consumer.fetch_message_queues("T")
        assert consumer.offset_for_timestamp(queue, 0) == 0
        later = consumer.offset_for_timestamp(queue, int(time.time() * 1000) + 60_000)
        consumer.seek(queue, 1)
        consumer.poll(30_000)
        consumer.seek_to_end(queue)
        assert consumer.poll(200) == []
        consumer.seek_to_begin(queue)
        consumer.pause([queue])
        assert consumer.poll(200) == []
        consumer.resume([queue])
        assert consumer.poll(30_000)[0].queue_offset == 0
        consumer.commit()
        assert consumer.committed(queue) == later
