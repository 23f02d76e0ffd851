"""Push consumers on virtual time: groups, starts, ends, resets."""

import asyncio
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.client.config import ConsumerConfig, MessageModel
from broker.client.consumer.lite_pull import AsyncLitePullConsumer
from broker.client.consumer.push_consumer import AsyncPushConsumer
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import response
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import FIRST, Member, wait_until
from tests.support.virtual_time import run_virtual

RUNS = int(os.environ.get("TORTURE_RUNS", "40"))


def cluster_of(brokers: int = 1, queues: int = 4) -> FakeCluster:
    cluster = FakeCluster(brokers=brokers)
    cluster.create("T", queues=queues)
    return cluster


def fill(cluster: FakeCluster, count: int, start: int = 0) -> list[bytes]:
    bodies = [b"%05d" % number for number in range(start, start + count)]
    queues = [
        MessageQueue("T", name, number)
        for name in cluster.brokers
        for number in range(cluster.topics["T"])
    ]
    for number, body in enumerate(bodies):
        queue = queues[number % len(queues)]
        cluster.brokers[queue.broker_name].store(queue, body)
    return bodies


def committed(cluster: FakeCluster, group: str = "g") -> dict[MessageQueue, int]:
    return {
        queue: offset
        for broker in cluster.brokers.values()
        for (owner, queue), offset in broker.offsets.items()
        if owner == group and queue.topic == "T"
    }


def test_every_message_is_delivered_and_committed_at_the_end() -> None:
    cluster = cluster_of(brokers=2)
    bodies = fill(cluster, 200)

    async def main() -> None:
        member = Member(cluster, "m")
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == 200)
        assert sorted(member.bodies) == bodies
        assert committed(cluster) == {
            MessageQueue("T", name, number): 25 for name in cluster.brokers for number in range(4)
        }
        for broker in cluster.brokers.values():
            assert [group for _, group in broker.unregistered] == ["g"]

    run_virtual(main(), cluster.clock)


def test_a_shutdown_leaves_no_periodic_work_in_an_instance_that_others_use() -> None:
    cluster = cluster_of()

    async def main() -> None:
        member = Member(cluster, "m", orderly=True)
        member.instance.users += 1
        await member.instance.start()
        before = asyncio.all_tasks()
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.owned()) == 4)
            assert len(asyncio.all_tasks() - before) > 2
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        await member.instance.shutdown()

    run_virtual(main(), cluster.clock)


def test_a_waiting_consumer_gets_a_message_at_once() -> None:
    cluster = cluster_of()

    async def main() -> None:
        member = Member(cluster, "m")
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.owned()) == 4)
            await asyncio.sleep(100)
            sent_ms = cluster.clock.monotonic_ms()
            fill(cluster, 1)
            while not member.got:
                await asyncio.sleep(0.001)
            assert cluster.clock.monotonic_ms() - sent_ms < 20

    run_virtual(main(), cluster.clock)


def test_joins_and_leaves_move_queues_and_lose_nothing() -> None:
    cluster = cluster_of(queues=8)

    async def main() -> None:
        bodies = fill(cluster, 100)
        first = Member(cluster, "a")
        await first.consumer.start()
        await wait_until(cluster, lambda: len(first.owned()) == 8)
        second = Member(cluster, "b")
        await second.consumer.start()
        await wait_until(cluster, lambda: (len(first.owned()), len(second.owned())) == (4, 4), 3)
        assert [queue.queue_id for queue in first.owned()] == [0, 1, 2, 3]
        assert [queue.queue_id for queue in second.owned()] == [4, 5, 6, 7]
        bodies += fill(cluster, 100, start=100)
        await wait_until(cluster, lambda: len({*first.bodies, *second.bodies}) == 200)
        await second.consumer.shutdown()
        await wait_until(cluster, lambda: len(first.owned()) == 8, 3)
        bodies += fill(cluster, 100, start=200)
        await wait_until(cluster, lambda: len({*first.bodies, *second.bodies}) == 300)
        await first.consumer.shutdown()
        counts = Counter([*first.bodies, *second.bodies])
        assert sorted(counts) == bodies
        assert max(counts.values()) == 1  # nothing was in progress when queues moved

    run_virtual(main(), cluster.clock)


