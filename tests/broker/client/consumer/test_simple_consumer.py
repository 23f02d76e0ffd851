"""The simple consumer: the brokers that are asked, and the effect of each response."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.client.consumer.simple_consumer import AsyncSimpleConsumer
from broker.client.instance.client_instance import MQClientInstance
from broker.client.pop.receipt_handle import handle_of
from broker.errors import BrokerError, ClientError
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import encode_record
from broker.remoting.protocol.body.consumer.heartbeat import HeartbeatData
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from tests.support.fake_cluster import FakeBroker, FakeCluster
from tests.support.virtual_time import run_virtual

POP = RequestCode.POP_MESSAGE
ACK = RequestCode.ACK_MESSAGE
CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
NUMBERS = {"popTime": "1000", "invisibleTime": "60000", "reviveQid": "3", "restNum": "0"}


def run(
    work: Callable[[FakeCluster, AsyncSimpleConsumer], Awaitable[None]], *, brokers: int = 1
) -> None:
    cluster = FakeCluster(brokers=brokers)
    cluster.create("T")
    for broker in cluster.brokers.values():
        broker.scripts[POP] = waiting(cluster)

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        consumer = AsyncSimpleConsumer("g", client, clock=cluster.clock, instance=instance)
        consumer.subscribe("T", "Aa")
        async with consumer:
            await work(cluster, consumer)

    run_virtual(main(), cluster.clock)


def waiting(cluster: FakeCluster) -> Callable[[RemotingCommand], Awaitable[RemotingCommand]]:
    """A broker without messages: it answers after the poll time."""

    async def answer(command: RemotingCommand) -> RemotingCommand:
        await asyncio.sleep(int(command.ext_fields["pollTime"]) / 1000)
        return response(command, ResponseCode.POLLING_TIMEOUT, ext=dict(NUMBERS))

    return answer


def having(*tags: str) -> Callable[[RemotingCommand], RemotingCommand]:
    body = b"".join(
        encode_record(MessageExt("T", b"x", f"TAGS\x01{tag}\x02".encode(), queue_offset=number))
        for number, tag in enumerate(tags)
    )
    return lambda command: response(command, ext=dict(NUMBERS), body=body)


def fields(broker: FakeBroker, code: int) -> list[dict[str, str]]:
    return [one.ext_fields for one in broker.calls if one.code == code]


def test_an_empty_answer_comes_after_the_waiting_time() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        began_s = cluster.now_s()
        assert await consumer.receive(wait_ms=7_000) == []
        assert 7 <= cluster.now_s() - began_s < 7.1
        (asked,) = fields(cluster.brokers["broker-a"], POP)
        assert asked["pollTime"] == "7000"
        assert (asked["queueId"], asked["maxMsgNums"], asked["exp"]) == ("-1", "1", "Aa")

    run(work)


def test_every_broker_is_looked_at_before_any_is_waited_for() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        cluster.brokers["broker-b"].scripts[POP] = having("Aa")
        for _ in range(4):
            began_s = cluster.now_s()
            (message,) = await consumer.receive()
            assert handle_of(message).broker_name == "broker-b"
            assert cluster.now_s() - began_s < 0.1

    run(work, brokers=2)


def test_a_message_that_arrives_at_one_broker_is_found_while_waiting() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        receiving = asyncio.ensure_future(consumer.receive(wait_ms=15_000))
        await asyncio.sleep(5)
        cluster.brokers["broker-b"].scripts[POP] = having("Aa")
        began_s = cluster.now_s()
        assert len(await receiving) == 1
        assert cluster.now_s() - began_s < 4.1

    run(work, brokers=2)


def test_other_tags_with_the_same_hash_are_acknowledged_silently() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        broker = cluster.brokers["broker-a"]
        broker.scripts[POP] = having("Aa", "BB")
        broker.scripts[ACK] = response
        (message,) = await consumer.receive(10)
        assert message.tags == "Aa"
        assert [one["offset"] for one in fields(broker, ACK)] == ["1"]

    run(work)


def test_acknowledging_and_extending_use_the_latest_handle() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        broker = cluster.brokers["broker-a"]
        broker.scripts[POP] = having("Aa")
        (message,) = await consumer.receive()
        first = handle_of(message).text
        new = {"popTime": "2000", "invisibleTime": "9000", "reviveQid": "5"}
        broker.scripts[CHANGE] = lambda command: response(command, ext=dict(new))
        assert await consumer.change_invisible_duration(message, 9_000)
        assert fields(broker, CHANGE)[0]["extraInfo"] == first
        assert handle_of(message).text == "0 2000 9000 5 0 broker-a 0 0"
        broker.scripts[ACK] = response
        assert await consumer.ack(message)
        assert fields(broker, ACK)[0]["extraInfo"] == handle_of(message).text

    run(work)


def test_the_refusal_of_a_broker_is_false() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        broker = cluster.brokers["broker-a"]
        broker.scripts[POP] = having("Aa")
        (message,) = await consumer.receive()
        for code in (ACK, CHANGE):
            broker.scripts[code] = lambda command: response(command, ResponseCode.NO_MESSAGE)
        assert not await consumer.ack(message)
        assert not await consumer.change_invisible_duration(message, 1)

    run(work)


def test_after_its_invisible_time_a_message_is_neither_acknowledged_nor_extended() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        broker = cluster.brokers["broker-a"]
        broker.scripts[POP] = having("Aa", "Aa")
        broker.scripts[ACK] = response
        first, second = await consumer.receive(2)
        await asyncio.sleep(59.9)
        assert await consumer.ack(first)
        await asyncio.sleep(0.2)
        assert not await consumer.ack(second)
        assert not await consumer.change_invisible_duration(second, 60_000)
        assert len(fields(broker, ACK)) == 1
        assert not fields(broker, CHANGE)

    run(work)


def test_an_acknowledged_message_is_not_acknowledged_or_extended_again() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        broker = cluster.brokers["broker-a"]
        broker.scripts[POP] = having("Aa")
        broker.scripts[ACK] = response
        (message,) = await consumer.receive()
        assert await consumer.ack(message)
        assert not await consumer.ack(message)
        assert not await consumer.change_invisible_duration(message, 60_000)
        assert len(fields(broker, ACK)) == 1
        assert not fields(broker, CHANGE)

    run(work)


def test_the_handle_before_an_extension_is_void() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        broker = cluster.brokers["broker-a"]
        broker.scripts[POP] = having("Aa")
        new = {"popTime": "2000", "invisibleTime": "90000", "reviveQid": "5"}
        broker.scripts[CHANGE] = lambda command: response(command, ext=dict(new))
        broker.scripts[ACK] = response
        (message,) = await consumer.receive()
        before = MessageExt("T", b"x", encode_properties(message.properties))
        assert await consumer.change_invisible_duration(message, 90_000)
        assert not await consumer.ack(before)
        await asyncio.sleep(70)
        assert await consumer.ack(message)

    run(work)


@pytest.mark.parametrize(
    ("refused", "delivered"),
    [
        (RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, [b"x"]),
        (RequestCode.CONSUMER_SEND_MSG_BACK, []),
    ],
)
def test_an_exhausted_message_is_not_acknowledged_unless_it_is_in_the_dead_letters(
    refused: int, delivered: list[bytes]
) -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        broker = cluster.brokers["broker-a"]
        record = MessageExt("T", b"x", b"TAGS\x01Aa\x02", reconsume_times=17)
        broker.scripts[POP] = lambda command: response(
            command, ext=dict(NUMBERS), body=encode_record(record)
        )
        broker.scripts[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda command: response(
            command, body=b'{"groupName":"g","retryMaxTimes":16}'
        )
        broker.scripts[refused] = lambda command: response(
            command, ResponseCode.SYSTEM_ERROR, "scripted"
        )
        assert [one.body for one in await consumer.receive(wait_ms=0)] == delivered
        assert not fields(broker, ACK)

    run(work)


def test_a_full_broker_is_an_error_and_nothing_is_repeated() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        broker = cluster.brokers["broker-a"]
        broker.scripts[POP] = lambda command: response(
            command, ResponseCode.POLLING_FULL, ext=dict(NUMBERS)
        )
        with pytest.raises(BrokerError) as caught:
            await consumer.receive()
        assert caught.value.code == ResponseCode.POLLING_FULL
        assert len(fields(broker, POP)) == 1

    run(work)


def test_the_group_registers_as_a_pop_consumer() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        beat = next(
            one for one in cluster.brokers["broker-a"].calls if one.code == RequestCode.HEART_BEAT
        )
        (data,) = HeartbeatData.from_bytes(beat.body_bytes()).consumer_data_set
        assert (data.group_name, data.consume_type) == ("g", "CONSUME_POP")
        assert await consumer.rebalance()
        await consumer.persist_offsets()

    run(work)


def test_arguments_are_checked() -> None:
    async def work(cluster: FakeCluster, consumer: AsyncSimpleConsumer) -> None:
        for count in (0, 33):
            with pytest.raises(ClientError, match="max_messages"):
                await consumer.receive(count)
        with pytest.raises(ClientError, match="not subscribed"):
            await consumer.receive(topic="U")
        consumer.subscribe("U")
        with pytest.raises(ClientError, match="U does not exist"):
            await consumer.receive(topic="U")
        consumer.unsubscribe("U")
        with pytest.raises(ClientError, match="receipt handle"):
            await consumer.ack(MessageExt("T", b"x"))
        with pytest.raises(ClientError, match="subscription"):
            consumer.subscribe("T", "||")
        with pytest.raises(ClientError, match="starts once"):
            await consumer.start()

    run(work)


def test_it_has_to_be_started() -> None:
    consumer: Any = AsyncSimpleConsumer("g", "ns:1")
    with pytest.raises(ClientError, match="not been started"):
        _ = consumer.instance
