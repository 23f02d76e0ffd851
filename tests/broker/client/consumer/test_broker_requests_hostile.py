"""Requests of brokers with wrong fields and bodies: a client answers, and consumes as before."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from broker.client.listener.listeners import ConsumeConcurrentlyContext
from broker.client.results import ConsumeConcurrentlyStatus as Status
from broker.common.message_queue import MessageQueue
from broker.errors import RocketMQError
from broker.message.message import MessageExt
from broker.message.record import encode_record
from broker.remoting.protocol.body.consumer.offset import GetConsumerStatusBody, ResetOffsetBody
from broker.remoting.protocol.body.consumer.running import ConsumeMessageDirectlyResult
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)
ADDRESS = "127.0.0.1:10911"
CODES = (
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
)
FIELDS = {"group": "g", "consumerGroup": "g", "topic": "T", "timestamp": "0", "isForce": "true"}
BODIES = (b"", b"{", b"[]", b"null", b"1", b'{"offsetTable":7}', b"\xff" * 90, b"[" * 3_000)


def run(work: Any, count: int = 3, **options: Any) -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    for number in range(count):
        cluster.brokers["broker-a"].store(QUEUE, b"%d" % number)

    async def main() -> None:
        member = Member(cluster, "m", **options)
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == count)
            await work(cluster, member)

    run_virtual(main(), cluster.clock)


async def outcome(member: Member, command: RemotingCommand) -> RemotingCommand | None:
    """The answer; None where there is none, or where the server would answer with the error."""
    try:
        return await member.transport.ask(ADDRESS, command)
    except (RocketMQError, KeyError):
        return None  # KeyError: the fake transport knows no handler of the code


@pytest.mark.parametrize("code", CODES)
def test_a_hostile_request_does_not_stop_the_consumption(code: int) -> None:
    async def work(cluster: FakeCluster, member: Member) -> None:
        for body in BODIES:
            for fields in ({}, {"consumerGroup": "g"}, {"group": "g"}, FIELDS):
                answer = await outcome(member, request(code, dict(fields), body))
                if answer is not None and answer.code != ResponseCode.SUCCESS:
                    assert answer.remark
        cluster.brokers["broker-a"].store(QUEUE, b"after")
        await wait_until(cluster, lambda: b"after" in member.bodies, 30)

    run(work)


def test_a_reset_of_queues_that_are_not_owned_changes_nothing() -> None:
    foreign = [
        MessageQueue("T", "broker-z", 0),
        MessageQueue("T", "broker-a", 99),
        MessageQueue("U", "broker-a", 0),
    ]

    async def work(cluster: FakeCluster, member: Member) -> None:
        before = dict(member.consumer.process_queues)
        body = ResetOffsetBody(offset_table=dict.fromkeys(foreign, 0)).to_bytes()
        reset = request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, dict(FIELDS), body)
        assert await member.transport.ask(ADDRESS, reset) is None
        await asyncio.sleep(5)
        assert member.consumer.process_queues == before
        assert len(member.got) == 3

    run(work)


def test_a_reset_of_another_topic_leaves_the_queue_with_the_same_number() -> None:
    async def work(cluster: FakeCluster, member: Member) -> None:
        body = ResetOffsetBody(offset_table={QUEUE: 0}).to_bytes()
        fields = {**FIELDS, "topic": "U"}
        reset = request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
        await member.transport.ask(ADDRESS, reset)
        await asyncio.sleep(5)
        assert len(member.got) == 3

    run(work)


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_a_reset_to_any_offset_delivers_the_rest_once_more(offset: int) -> None:
    async def work(cluster: FakeCluster, member: Member) -> None:
        body = ResetOffsetBody(offset_table={QUEUE: offset}).to_bytes()
        reset = request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, dict(FIELDS), body)
        await member.transport.ask(ADDRESS, reset)
        await asyncio.sleep(5)
        assert member.bodies[3:] == [b"%d" % number for number in range(offset, 3)]

    run(work)


def test_the_status_of_an_unknown_topic_is_an_empty_table() -> None:
    async def work(cluster: FakeCluster, member: Member) -> None:
        for topic in ("U", "T2", "t"):
            command = request(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"group": "g", "topic": topic}
            )
            answer = await member.transport.ask(ADDRESS, command)
            assert answer is not None
            status = GetConsumerStatusBody.from_bytes(answer.body_bytes())
            assert status.message_queue_table == {}

    run(work)


def test_a_group_of_another_client_is_named_in_the_refusal() -> None:
    async def work(cluster: FakeCluster, member: Member) -> None:
        for code in (RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY):
            command = request(code, {"consumerGroup": "other"})
            answer = await member.transport.ask(ADDRESS, command)
            assert answer is not None
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "the consumer group other is not in this client" in (answer.remark or "")

    run(work)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Status.CONSUME_SUCCESS, "CR_SUCCESS"),
        (Status.RECONSUME_LATER, "CR_LATER"),
        (None, "CR_RETURN_NULL"),
        ("a text", "CR_LATER"),
        (ValueError("a defect"), "CR_THROW_EXCEPTION"),
    ],
    ids=["success", "later", "none", "text", "error"],
)
def test_each_result_of_a_listener_has_its_direct_result(result: object, expected: str) -> None:
    record = encode_record(MessageExt("T", b"direct"))

    async def listener(messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext) -> Any:
        if messages[0].body != b"direct":
            return Status.CONSUME_SUCCESS
        if isinstance(result, Exception):
            raise result
        return result

    async def main() -> None:
        member = Member(cluster, "m")
        member.consumer.listen(listener)
        async with member.consumer:
            await wait_until(cluster, lambda: bool(member.owned()))
            command = request(
                RequestCode.CONSUME_MESSAGE_DIRECTLY,
                {"consumerGroup": "g", "brokerName": "broker-a", "clientId": "m"},
                record,
            )
            answer = await member.transport.ask(ADDRESS, command)
            assert answer is not None
            found = ConsumeMessageDirectlyResult.from_bytes(answer.body_bytes())
            assert found.consume_result == expected
            assert (found.remark is None) == (expected != "CR_THROW_EXCEPTION")
            assert "ValueError: a defect" in (found.remark or "ValueError: a defect")

    cluster = FakeCluster()
    cluster.create("T", queues=1)
    run_virtual(main(), cluster.clock)


def test_every_cut_of_a_record_is_refused() -> None:
    record = encode_record(MessageExt("T", b"direct", b"TAGS\x01a\x02"))

    async def work(cluster: FakeCluster, member: Member) -> None:
        for length in range(len(record)):
            command = request(
                RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "g"}, record[:length]
            )
            answer = await member.transport.ask(ADDRESS, command)
            assert answer is not None
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert answer.remark
        assert len(member.got) == 3

    run(work)