def test_the_queues_that_keep_their_owner_show_no_pause() -> None:
    cluster = cluster_of(queues=8)

    async def main() -> None:
        first = Member(cluster, "a")
        await first.consumer.start()
        await wait_until(cluster, lambda: len(first.owned()) == 8)
        before = {queue: first.consumer.process_queues[queue] for queue in first.owned()}
        second = Member(cluster, "b")
        await second.consumer.start()
        await wait_until(cluster, lambda: len(first.owned()) == 4)
        for queue in first.owned():
            assert first.consumer.process_queues[queue] is before[queue]
        broker = cluster.brokers["broker-a"]
        refused = [one for one in broker.calls if one.code == RequestCode.PULL_MESSAGE]
        assert refused
        await first.consumer.shutdown()
        await second.consumer.shutdown()

    run_virtual(main(), cluster.clock)


def test_the_queues_of_a_killed_member_are_taken_over_from_the_committed_offset() -> None:
    cluster = cluster_of(queues=4)

    async def main() -> None:
        bodies = fill(cluster, 40)
        first, second = Member(cluster, "a"), Member(cluster, "b")
        second.delay_s = 1_000  # its listener never ends
        await first.consumer.start()
        await second.consumer.start()
        await wait_until(cluster, lambda: len(second.owned()) == 2 and len(first.owned()) == 2)
        await asyncio.sleep(3)
        await second.kill()
        await wait_until(cluster, lambda: len(first.owned()) == 4, 3)
        await wait_until(cluster, lambda: set(first.bodies) == set(bodies), 20)
        await first.consumer.shutdown()

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize(("wait_ms", "left"), [(0, 5), (3_000, 0)])
def test_a_stop_that_waits_for_suspended_pulls_leaves_none_at_the_broker(
    wait_ms: int, left: int
) -> None:
    """One pull of each queue, the retry topic's included, is suspended by the broker."""
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]
    settings = {"broker_suspend_max_ms": 2_000, "await_suspended_pulls_ms": wait_ms}

    async def main() -> None:
        member = Member(cluster, "m", **settings)
        await member.consumer.start()
        await wait_until(cluster, lambda: broker.codes().count(RequestCode.PULL_MESSAGE) == 5)
        await member.consumer.shutdown()
        pulls = [one for one in broker.calls if one.code == RequestCode.PULL_MESSAGE]
        answered = sum(one.opaque in broker.answered for one in pulls)
        assert (len(pulls), len(pulls) - answered) == (5, left)

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize("seed", range(RUNS))
def test_random_kills_of_members_and_brokers_lose_nothing(seed: int) -> None:
    """At-least-once under kills at random points; every queue has one owner between rebalances."""
    rng = Random(seed)
    cluster = FakeCluster(brokers=2)
    cluster.create("T", queues=3)

    async def main() -> None:
        members = [Member(cluster, f"m{number}") for number in range(3)]
        everyone = list(members)
        for member in members:
            member.delay_s = rng.choice([0, 0, 0.01, 0.3])
            await member.consumer.start()
        bodies: list[bytes] = []
        for step in range(rng.randint(4, 8)):
            bodies += fill(cluster, rng.randint(1, 60), start=1_000 * step)
            await asyncio.sleep(rng.choice([0, 0.01, 0.2, 1, 6]))
            action = rng.randrange(4)
            if action == 0 and len(members) > 1:
                await members.pop(rng.randrange(len(members))).kill()
            elif action == 1 and len(members) > 1:
                await members.pop(rng.randrange(len(members))).consumer.shutdown()
            elif action == 2:
                members.append(Member(cluster, f"n{step}"))
                everyone.append(members[-1])
                await members[-1].consumer.start()
            else:
                broker = cluster.brokers[rng.choice(sorted(cluster.brokers))]
                broker.kill()
                await asyncio.sleep(rng.choice([0, 0.5, 5]))
                broker.start()
        await wait_until(
            cluster,
            lambda: {body for one in everyone for body in one.bodies} == set(bodies),
            200,
        )
        await asyncio.sleep(60)
        owners = Counter(queue for one in members for queue in one.owned())
        assert sorted(owners) == [
            MessageQueue("T", name, number)
            for name in sorted(cluster.brokers)
            for number in range(3)
        ]
        assert max(owners.values()) == 1
        for member in members:
            await member.consumer.shutdown()
        for queue, offset in committed(cluster).items():
            assert offset == len(cluster.brokers[queue.broker_name].records[queue])

    run_virtual(main(), cluster.clock)


