"""Transactional messages: decisions, checks, their limits."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.client.hooks.events import EndTransactionEvent
from broker.client.instance.client_instance import MQClientInstance
from broker.client.publish.transaction import MAX_WAITING_CHECKS, AsyncTransactionProducer
from broker.client.results import LocalTransactionState, SendStatus
from broker.errors import BrokerError
from broker.message.message import Message, MessageExt
from broker.message.properties import encode_properties
from broker.message.record import encode_record
from broker.remoting.protocol.body.consumer.heartbeat import HeartbeatData
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request, response
from tests.support.fake_cluster import FakeBroker, FakeCluster, FakeTransport
from tests.support.virtual_time import run_virtual

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOWN = LocalTransactionState.UNKNOWN
SEND, END = RequestCode.SEND_MESSAGE_V2, RequestCode.END_TRANSACTION


class Listener:
    """Returns the given decision; an exception is raised."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.executed: list[Any] = []
        self.checked: list[MessageExt] = []
        self.gate: asyncio.Event | None = None

    async def execute_local_transaction(self, message: Message, argument: object) -> Any:
        self.executed.append(argument)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    async def check_local_transaction(self, message: MessageExt) -> Any:
        self.checked.append(message)
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def run(
    listener: Listener,
    work: Callable[[FakeBroker, AsyncTransactionProducer], Awaitable[None]],
) -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    broker = cluster.brokers["broker-a"]
    broker.scripts[END] = response

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        producer = AsyncTransactionProducer(
            "pg", client, listener, clock=cluster.clock, instance=instance
        )
        async with producer:
            await work(broker, producer)

    run_virtual(main(), cluster.clock)


def ends(broker: FakeBroker) -> list[dict[str, str]]:
    return [one.ext_fields for one in broker.calls if one.code == END]


@pytest.mark.parametrize(
    ("result", "sent", "code"),
    [
        (COMMIT, COMMIT, "8"),
        (ROLLBACK, ROLLBACK, "12"),
        (UNKNOWN, UNKNOWN, "0"),
        (None, UNKNOWN, "0"),
        (ValueError("no"), UNKNOWN, "0"),
        (SystemExit(1), UNKNOWN, "0"),
    ],
)
def test_the_decision_is_sent_to_the_broker_of_the_half_message(
    result: Any, sent: LocalTransactionState, code: str
) -> None:
    async def work(broker: FakeBroker, producer: AsyncTransactionProducer) -> None:
        broker.store_count = 0  # type: ignore[attr-defined]
        message = Message("T", b"x", properties={"DELAY": "3"})
        outcome = await producer.send_in_transaction(message, "argument")
        assert outcome.local_transaction_state is sent
        (half,) = broker.log
        assert half.sys_flag & 0xC == 0x4
        assert half.get_property("PGROUP") == "pg"
        assert half.get_property("DELAY") is None
        (end,) = ends(broker)
        assert end["commitOrRollback"] == code
        assert (end["tranStateTableOffset"], end["commitLogOffset"]) == ("0", "0")
        assert end["msgId"] == message.uniq_key == message.properties["__transactionId__"]
        assert end["producerGroup"] == "pg"

    listener = Listener(result)
    run(listener, work)
    assert listener.executed == ["argument"]


def test_a_half_message_with_less_durability_is_rolled_back_without_a_local_transaction() -> None:
    async def work(broker: FakeBroker, producer: AsyncTransactionProducer) -> None:
        ext = {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "0"}
        broker.scripts[SEND] = lambda command: response(
            command, ResponseCode.FLUSH_DISK_TIMEOUT, ext=dict(ext)
        )
        outcome = await producer.send_in_transaction(Message("T", b"x"))
        assert outcome.send_result.send_status is SendStatus.FLUSH_DISK_TIMEOUT
        assert ends(broker)[0]["commitOrRollback"] == "12"

    listener = Listener(COMMIT)
    run(listener, work)
    assert listener.executed == []


def test_without_a_stored_half_message_nothing_is_run_or_ended() -> None:
    async def work(broker: FakeBroker, producer: AsyncTransactionProducer) -> None:
        broker.scripts[SEND] = lambda command: response(command, ResponseCode.MESSAGE_ILLEGAL, "no")
        with pytest.raises(BrokerError):
            await producer.send_in_transaction(Message("T", b"x"))
        assert ends(broker) == []

    listener = Listener(COMMIT)
    run(listener, work)
    assert listener.executed == []


def test_an_end_that_cannot_be_sent_is_left_to_the_check() -> None:
    async def work(broker: FakeBroker, producer: AsyncTransactionProducer) -> None:
        listener.execute_local_transaction = killing(broker)  # type: ignore[method-assign]
        outcome = await producer.send_in_transaction(Message("T", b"x"))
        assert outcome.local_transaction_state is COMMIT
        broker.start()

    def killing(broker: FakeBroker) -> Any:
        async def execute(message: Message, argument: object) -> LocalTransactionState:
            broker.kill()
            return COMMIT

        return execute

    listener = Listener(COMMIT)
    run(listener, work)


def check_of(group: str) -> RemotingCommand:
    properties = encode_properties({"PGROUP": group, "UNIQ_KEY": "THE KEY"})
    record = encode_record(MessageExt("T", b"half", properties))
    ext = {
        "tranStateTableOffset": "5",
        "commitLogOffset": "700",
        "msgId": "THE KEY",
        "transactionId": "THE TRANSACTION",
    }
    return request(RequestCode.CHECK_TRANSACTION_STATE, ext, record)


