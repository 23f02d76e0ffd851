"""Fixtures for pytest: a broker, a name server and clients in the test process.

Installed with the package (entry point ``pytest11``), so a test just names them::

    def test_orders(rocketmq_producer, rocketmq_topic, rocketmq_receive):
        rocketmq_producer.send(Message(rocketmq_topic, b"hello"))
        assert [message.body for message in rocketmq_receive(rocketmq_topic, 1)] == [b"hello"]

Each test has its own broker with an empty store on free ports of 127.0.0.1; nothing stays after it.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.client.config import ClientConfig, ConsumerConfig
from broker.client.facade.lite_pull import LitePullConsumer
from broker.client.facade.producer import Producer
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.message.message import MessageExt
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.standalone import BlockingEmbeddedBroker

SMALL_STORE = {
    "mappedFileSizeCommitLog": str(4 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 10_000),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
}
"""Sizes of the store's files: a test needs megabytes, not the gigabytes of a production broker."""

CALL_TIMEOUT_MS = 10_000
RECEIVE_TIMEOUT_MS = 10_000

_numbers = itertools.count(1)


@pytest.fixture
def rocketmq_broker(tmp_path: Path) -> Iterator[BlockingEmbeddedBroker]:
    """A broker and its name server: ``namesrv_address``, ``address``."""
    with BlockingEmbeddedBroker(str(tmp_path / "rocketmq"), SMALL_STORE) as both:
        yield both


@pytest.fixture
def rocketmq_client(rocketmq_broker: BlockingEmbeddedBroker) -> ClientConfig:
    """The configuration of a client of ``rocketmq_broker``."""
    return ClientConfig(namesrv=rocketmq_broker.namesrv_address, client_ip="127.0.0.1")


@pytest.fixture
def rocketmq_topic(rocketmq_broker: BlockingEmbeddedBroker) -> str:
    """The name of a new topic with four queues."""
    topic = f"test-{next(_numbers)}"
    header = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    with BlockingClient(timeout_ms=CALL_TIMEOUT_MS) as client:
        command = request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        client.check(rocketmq_broker.address, command)
    return topic


@pytest.fixture
def rocketmq_producer(rocketmq_client: ClientConfig) -> Iterator[Producer]:
    """A started producer."""
    with Producer("test-producer", rocketmq_client) as producer:
        yield producer


@pytest.fixture
def rocketmq_receive(rocketmq_client: ClientConfig) -> Callable[..., list[MessageExt]]:
    """``rocketmq_receive(topic, count, tags="*")``: the first ``count`` messages of a topic.

    Fails the test if they do not come within 10 s.
    """

    def receive(topic: str, count: int, tags: str = "*") -> list[MessageExt]:
        where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        config = ConsumerConfig(consume_from_where=where)
        consumer = LitePullConsumer(f"test-receiver-{next(_numbers)}", rocketmq_client, config)
        consumer.subscribe(topic, tags)
        found: list[MessageExt] = []
        with consumer:
            while len(found) < count:
                batch = consumer.poll(RECEIVE_TIMEOUT_MS)
                if not batch:
                    pytest.fail(f"topic {topic}: {len(found)} of {count} messages came in time")
                found += batch
        return found[:count]

    return receive