def test_a_failing_message_is_delivered_again_and_then_goes_to_the_dead_letters() -> None:
    cluster = cluster_of()

    async def main() -> None:
        fill(cluster, 5)
        member = Member(cluster, "m", max_reconsume_times=2)
        member.fails = {b"00001": 1, b"00002": 99}
        async with member.consumer:
            broker = cluster.brokers["broker-a"]
            await wait_until(cluster, lambda: broker.bodies("%DLQ%g") == [b"00002"], 90)
            assert sorted(member.bodies) == [b"00000", b"00001", b"00003", b"00004"]
            again = next(one for one in member.got if one.body == b"00001")
            assert (again.topic, again.reconsume_times) == ("T", 1)
            assert member.fails[b"00002"] == 96

    run_virtual(main(), cluster.clock)


def test_without_a_maximum_of_the_consumer_that_of_the_group_ends_the_retries() -> None:
    cluster = cluster_of()
    for broker in cluster.brokers.values():
        broker.retry_max_times = 2

    async def main() -> None:
        fill(cluster, 1)
        member = Member(cluster, "m")
        member.fails = {b"00000": 99}
        async with member.consumer:
            broker = cluster.brokers["broker-a"]
            await wait_until(cluster, lambda: broker.bodies("%DLQ%g") == [b"00000"], 90)
            assert member.fails[b"00000"] == 96

    run_virtual(main(), cluster.clock)


def test_broadcasting_members_each_get_everything_and_continue_after_a_restart(
    tmp_path: Any,
) -> None:
    cluster = cluster_of()
    options = {"message_model": MessageModel.BROADCASTING, "offset_dir": str(tmp_path)}

    async def main() -> None:
        bodies = fill(cluster, 20)
        members = [Member(cluster, name, **options) for name in "ab"]
        for member in members:
            await member.consumer.start()
        await wait_until(cluster, lambda: all(len(one.got) == 20 for one in members))
        for member in members:
            await member.consumer.shutdown()
        assert not committed(cluster)
        bodies = fill(cluster, 4, start=500)
        again = Member(cluster, "a", **options)
        await again.consumer.start()
        await wait_until(cluster, lambda: len(again.got) == 4)
        assert sorted(again.bodies) == bodies
        assert "%RETRY%g" not in again.consumer.subscriptions
        await again.consumer.shutdown()

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize("kind", ["push", "lite pull"])
def test_a_consumer_that_cannot_write_its_offsets_leaves_the_group(
    tmp_path: Path, kind: str
) -> None:
    cluster = cluster_of()
    folder = tmp_path / "offsets"
    settings: dict[str, Any] = {
        "message_model": MessageModel.BROADCASTING,
        "offset_dir": str(folder),
        "consume_from_where": FIRST,
    }

    async def main() -> None:
        fill(cluster, 20)
        member = Member(cluster, "a", **settings)
        consumer: AsyncPushConsumer | AsyncLitePullConsumer = member.consumer
        if kind == "lite pull":
            consumer = AsyncLitePullConsumer(
                *("g", member.instance.config, ConsumerConfig(**settings)),
                clock=cluster.clock,
                instance=member.instance,
            )
            consumer.subscribe("T")
        await consumer.start()
        await wait_until(cluster, lambda: len(consumer.assignment()) == 4)
        folder.write_text("a file in the place of the folder")
        with pytest.raises(OSError, match="Not a directory"):
            await consumer.shutdown()
        broker = cluster.brokers["broker-a"]
        assert broker.unregistered == [(member.instance.client_id, "g")]
        assert member.transport.closed

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize(
    ("where", "expected"),
    [("CONSUME_FROM_LAST_OFFSET", 0), ("CONSUME_FROM_FIRST_OFFSET", 8)],
)
def test_where_a_new_group_starts(where: str, expected: int) -> None:
    cluster = cluster_of()

    async def main() -> None:
        fill(cluster, 8)
        member = Member(cluster, "m", consume_from_where=ConsumeFromWhere(where))
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.owned()) == 4)
            await asyncio.sleep(5)
            assert len(member.got) == expected
            fill(cluster, 4, start=50)
            await wait_until(cluster, lambda: len(member.got) == expected + 4)

    run_virtual(main(), cluster.clock)