async def ask(producer: AsyncTransactionProducer, broker: FakeBroker, group: str = "pg") -> Any:
    transport = producer.instance.transport
    assert isinstance(transport, FakeTransport)
    return await transport.ask(broker.address, check_of(group))


@pytest.mark.parametrize(
    ("result", "code"),
    [(COMMIT, "8"), (ValueError("no"), "0"), (SystemExit(1), "0"), (7, "0")],
)
def test_a_check_is_answered_to_the_broker_that_asked(result: Any, code: str) -> None:
    async def work(broker: FakeBroker, producer: AsyncTransactionProducer) -> None:
        assert await ask(producer, broker) is None
        (end,) = ends(broker)
        assert end["commitOrRollback"] == code
        assert end["fromTransactionCheck"] == "true"
        assert (end["tranStateTableOffset"], end["commitLogOffset"]) == ("5", "700")
        assert (end["msgId"], end["transactionId"]) == ("THE KEY", "THE TRANSACTION")
        assert listener.checked[0].body == b"half"

    listener = Listener(result)
    run(listener, work)


def test_hooks_get_each_decision_and_one_that_fails_disturbs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(event: EndTransactionEvent) -> None:
        raise ValueError("broken hook")

    async def work(broker: FakeBroker, producer: AsyncTransactionProducer) -> None:
        events: list[EndTransactionEvent] = []
        producer.end_hooks += [broken, events.append]
        message = Message("T", b"x", tags="A", keys="k1 k2")
        await producer.send_in_transaction(message)
        await ask(producer, broker)
        sent, checked = events
        assert (sent.group, sent.topic, sent.tags, sent.keys) == ("pg", "T", "A", "k1 k2")
        assert sent.msg_id == sent.transaction_id == message.uniq_key
        assert (sent.state, sent.from_check, sent.address) == (COMMIT, False, broker.address)
        assert (checked.msg_id, checked.transaction_id) == ("THE KEY", "THE KEY")
        assert (checked.state, checked.from_check, checked.address) == (
            COMMIT,
            True,
            broker.address,
        )
        assert len(ends(broker)) == 2

    run(Listener(COMMIT), work)
    assert caplog.text.count("pg: an end-of-transaction hook failed") == 2


@pytest.mark.parametrize(
    ("created", "topics"), [(("TBW102", "T"), ()), (("T",), ("T",)), (("T",), ("Absent", "T"))]
)
def test_a_producer_that_has_not_sent_is_asked_after_its_start(
    created: tuple[str, ...], topics: tuple[str, ...]
) -> None:
    """By the brokers of the template topic and of the topics that it was given."""
    cluster = FakeCluster()
    for topic in created:
        cluster.create(topic)
    broker = cluster.brokers["broker-a"]
    broker.scripts[END] = response
    asked: list[RemotingCommand | None] = []
    listener = Listener(COMMIT)

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)

        async def check_at_once(command: RemotingCommand) -> RemotingCommand:
            groups = HeartbeatData.from_bytes(command.body_bytes()).producer_data_set
            if [one.group_name for one in groups] == ["pg"] and not asked:
                asked.append(await ask(producer, broker))
            return response(command)

        broker.scripts[RequestCode.HEART_BEAT] = check_at_once
        producer = AsyncTransactionProducer(
            "pg", client, listener, topics=topics, clock=cluster.clock, instance=instance
        )
        async with producer:
            assert asked == [None]
            assert len(ends(broker)) == 1
            await asyncio.sleep(95)
            assert broker.codes().count(RequestCode.HEART_BEAT) == 4

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize("state", ["up", "down", "hung"])
def test_a_start_without_any_route_succeeds(state: str) -> None:
    cluster = FakeCluster()
    cluster.name_servers["ns-0:9876"] = state

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        producer = AsyncTransactionProducer(
            "pg", client, Listener(COMMIT), topics=["T"], clock=cluster.clock, instance=instance
        )
        async with producer:
            cluster.name_servers["ns-0:9876"] = "up"
            cluster.create("T")
            await asyncio.sleep(31)  # the next poll of the routes finds it
            assert cluster.brokers["broker-a"].codes() == [RequestCode.HEART_BEAT]

    run_virtual(main(), cluster.clock)


def test_a_check_for_another_group_is_refused() -> None:
    async def work(broker: FakeBroker, producer: AsyncTransactionProducer) -> None:
        answer = await ask(producer, broker, "other")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert ends(broker) == []

    run(Listener(COMMIT), work)


def test_checks_beyond_the_limit_are_dropped_because_the_broker_asks_again() -> None:
    async def work(broker: FakeBroker, producer: AsyncTransactionProducer) -> None:
        listener.gate = asyncio.Event()
        tasks = [
            asyncio.ensure_future(ask(producer, broker)) for _ in range(MAX_WAITING_CHECKS + 5)
        ]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sum(task.done() for task in tasks) == 5
        assert len(listener.checked) == 1  # one at a time
        listener.gate.set()
        await asyncio.gather(*tasks)
        assert len(ends(broker)) == MAX_WAITING_CHECKS

    listener = Listener(COMMIT)
    run(listener, work)
