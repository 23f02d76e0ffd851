"""The producer's core on virtual time: retries, broker change, fault avoidance, shutdown."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.client.config import FaultRule, ProducerConfig
from broker.client.instance.client_instance import MQClientInstance
from broker.client.publish.async_producer import AsyncProducer, recall_broker
from broker.client.results import SendStatus
from broker.common.message_queue import MessageQueue
from broker.errors import (
    BrokerError,
    ClientError,
    ConnectError,
    RemotingError,
    RequestTimeoutError,
    SendRequestError,
)
from broker.message.message import Message
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.send import decode_send_header
from tests.support.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtual

SEND = RequestCode.SEND_MESSAGE_V2


def cluster_of(brokers: int, **options: int) -> FakeCluster:
    cluster = FakeCluster(brokers=brokers, **options)
    cluster.create("T")
    cluster.create("TBW102", queues=8)
    return cluster


def run(
    cluster: FakeCluster, work: Callable[[AsyncProducer], Awaitable[Any]], **config: Any
) -> Any:
    async def main() -> Any:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        settings = ProducerConfig(**config)
        async with AsyncProducer(
            "pg", client, settings, clock=cluster.clock, instance=instance
        ) as producer:
            return await work(producer)

    return run_virtual(main(), cluster.clock)


def answering(code: int) -> Callable[[RemotingCommand], RemotingCommand]:
    return lambda command: response(command, code, "scripted")


def sends(cluster: FakeCluster) -> dict[str, int]:
    return {name: broker.codes().count(SEND) for name, broker in cluster.brokers.items()}


def test_messages_spread_evenly_and_the_result_has_their_queue() -> None:
    cluster = cluster_of(2)

    async def main(producer: AsyncProducer) -> None:
        results = [await producer.send(Message("T", b"%d" % one)) for one in range(16)]
        queues = [result.message_queue for result in results]
        assert len(set(queues)) == 8
        assert sends(cluster) == {"broker-a": 8, "broker-b": 8}
        assert {result.queue_offset for result in results} == {0, 1}
        assert len({result.msg_id for result in results}) == 16
        assert {result.send_status for result in results} == {SendStatus.SEND_OK}

    run(cluster, main)


@pytest.mark.parametrize("failure", ["down", "hung"])
def test_every_send_succeeds_while_another_broker_can_be_written(failure: str) -> None:
    cluster = cluster_of(2)
    cluster.brokers["broker-a"].state = failure

    async def main(producer: AsyncProducer) -> None:
        for _ in range(10):
            result = await producer.send(Message("T", b"x"))
            assert result.message_queue.broker_name == "broker-b"

    run(cluster, main)
    assert len(cluster.brokers["broker-b"].log) == 10


def test_with_avoidance_a_failed_broker_gets_nothing_until_its_pause_is_over() -> None:
    cluster = cluster_of(2)
    sick = cluster.brokers["broker-a"]
    sick.scripts[SEND] = answering(ResponseCode.SYSTEM_ERROR)

    async def main(producer: AsyncProducer) -> None:
        while sends(cluster)["broker-a"] == 0:
            await producer.send(Message("T", b"x"))
        for _ in range(50):
            await producer.send(Message("T", b"x"))
        assert sends(cluster)["broker-a"] == 1
        assert "broker-a" in str(producer.faults.faults)
        sick.scripts.clear()
        await asyncio.sleep(10.01)
        for _ in range(8):
            await producer.send(Message("T", b"x"))
        assert sends(cluster)["broker-a"] > 1

    run(cluster, main, send_latency_enable=True)


@pytest.mark.parametrize(("rule", "pause_s"), [(FaultRule.V4, 30.0), (FaultRule.V5, 2.0)])
def test_a_slow_answer_pauses_its_broker_by_the_table(rule: FaultRule, pause_s: float) -> None:
    cluster = cluster_of(2)
    slow = cluster.brokers["broker-a"]
    slow.latency_s = 0.6

    async def main(producer: AsyncProducer) -> None:
        while sends(cluster)["broker-a"] == 0:
            await producer.send(Message("T", b"x"))
        slow.latency_s = 0.0
        await asyncio.sleep(pause_s - 0.1)
        for _ in range(20):
            await producer.send(Message("T", b"x"))
        assert sends(cluster)["broker-a"] == 1
        await asyncio.sleep(0.2)
        for _ in range(20):
            await producer.send(Message("T", b"x"))
        assert sends(cluster)["broker-a"] > 1

    run(cluster, main, send_latency_enable=True, fault_rule=rule)


def test_the_detector_makes_a_broker_reachable_again() -> None:
    cluster = cluster_of(2)
    cluster.brokers["broker-a"].state = "down"

    async def main(producer: AsyncProducer) -> None:
        faults = producer.faults.faults
        for _ in range(8):
            await producer.send(Message("T", b"x"))
        assert not faults.is_reachable("broker-a")
        cluster.brokers["broker-a"].start()
        await asyncio.sleep(7)
        assert faults.is_reachable("broker-a")

    run(cluster, main, send_latency_enable=True, start_detector_enable=True)


def test_three_attempts_for_a_retried_code_one_for_others() -> None:
    for code, attempts in ((ResponseCode.SYSTEM_BUSY, 3), (ResponseCode.MESSAGE_ILLEGAL, 1)):
        cluster = cluster_of(1)
        cluster.brokers["broker-a"].scripts[SEND] = answering(code)

        async def main(producer: AsyncProducer, code: int = code) -> None:
            with pytest.raises(BrokerError) as caught:
                await producer.send(Message("T", b"x"))
            assert caught.value.code == code

        run(cluster, main)
        assert sends(cluster)["broker-a"] == attempts


def test_asynchronous_sends_repeat_transport_failures_and_keep_the_queue_id() -> None:
    cluster = cluster_of(2)
    tried: list[int] = []

    def break_connection(command: RemotingCommand) -> ConnectError:
        tried.append(decode_send_header(command).queue_id)
        return ConnectError("refused")

    cluster.brokers["broker-a"].scripts[SEND] = break_connection
    refusing = cluster_of(2)
    refusing.brokers["broker-a"].scripts[SEND] = answering(ResponseCode.SYSTEM_BUSY)
    refusing.brokers["broker-b"].scripts[SEND] = answering(ResponseCode.SYSTEM_BUSY)

    async def resent(producer: AsyncProducer) -> None:
        for _ in range(12):
            before = len(tried)
            result = await (await producer.send_async(Message("T", b"x")))
            assert result.message_queue.broker_name == "broker-b"
            if len(tried) > before:
                assert result.message_queue.queue_id == tried[-1]
        assert tried

    async def refused(producer: AsyncProducer) -> None:
        with pytest.raises(BrokerError):
            await (await producer.send_async(Message("T", b"x")))

    run(cluster, resent)
    run(refusing, refused)
    assert sum(sends(refusing).values()) == 1


def test_an_ordered_message_is_sent_once_to_the_selected_queue() -> None:
    cluster = cluster_of(2)

    async def main(producer: AsyncProducer) -> None:
        for _ in range(5):
            result = await producer.send(Message("T", b"x"), selector=lambda queues: queues[3])
            assert result.message_queue == MessageQueue("T", "broker-a", 3)
        with pytest.raises(ClientError, match="selector"):
            await producer.send(
                Message("T", b"x"), selector=lambda _: MessageQueue("T", "broker-a", 99)
            )
        cluster.brokers["broker-a"].state = "down"
        with pytest.raises(RemotingError):
            await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-a", 3))
        assert not cluster.brokers["broker-b"].log

    run(cluster, main)


def test_a_result_with_less_durability_is_returned_or_retried_as_configured() -> None:
    cluster = cluster_of(2)
    for broker in cluster.brokers.values():
        ext = {"msgId": "0" * 32, "queueId": "0", "queueOffset": "0"}
        broker.scripts[SEND] = lambda command, ext=ext: response(  # type: ignore[misc]
            command, ResponseCode.FLUSH_DISK_TIMEOUT, ext=ext
        )

    async def main(producer: AsyncProducer) -> None:
        result = await producer.send(Message("T", b"x"))
        assert result.send_status is SendStatus.FLUSH_DISK_TIMEOUT

    run(cluster, main)
    assert sum(sends(cluster).values()) == 1
    run(cluster, main, retry_another_broker_when_not_store_ok=True)
    assert sum(sends(cluster).values()) == 4


def refused(command: RemotingCommand) -> RemotingCommand:
    return response(command, ResponseCode.MESSAGE_ILLEGAL, "scripted")


def connection_lost(command: RemotingCommand) -> RemotingError:
    return SendRequestError("scripted: the connection closed")


async def no_answer(command: RemotingCommand) -> RemotingCommand:
    await asyncio.Event().wait()
    return response(command)


@pytest.mark.parametrize("second", [refused, connection_lost, no_answer])
@pytest.mark.parametrize("retry_times", [1, 2])
def test_a_stored_message_whose_retry_fails_has_the_result_of_the_stored_one(
    second: Callable[[RemotingCommand], Any], retry_times: int
) -> None:
    cluster = cluster_of(2)
    arrived: list[RemotingCommand] = []

    def answer(command: RemotingCommand) -> Any:
        arrived.append(command)
        if len(arrived) > 1:
            return second(command)
        ext = {"msgId": "0" * 32, "queueId": "0", "queueOffset": "7"}
        return response(command, ResponseCode.SLAVE_NOT_AVAILABLE, ext=ext)

    for broker in cluster.brokers.values():
        broker.scripts[SEND] = answer

    async def main(producer: AsyncProducer) -> None:
        result = await producer.send(Message("T", b"x"))
        assert result.send_status is SendStatus.SLAVE_NOT_AVAILABLE
        assert result.queue_offset == 7
        assert len(arrived) > 1

    run(cluster, main, retry_another_broker_when_not_store_ok=True, retry_times=retry_times)


def test_the_timeout_bounds_all_attempts_together() -> None:
    cluster = cluster_of(3)
    for broker in cluster.brokers.values():
        broker.state = "hung"

    async def main(producer: AsyncProducer) -> None:
        began_ms = cluster.clock.monotonic_ms()
        with pytest.raises(RequestTimeoutError):
            await producer.send(Message("T", b"x"), timeout_ms=1_000)
        assert cluster.clock.monotonic_ms() - began_ms <= 1_010

    run(cluster, main)


def test_one_way_sends_and_batches_arrive() -> None:
    cluster = cluster_of(1)

    async def main(producer: AsyncProducer) -> None:
        await producer.send_oneway(Message("T", b"one"))
        batch = [Message("T", b"two"), Message("T", b"three")]
        result = await producer.send_batch(batch)
        assert result.msg_id == ",".join(one.uniq_key or "" for one in batch)
        assert cluster.messages("T") == [b"one", b"two", b"three"]

    run(cluster, main)


def test_a_failed_one_way_send_isolates_its_broker_as_other_sends_do() -> None:
    cluster = cluster_of(2)
    cluster.brokers["broker-a"].state = "down"

    async def main(producer: AsyncProducer) -> None:
        failures = 0
        for _ in range(20):
            try:
                await producer.send_oneway(Message("T", b"x"))
            except ConnectError:
                failures += 1
        assert failures == 1
        assert not producer.faults.faults.is_available("broker-a")

    run(cluster, main, send_latency_enable=True)
    assert len(cluster.messages("T")) == 19


def test_a_slow_one_way_send_pauses_its_broker() -> None:
    cluster = cluster_of(2)
    cluster.brokers["broker-a"].latency_s = 0.6

    async def main(producer: AsyncProducer) -> None:
        for _ in range(20):
            await producer.send_oneway(Message("T", b"x"))

    run(cluster, main, send_latency_enable=True)
    assert len(cluster.brokers["broker-a"].log) == 1


def test_a_new_topic_is_created_by_the_first_send() -> None:
    cluster = cluster_of(1)

    async def main(producer: AsyncProducer) -> None:
        result = await producer.send(Message("Fresh", b"x"))
        assert result.message_queue.topic == "Fresh"
        assert len(await producer.fetch_publish_queues("Fresh")) == 4

    run(cluster, main)


def test_a_topic_that_cannot_be_created_is_an_error() -> None:
    cluster = cluster_of(1)
    del cluster.topics["TBW102"]

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(ClientError, match="Fresh does not exist"):
            await producer.send(Message("Fresh", b"x"))

    run(cluster, main)


def test_bytes_in_flight_are_bounded() -> None:
    cluster = cluster_of(1)
    broker = cluster.brokers["broker-a"]
    broker.latency_s = 1.0

    async def main(producer: AsyncProducer) -> None:
        began_s = cluster.now_s()
        for _ in range(10):
            await producer.send_async(Message("T", b"x" * 400))
        assert 3.9 <= cluster.now_s() - began_s <= 4.2  # two at a time, the last two still run

    run(cluster, main, back_pressure_bytes=1_100)
    assert len(broker.log) == 10  # the shutdown waited for the last ones


def test_the_group_is_registered_with_the_first_broker_and_unregistered_at_the_end() -> None:
    cluster = cluster_of(1)
    broker = cluster.brokers["broker-a"]

    async def main(producer: AsyncProducer) -> None:
        await producer.send(Message("T", b"x"))
        await asyncio.sleep(0.1)
        assert broker.codes().count(RequestCode.HEART_BEAT) == 1

    run(cluster, main)
    assert [group for _, group in broker.unregistered] == ["pg"]


def test_a_route_is_asked_once_for_a_thousand_sends_then_every_thirty_seconds() -> None:
    cluster = cluster_of(1)

    async def main(producer: AsyncProducer) -> None:
        for _ in range(1_000):
            await producer.send(Message("T", b"x"))
        assert len(cluster.asked) == 1
        await asyncio.sleep(95)
        assert len(cluster.asked) == 4

    run(cluster, main)


def test_recall_asks_the_broker_in_the_handle() -> None:
    cluster = cluster_of(2)
    broker = cluster.brokers["broker-b"]
    broker.scripts[RequestCode.RECALL_MESSAGE] = lambda command: response(
        command, ext={"msgId": "THE KEY"}
    )
    handle = base64.urlsafe_b64encode(b"v1 T broker-b 1700000000000 THEKEY").decode()

    async def main(producer: AsyncProducer) -> None:
        assert await producer.recall("T", handle) == "THE KEY"

    run(cluster, main)
    assert recall_broker(handle) == "broker-b"
    for text in ("", "no handle", base64.urlsafe_b64encode(b"v2 a b c d").decode()):
        with pytest.raises(ClientError, match="recall handle"):
            recall_broker(text)


def test_a_producer_starts_once_and_sends_only_while_running() -> None:
    cluster = cluster_of(1)

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        producer = AsyncProducer("pg", client, clock=cluster.clock, instance=instance)
        with pytest.raises(ClientError, match="not started"):
            await producer.send(Message("T", b"x"))
        await producer.start()
        with pytest.raises(ClientError, match="starts once"):
            await producer.start()
        await producer.shutdown()
        await producer.shutdown()
        with pytest.raises(ClientError, match="shut down"):
            await producer.send(Message("T", b"x"))
        for group in ("", "bad group", "DEFAULT_PRODUCER"):
            with pytest.raises(ClientError, match="producer group"):
                await AsyncProducer(group, client, instance=instance).start()

    run_virtual(main(), cluster.clock)