def test_a_timestamp_start_asks_for_half_an_hour_ago_unless_given() -> None:
    cluster = cluster_of()
    asked: list[int] = []

    def search(command: Any) -> Any:
        asked.append(int(command.ext_fields["timestamp"]))
        return response(command, ext={"offset": "0"})

    cluster.brokers["broker-a"].scripts[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP] = search
    where = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP

    async def main() -> None:
        began_ms = cluster.clock.now_ms()
        for moment, group in ((None, "g1"), (123, "g2")):
            member = Member(
                cluster, "m", group=group, consume_from_where=where, consume_timestamp_ms=moment
            )
            async with member.consumer:
                await wait_until(cluster, lambda member=member: len(member.owned()) == 4)
        assert all(abs(one - (began_ms - 1_800_000)) < 5_000 for one in asked[:4])
        assert asked[4:] == [123] * 4

    run_virtual(main(), cluster.clock)


def test_an_offset_that_was_deleted_continues_at_the_first_one() -> None:
    cluster = cluster_of(queues=1)
    queue = MessageQueue("T", "broker-a", 0)

    async def main() -> None:
        fill(cluster, 10)
        broker = cluster.brokers["broker-a"]
        broker.offsets["g", queue] = 2
        del broker.records[queue][:5]
        broker.first[queue] = 5
        member = Member(cluster, "m")
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == 5, 10)
        assert broker.offsets["g", queue] == 10

    run_virtual(main(), cluster.clock)


def test_suspended_it_pulls_nothing_until_it_is_resumed() -> None:
    cluster = cluster_of()

    async def main() -> None:
        member = Member(cluster, "m")
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.owned()) == 4)
            member.consumer.suspend()
            await asyncio.sleep(20)  # pulls in flight end
            fill(cluster, 8)
            await asyncio.sleep(60)
            assert member.got == []
            member.consumer.resume()
            await wait_until(cluster, lambda: len(member.got) == 8, 3)

    run_virtual(main(), cluster.clock)


def test_flow_control_bounds_the_cached_messages() -> None:
    cluster = cluster_of(queues=1)

    async def main() -> None:
        fill(cluster, 500)
        member = Member(cluster, "m", pull_threshold_for_queue=40, consume_threads=1)
        member.delay_s = 0.01
        async with member.consumer:
            largest = 0
            while len(member.got) < 500:
                await asyncio.sleep(0.005)
                for process in member.consumer.process_queues.values():
                    largest = max(largest, process.count)
        assert 40 < largest <= 40 + 32

    run_virtual(main(), cluster.clock)


