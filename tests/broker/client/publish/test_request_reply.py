"""Requests and their replies."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.client.instance.client_instance import MQClientInstance
from broker.client.publish.async_producer import AsyncProducer
from broker.client.publish.request_reply import replies_of, reply_to
from broker.common import sysflag
from broker.errors import ClientError, RequestTimeoutError
from broker.message.compression import compress
from broker.message.message import Message, MessageExt
from broker.message.properties import encode_properties
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request, response
from tests.support.fake_cluster import FakeBroker, FakeCluster, FakeTransport
from tests.support.virtual_time import run_virtual


def run(work: Callable[[FakeBroker, AsyncProducer], Awaitable[None]]) -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    cluster.create("c_REPLY_TOPIC", queues=1)
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        producer = AsyncProducer("pg", client, clock=cluster.clock, instance=instance)
        async with producer:
            await work(broker, producer)

    run_virtual(main(), cluster.clock)


async def push(producer: AsyncProducer, correlation_id: str, body: bytes, sys_flag: int = 0) -> Any:
    transport = producer.instance.transport
    assert isinstance(transport, FakeTransport)
    ext = {
        "producerGroup": "replier",
        "topic": "c_REPLY_TOPIC",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": str(sys_flag),
        "bornTimestamp": "5",
        "flag": "3",
        "properties": encode_properties({"CORRELATION_ID": correlation_id}).decode(),
        "bornHost": "127.0.0.1:5",
        "storeHost": "a name:5",
        "storeTimestamp": "6",
    }
    command = request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext, body)
    return await transport.ask("127.0.0.1:10911", command)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_reply_reaches_the_request_with_its_correlation_id(compressed: bool) -> None:
    async def work(broker: FakeBroker, producer: AsyncProducer) -> None:
        asking = [
            asyncio.ensure_future(producer.request(Message("T", b"%d" % one), timeout_ms=3_000))
            for one in range(3)
        ]
        while len(broker.log) < 3:
            await asyncio.sleep(0.01)
        assert RequestCode.HEART_BEAT in broker.codes()
        for message in reversed(broker.log):
            assert message.get_property("REPLY_TO_CLIENT") == producer.instance.client_id
            body, flag = b"re " + message.body, 0
            if compressed:
                body, flag = compress(body), sysflag.COMPRESSED
            answer = await push(producer, message.properties["CORRELATION_ID"], body, flag)
            assert answer.code == 0
        replies = await asyncio.gather(*asking)
        assert [one.body for one in replies] == [b"re 0", b"re 1", b"re 2"]
        assert {one.born_host for one in replies} == {"127.0.0.1:5"}

    run(work)


def test_a_request_without_reply_ends_after_its_time_and_a_late_reply_is_accepted() -> None:
    async def work(broker: FakeBroker, producer: AsyncProducer) -> None:
        with pytest.raises(RequestTimeoutError, match="no reply"):
            await producer.request(Message("T", b"x"), timeout_ms=2_000)
        late = broker.log[0].properties["CORRELATION_ID"]
        assert (await push(producer, late, b"late")).code == 0
        assert replies_of(producer.instance).waiting == {}

    run(work)


def test_a_reply_is_addressed_by_the_properties_of_its_request() -> None:
    properties = {
        "CLUSTER": "c",
        "CORRELATION_ID": "id",
        "REPLY_TO_CLIENT": "client",
        "TTL": "3000",
    }
    asked = MessageExt("T", b"x", encode_properties(properties))
    reply = reply_to(asked, b"answer")
    assert (reply.topic, reply.body) == ("c_REPLY_TOPIC", b"answer")
    del properties["CLUSTER"]
    assert {name: reply.properties[name] for name in properties} == properties

    async def work(broker: FakeBroker, producer: AsyncProducer) -> None:
        ext = {"msgId": "0", "queueId": "0", "queueOffset": "0"}
        code = RequestCode.SEND_REPLY_MESSAGE_V2
        broker.scripts[code] = lambda command: response(command, ext=dict(ext))
        await producer.send(reply)
        assert code in broker.codes()

    run(work)


def test_an_ordinary_message_cannot_be_answered() -> None:
    with pytest.raises(ClientError, match="not a request"):
        reply_to(MessageExt("T", b"x"), b"answer")
