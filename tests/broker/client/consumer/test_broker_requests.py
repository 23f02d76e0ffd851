"""Requests of brokers about a consumer."""

import asyncio
from typing import Any

from broker.client.consumer.broker_requests import stack_of_all_threads
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt
from broker.message.record import encode_record
from broker.remoting.protocol.body.consumer.offset import (
    GetConsumerStatusBody,
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from broker.remoting.protocol.body.consumer.running import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
)
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)


def run(work: Any, count: int = 10, **options: Any) -> None:
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


async def ask(member: Member, code: int, body: bytes = b"", **fields: str) -> RemotingCommand:
    answer = await member.transport.ask("127.0.0.1:10911", request(code, fields, body))
    assert answer is not None
    assert answer.code == 0, answer.remark
    return answer


def test_a_reset_delivers_again_from_the_given_offset() -> None:
    for body in (
        ResetOffsetBody(offset_table={QUEUE: 4}),
        ResetOffsetBodyForC(
            offset_table=[MessageQueueForC(topic="T", broker_name="broker-a", queue_id=0, offset=4)]
        ),
    ):

        async def work(cluster: FakeCluster, member: Member, body: Any = body) -> None:
            fields = {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true"}
            reset = request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body.to_bytes())
            assert await member.transport.ask("127.0.0.1:10911", reset) is None
            await wait_until(cluster, lambda: len(member.got) == 16, 5)
            assert member.bodies[10:] == [b"%d" % number for number in range(4, 10)]
            await asyncio.sleep(6)
            assert cluster.brokers["broker-a"].offsets["g", QUEUE] == 10

        run(work)


def test_status_returns_the_offsets_in_memory() -> None:
    async def work(cluster: FakeCluster, member: Member) -> None:
        answer = await ask(
            member, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, topic="T", group="g"
        )
        body = GetConsumerStatusBody.from_bytes(answer.body_bytes())
        assert body.message_queue_table == {QUEUE: 10}

    run(work)


def test_running_info_shows_queues_rates_and_on_request_stacks() -> None:
    async def work(cluster: FakeCluster, member: Member) -> None:
        fields = {"consumerGroup": "g", "clientId": member.instance.client_id}
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        info = ConsumerRunningInfo.from_bytes((await ask(member, code, **fields)).body_bytes())
        assert info.jstack is None
        assert info.mq_table[QUEUE].commit_offset == 10
        assert abs(info.mq_table[QUEUE].last_pull_timestamp - cluster.clock.now_ms()) < 20_000
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info.properties["PROP_CONSUMEORDERLY"] == "false"
        assert int(info.properties["PROP_CONSUMER_START_TIMESTAMP"]) > 0
        assert {one.topic for one in info.subscription_set} == {"T", "%RETRY%g"}
        assert info.status_table["T"].consume_ok_tps > 0
        answer = await ask(member, code, **fields, jstackEnable="true")
        with_stacks = ConsumerRunningInfo.from_bytes(answer.body_bytes())
        assert "MainThread" in (with_stacks.jstack or "")

    run(work)


def test_one_message_is_consumed_directly_without_a_change_of_offsets() -> None:
    for orderly in (False, True):

        async def work(cluster: FakeCluster, member: Member) -> None:
            async def directly(body: bytes) -> str | None:
                record = encode_record(MessageExt("T", body, queue_offset=99))
                answer = await ask(
                    member,
                    RequestCode.CONSUME_MESSAGE_DIRECTLY,
                    record,
                    consumerGroup="g",
                    brokerName="broker-a",
                )
                found = ConsumeMessageDirectlyResult.from_bytes(answer.body_bytes())
                return found.consume_result

            assert await directly(b"direct") == "CR_SUCCESS"
            assert member.bodies[-1] == b"direct"
            member.fails = {b"fail": 1}
            assert await directly(b"fail") == "CR_LATER"
            member.fails = None  # type: ignore[assignment]
            assert await directly(b"raise") == "CR_THROW_EXCEPTION"
            member.fails = {}
            assert member.consumer.offsets.table.get(QUEUE) == 10

        run(work, orderly=orderly)


def test_a_damaged_record_is_refused() -> None:
    async def work(cluster: FakeCluster, member: Member) -> None:
        command = request(
            RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "g"}, b"no record"
        )
        answer = await member.transport.ask("127.0.0.1:10911", command)
        assert answer is not None
        assert answer.code == 1

    run(work)


def test_stacks_name_the_threads() -> None:
    assert "test_stacks_name_the_threads" in stack_of_all_threads()