def test_a_subscription_can_change_while_running() -> None:
    cluster = cluster_of()
    cluster.create("U", queues=2)

    async def main() -> None:
        member = Member(cluster, "m")
        changes: list[tuple[str, int]] = []
        member.consumer.on_queues_changed.append(
            lambda topic, queues, own: changes.append((topic, len(own)))
        )
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.owned()) == 4)
            member.consumer.subscribe("U", "A || B")
            await wait_until(cluster, lambda: len(member.owned()) == 6, 3)
            member.consumer.unsubscribe("T")
            await wait_until(cluster, lambda: len(member.owned()) == 2, 3)
        assert ("T", 4) in changes
        assert ("U", 2) in changes

    run_virtual(main(), cluster.clock)


def test_a_topic_created_after_the_start_is_consumed_within_seconds() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        member = Member(cluster, "m")
        async with member.consumer:
            await asyncio.sleep(5)
            cluster.create("T", queues=2)
            fill(cluster, 4)
            await wait_until(cluster, lambda: len(member.got) == 4, 5)

    run_virtual(main(), cluster.clock)


def test_a_shutdown_waits_for_the_running_listener_and_commits_its_message() -> None:
    cluster = cluster_of(queues=1)

    async def main() -> None:
        fill(cluster, 1)
        member = Member(cluster, "m")
        member.delay_s = 5
        await member.consumer.start()
        await wait_until(
            cluster,
            lambda: any(one.count for one in member.consumer.process_queues.values()),
        )
        await member.consumer.shutdown()
        assert member.bodies == [b"00000"]
        assert list(committed(cluster).values()) == [1]

    run_virtual(main(), cluster.clock)


def test_a_refused_sql_expression_fails_the_start() -> None:
    cluster = cluster_of()
    cluster.brokers["broker-a"].scripts[RequestCode.CHECK_CLIENT_CONFIG] = lambda command: response(
        command, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "bad expression"
    )

    async def main() -> None:
        member = Member(cluster, "m")
        member.consumer.subscribe("T", sql="a >")
        with pytest.raises(ClientError, match="bad expression"):
            await member.consumer.start()
        assert member.instance.consumers == {}

    run_virtual(main(), cluster.clock)


def test_a_refused_start_names_the_setting() -> None:
    cluster = cluster_of()

    async def main() -> None:
        client = cluster.config()
        for group in ("", "bad group", "DEFAULT_CONSUMER"):
            with pytest.raises(ClientError, match="consumer group"):
                await AsyncPushConsumer(group, client).start()
        consumer = AsyncPushConsumer("g", client)
        with pytest.raises(ClientError, match="no listener"):
            await consumer.start()
        with pytest.raises(ClientError, match="not been started"):
            consumer.assignment()
        with pytest.raises(ClientError, match="topic"):
            consumer.subscribe("bad topic")
        with pytest.raises(ClientError, match="subscription"):
            consumer.subscribe("T", "||")
        with pytest.raises(ClientError, match="consume_threads"):
            bad = AsyncPushConsumer("g", client, ConsumerConfig(consume_threads=0))
            bad.listen(lambda messages, context: None)  # type: ignore[arg-type, return-value]
            await bad.start()

    run_virtual(main(), cluster.clock)


def test_long_running_listeners_have_their_message_sent_back() -> None:
    cluster = cluster_of(queues=1)

    async def main() -> None:
        fill(cluster, 2)
        member = Member(cluster, "m", consume_timeout_ms=60_000, consume_threads=2)
        member.delay_s = 10_000
        await member.consumer.start()
        broker = cluster.brokers["broker-a"]
        await wait_until(cluster, lambda: len(broker.bodies("%RETRY%g")) == 2, 200)
        await member.kill()

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_shutdown_takes_no_longer_with_more_queues_on_a_hung_broker(orderly: bool) -> None:
    cluster = cluster_of(queues=16)
    fill(cluster, 16)

    async def main() -> None:
        member = Member(cluster, "m", orderly=orderly)
        await member.consumer.start()
        await wait_until(cluster, lambda: len(member.got) == 16)
        cluster.brokers["broker-a"].state = "hung"
        began_s = cluster.now_s()
        await member.consumer.shutdown()
        assert cluster.now_s() - began_s < 20

    run_virtual(main(), cluster.clock)
