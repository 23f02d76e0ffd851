"""Lite pull on virtual time: polling, committing, positions."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.client.config import ConsumerConfig, MessageModel
from broker.client.consumer.lite_pull import AsyncLitePullConsumer
from broker.client.instance.client_instance import MQClientInstance
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.common.message_queue import MessageQueue
from broker.common.sysflag import PULL_COMMIT_OFFSET
from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(2)]
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def cluster_of(messages: int = 20) -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("T", queues=2)
    for number in range(messages):
        cluster.brokers["broker-a"].store(QUEUES[number % 2], b"%02d" % number)
    return cluster


def consumer_of(cluster: FakeCluster, name: str = "m", **options: Any) -> AsyncLitePullConsumer:
    client = cluster.config(instance_name=name)
    instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
    config = ConsumerConfig(consume_from_where=FIRST, pull_batch_size=4)
    return AsyncLitePullConsumer(
        "g", client, config, clock=cluster.clock, instance=instance, **options
    )


def run(
    cluster: FakeCluster,
    work: Callable[[AsyncLitePullConsumer], Awaitable[None]],
    **options: Any,
) -> None:
    async def main() -> None:
        consumer = consumer_of(cluster, **options)
        consumer.subscribe("T")
        async with consumer:
            await work(consumer)

    run_virtual(main(), cluster.clock)


async def drain(consumer: AsyncLitePullConsumer) -> list[bytes]:
    bodies: list[bytes] = []
    while batch := await consumer.poll(2_000):
        bodies += [one.body for one in batch]
    return bodies


def stored(cluster: FakeCluster) -> dict[MessageQueue, int]:
    offsets = cluster.brokers["broker-a"].offsets
    return {queue: offset for (group, queue), offset in offsets.items() if group == "g"}


def test_everything_is_polled_once_and_committed_by_itself() -> None:
    cluster = cluster_of()

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert sorted(await drain(consumer)) == [b"%02d" % number for number in range(20)]
        await asyncio.sleep(6)
        assert stored(cluster) == dict.fromkeys(QUEUES, 10)

    run(cluster, work)


def test_without_auto_commit_only_commit_commits() -> None:
    cluster = cluster_of()

    async def work(consumer: AsyncLitePullConsumer) -> None:
        first = await consumer.poll()
        await asyncio.sleep(10)
        assert stored(cluster) == {}
        await consumer.commit()
        assert stored(cluster)[MessageQueue("T", "broker-a", first[0].queue_id)] == 4
        queue = MessageQueue("T", "broker-a", first[0].queue_id)
        assert await consumer.committed(queue) == 4
        await consumer.poll()

    run(cluster, work, auto_commit=False)
    assert sorted(stored(cluster).values()) == [4]  # the shutdown commits nothing either


@pytest.mark.parametrize("auto_commit", [True, False])
def test_pulls_carry_no_offset_to_commit(auto_commit: bool) -> None:
    """As in Java: a broker could execute such a pull after a later commit."""
    cluster = cluster_of(messages=4)

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert len(await drain(consumer)) == 4
        await consumer.commit()
        await asyncio.sleep(40)  # the pulls after the commit

    run(cluster, work, auto_commit=auto_commit)
    assert set(stored(cluster).values()) == {2}
    pulls = [
        call
        for broker in cluster.brokers.values()
        for call in broker.calls
        if call.code == RequestCode.PULL_MESSAGE
    ]
    assert len(pulls) > len(QUEUES)
    assert not any(int(call.ext_fields["sysFlag"]) & PULL_COMMIT_OFFSET for call in pulls)


def test_polled_messages_are_committed_by_the_shutdown() -> None:
    cluster = cluster_of(messages=2)

    async def work(consumer: AsyncLitePullConsumer) -> None:
        await consumer.poll()
        await consumer.poll()

    run(cluster, work)
    assert stored(cluster) == dict.fromkeys(QUEUES, 1)


def test_an_empty_poll_ends_after_its_time() -> None:
    cluster = cluster_of(messages=0)

    async def work(consumer: AsyncLitePullConsumer) -> None:
        began_s = cluster.now_s()
        assert await consumer.poll(3_000) == []
        assert 3 <= cluster.now_s() - began_s < 3.1
        waiting = asyncio.ensure_future(consumer.poll(20_000))
        await asyncio.sleep(1)
        cluster.brokers["broker-a"].store(QUEUES[0], b"now")
        assert [one.body for one in await waiting] == [b"now"]

    run(cluster, work)


def test_members_share_the_queues() -> None:
    cluster = cluster_of(messages=0)

    async def work(first: AsyncLitePullConsumer) -> None:
        second = consumer_of(cluster, "z")
        second.subscribe("T")
        changes: list[int] = []
        first.on_queues_changed.append(lambda topic, queues, own: changes.append(len(own)))
        async with second:
            await asyncio.sleep(3)
            assert (first.assignment(), second.assignment()) == (QUEUES[:1], QUEUES[1:])
        await asyncio.sleep(3)
        assert first.assignment() == QUEUES
        assert changes == [2, 1, 2]

    run(cluster, work)


def test_assigned_queues_are_consumed_without_regard_to_other_members() -> None:
    cluster = cluster_of()

    async def main() -> None:
        consumers = [consumer_of(cluster, name) for name in "ab"]
        for consumer in consumers:
            await consumer.assign(QUEUES[:1])
            await consumer.start()
        for consumer in consumers:
            assert len(await drain(consumer)) == 10
            await consumer.assign(QUEUES)
            assert consumer.assignment() == QUEUES
            await consumer.assign(QUEUES[1:])
            assert consumer.assignment() == QUEUES[1:]
            await consumer.shutdown()

    run_virtual(main(), cluster.clock)


def test_seeking_discards_the_cache() -> None:
    cluster = cluster_of()

    async def work(consumer: AsyncLitePullConsumer) -> None:
        await drain(consumer)
        await consumer.seek(QUEUES[0], 7)
        assert await drain(consumer) == [b"14", b"16", b"18"]
        await consumer.seek_to_begin(QUEUES[1])
        assert len(await drain(consumer)) == 10
        await consumer.seek_to_end(QUEUES[1])
        assert await drain(consumer) == []
        assert await consumer.offset_for_timestamp(QUEUES[0], 0) == 0
        assert await consumer.fetch_message_queues("T") == QUEUES
        for offset in (-1, 11):
            with pytest.raises(ClientError, match="between 0 and 10"):
                await consumer.seek(QUEUES[0], offset)
        with pytest.raises(ClientError, match="not assigned"):
            await consumer.seek(MessageQueue("U", "broker-a", 0), 0)
        with pytest.raises(ClientError, match="U does not exist"):
            await consumer.fetch_message_queues("U")

    run(cluster, work)


def test_a_paused_queue_keeps_its_messages() -> None:
    cluster = cluster_of()

    async def work(consumer: AsyncLitePullConsumer) -> None:
        consumer.pause(QUEUES[:1])
        assert {int(body) % 2 for body in await drain(consumer)} == {1}
        consumer.resume(QUEUES[:1])
        assert {int(body) % 2 for body in await drain(consumer)} == {0}

    run(cluster, work)


def test_an_offset_that_was_deleted_continues_at_the_first_one() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]
    broker.offsets["g", QUEUES[0]] = 1
    del broker.records[QUEUES[0]][:5]
    broker.first[QUEUES[0]] = 5

    async def work(consumer: AsyncLitePullConsumer) -> None:
        await asyncio.sleep(3)
        assert len(await drain(consumer)) == 15

    run(cluster, work)


def test_wrong_uses_are_named() -> None:
    cluster = cluster_of()

    async def main() -> None:
        consumer = consumer_of(cluster)
        with pytest.raises(ClientError, match="not been started"):
            consumer.assignment()
        with pytest.raises(ClientError, match="not started"):
            await consumer.poll()
        consumer.subscribe("T")
        with pytest.raises(ClientError, match="exclude"):
            await consumer.assign(QUEUES)
        other = consumer_of(cluster)
        await other.assign(QUEUES)
        with pytest.raises(ClientError, match="exclude"):
            other.subscribe("T")
        with pytest.raises(ClientError, match="subscription"):
            consumer.subscribe("T", "||")

    run_virtual(main(), cluster.clock)


def test_a_read_only_member_shares_the_queues_and_takes_no_message_from_the_others() -> None:
    cluster = cluster_of(20)
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        other = Member(cluster, "other")
        await other.consumer.start()
        await wait_until(cluster, lambda: len(other.got) == 20)
        reader = consumer_of(cluster, "reader", read_only=True)
        reader.subscribe("T")
        await reader.start()
        await wait_until(cluster, lambda: len(other.owned()) == 1)
        (shared,) = reader.assignment()
        assert shared not in other.owned()
        await wait_until(cluster, lambda: shared in stored(cluster))
        before = stored(cluster)
        for number in range(20, 4_020):
            broker.store(QUEUES[number % 2], b"%d" % number)
        seen = await drain(reader)
        await reader.commit()
        await asyncio.sleep(60)
        own = {one.body for one in broker.log if one.queue_id == shared.queue_id}
        assert len(own) == 2_010
        assert own - set(seen) <= own & set(other.bodies)  # polled messages leave the cache
        assert stored(cluster)[shared] == before[shared]
        await reader.shutdown()
        await wait_until(cluster, lambda: len(other.got) == 4_020)
        assert len(set(other.bodies)) == 4_020
        await other.consumer.shutdown()
        found = stored(cluster)
        assert [found[queue] for queue in QUEUES] == [2_010, 2_010]

    run_virtual(main(), cluster.clock)


def test_a_read_only_member_of_a_new_group_leaves_no_offset() -> None:
    cluster = cluster_of(20)

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert len(await drain(consumer)) == 20
        await consumer.commit()

    run(cluster, work, read_only=True)
    assert stored(cluster) == {}


def broadcasting(cluster: FakeCluster, name: str, folder: Path, **options: Any) -> Any:
    client = cluster.config(instance_name=name)
    instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
    config = ConsumerConfig(
        consume_from_where=FIRST,
        message_model=MessageModel.BROADCASTING,
        offset_dir=str(folder),
    )
    consumer = AsyncLitePullConsumer(
        "g", client, config, clock=cluster.clock, instance=instance, **options
    )
    consumer.subscribe("T")
    return consumer


def test_broadcasting_members_each_poll_everything_and_continue_after_a_restart(
    tmp_path: Path,
) -> None:
    cluster = cluster_of()

    async def main() -> None:
        async with (
            broadcasting(cluster, "a", tmp_path) as a,
            broadcasting(cluster, "b", tmp_path) as b,
        ):
            for member in (a, b):
                assert len(await drain(member)) == 20
                assert member.assignment() == QUEUES
        cluster.brokers["broker-a"].store(QUEUES[0], b"next")
        async with broadcasting(cluster, "a", tmp_path) as a:
            assert await drain(a) == [b"next"]
            assert await a.committed(QUEUES[0]) == 11
        async with broadcasting(cluster, "new", tmp_path) as new:
            assert len(await drain(new)) == 21
        assert stored(cluster) == {}

    run_virtual(main(), cluster.clock)


def test_a_broadcasting_member_keeps_the_offsets_after_a_seek(tmp_path: Path) -> None:
    cluster = cluster_of()

    async def main() -> None:
        async with broadcasting(cluster, "a", tmp_path) as member:
            await drain(member)
            await member.seek(QUEUES[0], 2)
            assert len(await drain(member)) == 8
        async with broadcasting(cluster, "a", tmp_path) as member:
            assert await drain(member) == []
            await member.seek(QUEUES[0], 9)
        async with broadcasting(cluster, "a", tmp_path) as member:
            assert await drain(member) == [b"18"]

    run_virtual(main(), cluster.clock)


def test_a_read_only_broadcasting_member_writes_no_offsets(tmp_path: Path) -> None:
    cluster = cluster_of()

    async def main() -> None:
        for _ in range(2):
            async with broadcasting(cluster, "a", tmp_path, read_only=True) as member:
                assert len(await drain(member)) == 20
                await member.commit()
        assert not list(tmp_path.iterdir())

    run_virtual(main(), cluster.clock)
