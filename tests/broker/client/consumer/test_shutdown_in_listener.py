"""An asynchronous listener that shuts its own consumer down, on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from broker.client.listener.listeners import ConsumeConcurrentlyContext, ConsumeOrderlyContext
from broker.client.results import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)

Shutdown = Callable[[Member], Awaitable[None]]


async def directly(member: Member) -> None:
    await member.consumer.shutdown()


async def in_a_task(member: Member) -> None:
    await asyncio.wait_for(member.consumer.shutdown(), 60)


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("shutdown", [directly, in_a_task])
def test_it_commits_unregisters_and_closes_without_waiting_for_the_listener(
    orderly: bool, shutdown: Shutdown
) -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    for number in range(5):
        cluster.brokers["broker-a"].store(QUEUE, b"%d" % number)
    member = Member(cluster, "m", orderly=orderly, consume_threads=1)
    bodies: list[bytes] = []
    ended = asyncio.Event()

    async def take(messages: Sequence[MessageExt]) -> None:
        bodies.extend(one.body for one in messages)
        if len(bodies) == 3:
            began_s = cluster.now_s()
            await shutdown(member)
            assert cluster.now_s() - began_s < 2
            ended.set()

    async def listen(
        messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        await take(messages)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    async def listen_orderly(
        messages: Sequence[MessageExt], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        await take(messages)
        return ConsumeOrderlyStatus.SUCCESS

    async def main() -> None:
        if orderly:
            member.consumer.listen_orderly(listen_orderly)
        else:
            member.consumer.listen(listen)
        await member.consumer.start()
        await wait_until(cluster, ended.is_set)
        await asyncio.sleep(60)
        assert bodies == [b"0", b"1", b"2"]
        assert cluster.brokers["broker-a"].offsets["g", QUEUE] == 2
        assert not member.instance.consumers
        assert member.transport.closed
        again = Member(cluster, "next", orderly=orderly)
        async with again.consumer:
            await wait_until(cluster, lambda: again.bodies == [b"2", b"3", b"4"], 10)

    run_virtual(main(), cluster.clock)
