"""The producer's answers to its application: errors, events of hooks, requests, recalls."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.client.config import ProducerConfig
from broker.client.hooks.events import DELAY_MSG, NORMAL_MSG, TRANS_MSG_HALF, SendEvent
from broker.client.instance.client_instance import MQClientInstance
from broker.client.publish.async_producer import AsyncProducer, message_type, recall_broker
from broker.client.results import SendStatus
from broker.client.state import ServiceState
from broker.common.message_queue import MessageQueue
from broker.errors import (
    BrokerError,
    ClientError,
    ConnectError,
    RemoteProtocolError,
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


def cluster_of(brokers: int = 1) -> FakeCluster:
    cluster = FakeCluster(brokers=brokers)
    cluster.create("T")
    return cluster


def run(
    cluster: FakeCluster, work: Callable[[AsyncProducer], Awaitable[Any]], **config: Any
) -> Any:
    async def main() -> Any:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        producer = AsyncProducer(
            "pg", client, ProducerConfig(**config), clock=cluster.clock, instance=instance
        )
        async with producer:
            return await work(producer)

    return run_virtual(main(), cluster.clock)


def answering(code: int, remark: str = "scripted") -> Callable[[RemotingCommand], RemotingCommand]:
    return lambda command: response(command, code, remark)


def handle_of(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


# ---- errors of a send


@pytest.mark.parametrize(
    "code",
    [
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_PERMISSION,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_BUYER_ID,
        9_999,
    ],
)
def test_the_refusal_of_the_last_attempt_reaches_the_caller_with_code_and_remark(
    code: int,
) -> None:
    cluster = cluster_of()
    cluster.brokers["broker-a"].scripts[SEND] = answering(code, "because of this")

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(BrokerError) as caught:
            await producer.send(Message("T", b"x"))
        assert caught.value.code == code
        assert "because of this" in caught.value.message

    run(cluster, main)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.TOPIC_NOT_EXIST])
def test_a_refused_asynchronous_send_is_not_repeated(code: int) -> None:
    cluster = cluster_of(2)
    for broker in cluster.brokers.values():
        broker.scripts[SEND] = answering(code)

    async def main(producer: AsyncProducer) -> None:
        task = await producer.send_async(Message("T", b"x"))
        with pytest.raises(BrokerError):
            await task
        assert producer.in_flight() == (0, 0)

    run(cluster, main)
    assert sum(broker.codes().count(SEND) for broker in cluster.brokers.values()) == 1


def test_an_answer_without_its_fields_is_a_protocol_error_and_not_a_success() -> None:
    cluster = cluster_of()
    cluster.brokers["broker-a"].scripts[SEND] = answering(ResponseCode.SUCCESS)

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(RemoteProtocolError, match="msgId"):
            await producer.send(Message("T", b"x"), timeout_ms=1_000)

    run(cluster, main, retry_times=0)


@pytest.mark.parametrize(
    "queue_id", ["-2147483649", "2147483648", "x", ""], ids=["small", "large", "text", "none"]
)
def test_a_queue_id_that_is_not_a_number_of_32_bits_is_a_protocol_error(queue_id: str) -> None:
    cluster = cluster_of()
    cluster.brokers["broker-a"].scripts[SEND] = lambda command: response(
        command, ext={"msgId": "M", "queueId": queue_id, "queueOffset": "0"}
    )

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(RemoteProtocolError, match="queueId"):
            await producer.send(Message("T", b"x"))

    run(cluster, main, retry_times=0)


def test_a_queue_of_a_broker_without_master_is_an_error_after_one_look_at_the_route() -> None:
    cluster = cluster_of()

    async def main(producer: AsyncProducer) -> None:
        await producer.send(Message("T", b"x"))
        asked = len(cluster.asked)
        with pytest.raises(ClientError, match="broker broker-z has no master for topic T"):
            await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-z", 0))
        assert len(cluster.asked) == asked + 1
        with pytest.raises(ClientError, match="broker-z has no master"):
            await producer.send_oneway(Message("T", b"x"), queue=MessageQueue("T", "broker-z", 0))

    run(cluster, main)


def test_a_selector_chooses_among_the_queues_and_nothing_else() -> None:
    cluster = cluster_of()
    foreign = MessageQueue("T", "broker-a", 99)

    async def main(producer: AsyncProducer) -> None:
        result = await producer.send(Message("T", b"x"), selector=lambda queues: queues[3])
        assert result.message_queue == MessageQueue("T", "broker-a", 3)
        for send in (producer.send, producer.send_oneway):
            with pytest.raises(ClientError, match="which is not a queue of it"):
                await send(Message("T", b"x"), selector=lambda _: foreign)

    run(cluster, main)


def test_the_topic_of_a_given_queue_is_that_of_the_message() -> None:
    """A queue that was fetched for another topic gives the broker and the queue id only."""
    cluster = cluster_of()

    async def main(producer: AsyncProducer) -> None:
        result = await producer.send(Message("T", b"x"), queue=MessageQueue("U", "broker-a", 2))
        assert result.message_queue == MessageQueue("T", "broker-a", 2)

    run(cluster, main)
    assert cluster.brokers["broker-a"].bodies("T") == [b"x"]


def test_a_time_limit_of_zero_sends_nothing() -> None:
    cluster = cluster_of()

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(RequestTimeoutError, match="within 0 ms"):
            await producer.send(Message("T", b"x"), timeout_ms=0)

    run(cluster, main)
    assert cluster.brokers["broker-a"].codes().count(SEND) == 0


def test_the_timeout_error_names_the_last_failure() -> None:
    cluster = cluster_of(2)
    for broker in cluster.brokers.values():
        broker.state = "hung"

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(RequestTimeoutError) as caught:
            await producer.send(Message("T", b"x"), timeout_ms=900)
        assert "no answer" in caught.value.message

    run(cluster, main, retry_times=9)


# ---- batches


def test_a_batch_needs_messages_and_a_running_producer() -> None:
    cluster = cluster_of()

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        producer = AsyncProducer("pg", client, clock=cluster.clock, instance=instance)
        with pytest.raises(ClientError, match="not started"):
            await producer.send_batch([Message("T", b"x")])
        async with producer:
            with pytest.raises(ClientError, match="at least one message"):
                await producer.send_batch([])
        with pytest.raises(ClientError, match="shut down"):
            await producer.send_batch([Message("T", b"x")])

    run_virtual(main(), cluster.clock)


def test_a_batch_goes_to_the_given_queue_and_is_not_repeated_elsewhere() -> None:
    cluster = cluster_of(2)
    queue = MessageQueue("T", "broker-b", 1)
    broker = cluster.brokers["broker-b"]

    async def main(producer: AsyncProducer) -> None:
        batch = [Message("T", b"%d" % number) for number in range(3)]
        result = await producer.send_batch(batch, queue=queue)
        assert result.message_queue == queue
        broker.scripts[RequestCode.SEND_BATCH_MESSAGE] = answering(ResponseCode.SYSTEM_ERROR)
        with pytest.raises(BrokerError):
            await producer.send_batch(batch, queue=queue)

    run(cluster, main)
    assert broker.bodies("T") == [b"0", b"1", b"2"]
    assert broker.codes().count(RequestCode.SEND_BATCH_MESSAGE) == 2
    assert RequestCode.SEND_BATCH_MESSAGE not in cluster.brokers["broker-a"].codes()


# ---- hooks


def test_a_hook_gets_one_event_per_send_with_all_its_attempts() -> None:
    cluster = cluster_of(2)
    cluster.brokers["broker-a"].state = "down"
    events: list[SendEvent] = []

    async def main(producer: AsyncProducer) -> None:
        producer.send_hooks.append(events.append)
        message = Message("T", b"hello", tags="A", keys=["k1", "k2"])
        result = await producer.send(message)
        (event,) = events
        assert event.result is result
        assert (event.group, event.topic, event.tags, event.keys) == ("pg", "T", "A", "k1 k2")
        assert (event.body_bytes, event.msg_id) == (5, message.uniq_key)
        assert event.address == cluster.brokers["broker-b"].address
        assert (event.message_type, event.error) == (NORMAL_MSG, None)

    run(cluster, main)


def test_a_hook_gets_the_error_of_a_failed_send_and_the_time_it_took() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]
    broker.scripts[SEND] = answering(ResponseCode.MESSAGE_ILLEGAL)
    broker.latency_s = 0.25
    events: list[SendEvent] = []

    async def main(producer: AsyncProducer) -> None:
        producer.send_hooks.append(events.append)
        with pytest.raises(BrokerError) as caught:
            await producer.send(Message("T", b"x"))
        (event,) = events
        assert event.error is caught.value
        assert (event.result, event.address) == (None, "")
        assert 250 <= event.cost_ms < 300

    run(cluster, main)


def test_a_hook_that_raises_disturbs_neither_the_send_nor_the_next_hook(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = cluster_of()
    events: list[SendEvent] = []

    def broken(event: SendEvent) -> None:
        raise RuntimeError("a defect of the application")

    async def main(producer: AsyncProducer) -> None:
        producer.send_hooks += [broken, events.append]
        result = await producer.send(Message("T", b"x"))
        assert result.send_status is SendStatus.SEND_OK

    with caplog.at_level(logging.ERROR):
        run(cluster, main)
    assert len(events) == 1
    assert "pg: a send hook failed" in caplog.text


def test_hooks_see_asynchronous_sends_and_batches_but_not_one_way_sends() -> None:
    cluster = cluster_of()
    events: list[SendEvent] = []

    async def main(producer: AsyncProducer) -> None:
        producer.send_hooks.append(events.append)
        await (await producer.send_async(Message("T", b"1")))
        await producer.send_batch([Message("T", b"2"), Message("T", b"3")])
        await producer.send_oneway(Message("T", b"4"))

    run(cluster, main)
    assert len(events) == 2
    assert events[1].msg_id.count(",") == 1


@pytest.mark.parametrize(
    ("properties", "number"),
    [
        ({}, NORMAL_MSG),
        ({"TRAN_MSG": "true"}, TRANS_MSG_HALF),
        ({"TRAN_MSG": "false"}, NORMAL_MSG),
        ({"TRAN_MSG": "true", "DELAY": "3"}, TRANS_MSG_HALF),
        ({"DELAY": "3"}, DELAY_MSG),
        ({"__STARTDELIVERTIME": "1700000000000"}, DELAY_MSG),
        ({"TIMER_DELAY_MS": "5"}, NORMAL_MSG),
    ],
)
def test_the_type_of_a_message_follows_javas_order(properties: dict[str, str], number: int) -> None:
    assert message_type(properties) == number


# ---- asynchronous sends and the shutdown


def test_a_shutdown_waits_for_asynchronous_sends() -> None:
    cluster = cluster_of()
    cluster.brokers["broker-a"].latency_s = 0.5

    async def main(producer: AsyncProducer) -> list[asyncio.Task[Any]]:
        return [await producer.send_async(Message("T", b"%d" % number)) for number in range(5)]

    tasks = run(cluster, main)
    assert all(task.done() and task.result().send_status is SendStatus.SEND_OK for task in tasks)
    assert len(cluster.messages("T")) == 5


def test_a_cancelled_asynchronous_send_gives_back_its_part_of_the_limit() -> None:
    cluster = cluster_of()
    cluster.brokers["broker-a"].state = "hung"

    async def main(producer: AsyncProducer) -> None:
        first = await producer.send_async(Message("T", b"x" * 100))
        await asyncio.sleep(0.01)
        assert producer.in_flight()[0] == 1
        first.cancel()
        await asyncio.wait({first})
        assert producer.in_flight() == (0, 0)
        cluster.brokers["broker-a"].start()
        await (await producer.send_async(Message("T", b"y")))

    run(cluster, main, back_pressure_count=1)
    assert cluster.messages("T") == [b"y"]


def test_the_result_of_an_attempt_that_was_cancelled_does_not_count_against_its_broker() -> None:
    cluster = cluster_of()
    cluster.brokers["broker-a"].state = "hung"

    async def main(producer: AsyncProducer) -> None:
        task = await producer.send_async(Message("T", b"x"))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        assert producer.faults.faults.is_reachable("broker-a")
        assert producer.faults.faults.is_available("broker-a")

    run(cluster, main, send_latency_enable=True)


def test_a_failed_start_leaves_no_group_at_the_instance() -> None:
    cluster = cluster_of()

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        first = AsyncProducer("pg", client, clock=cluster.clock, instance=instance)
        second = AsyncProducer("pg", client, clock=cluster.clock, instance=instance)
        async with first:
            with pytest.raises(ClientError, match="pg"):
                await second.start()
            assert instance.producers == {"pg": first}
            assert second.state is ServiceState.START_FAILED
            await second.shutdown()  # nothing to do
            with pytest.raises(ClientError, match="it starts once"):
                await second.start()

    run_virtual(main(), cluster.clock)


# ---- the detector


def test_a_broker_that_left_every_route_leaves_the_fault_table() -> None:
    cluster = cluster_of()

    async def main(producer: AsyncProducer) -> None:
        faults = producer.faults.faults
        await producer.send(Message("T", b"x"))
        faults.update("broker-gone", latency_ms=1, pause_ms=60_000, reachable=False)
        await asyncio.sleep(7)
        assert "broker-gone" not in str(faults)

    run(cluster, main, send_latency_enable=True, start_detector_enable=True)


@pytest.mark.parametrize("state", ["down", "hung"])
def test_a_probe_that_fails_leaves_its_broker_unreachable(state: str) -> None:
    cluster = cluster_of(2)
    cluster.brokers["broker-a"].state = state

    async def main(producer: AsyncProducer) -> None:
        faults = producer.faults.faults
        for _ in range(8):
            await producer.send(Message("T", b"x"))
        assert not faults.is_reachable("broker-a")
        await asyncio.sleep(20)
        assert not faults.is_reachable("broker-a")

    run(
        cluster,
        main,
        send_latency_enable=True,
        start_detector_enable=True,
        send_msg_timeout_ms=1_000,
    )


def test_without_the_detector_no_broker_is_probed() -> None:
    cluster = cluster_of(2)
    cluster.brokers["broker-a"].state = "down"

    async def main(producer: AsyncProducer) -> None:
        for _ in range(8):
            await producer.send(Message("T", b"x"))
        cluster.brokers["broker-a"].start()
        await asyncio.sleep(20)

    run(cluster, main, send_latency_enable=True)
    assert RequestCode.GET_MAX_OFFSET not in cluster.brokers["broker-a"].codes()


# ---- recall


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "v1 T broker-a 1 KEY",
        "@@@",
        "A",
        handle_of(""),
        handle_of("v1"),
        handle_of("v1 T broker-a 1"),
        handle_of("v1 T broker-a 1 KEY more"),
        handle_of("v2 T broker-a 1 KEY"),
        base64.urlsafe_b64encode(b"v1 T \xff 1 KEY").decode(),
        "\ud800",
        "€" * 5_000,
    ],
)
def test_a_text_that_is_not_a_recall_handle_is_refused_before_any_request(handle: str) -> None:
    with pytest.raises(ClientError, match="not a recall handle") as caught:
        recall_broker(handle)
    assert len(caught.value.message) < 300
    assert "recall_handle" in caught.value.hint


def test_a_recall_refused_by_the_broker_has_its_code_and_remark() -> None:
    cluster = cluster_of()
    cluster.brokers["broker-a"].scripts[RequestCode.RECALL_MESSAGE] = answering(
        ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid"
    )

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises(BrokerError, match="timestamp invalid") as caught:
            await producer.recall("T", handle_of("v1 T broker-a 1 KEY"))
        assert caught.value.code == ResponseCode.ILLEGAL_OPERATION
        with pytest.raises(ClientError, match="broker-z has no master"):
            await producer.recall("T", handle_of("v1 T broker-z 1 KEY"))

    run(cluster, main)


# ---- requests


def test_a_request_whose_send_fails_is_forgotten_at_once() -> None:
    cluster = cluster_of()
    cluster.brokers["broker-a"].state = "down"

    async def main(producer: AsyncProducer) -> None:
        with pytest.raises((ConnectError, SendRequestError)):
            await producer.request(Message("T", b"x"), timeout_ms=5_000)
        with pytest.raises(ClientError, match="needs a body"):
            await producer.request(Message("T", b""), timeout_ms=5_000)

    run(cluster, main)


def test_the_second_request_of_a_topic_sends_no_further_heartbeat() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def main(producer: AsyncProducer) -> None:
        counts = []
        for _ in range(3):
            with pytest.raises(RequestTimeoutError):
                await producer.request(Message("T", b"x"), timeout_ms=100)
            counts.append(broker.codes().count(RequestCode.HEART_BEAT))
        assert counts[0] >= 1
        assert counts == [counts[0]] * 3

    run(cluster, main)


def test_each_attempt_names_the_broker_that_it_goes_to() -> None:
    """A proxy in front of several brokers routes by this field."""
    cluster = cluster_of(2)

    async def main(producer: AsyncProducer) -> None:
        for _ in range(8):  # each broker has four queues
            await producer.send(Message("T", b"x"))

    run(cluster, main)
    for name, broker in cluster.brokers.items():
        sent = [command for command in broker.calls if command.code == SEND]
        assert {decode_send_header(command).bname for command in sent} == {name}
