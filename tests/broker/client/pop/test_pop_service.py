"""Pop loops on virtual time: waits, flow control, switches between the modes."""

import asyncio
import os
from random import Random

import pytest

from broker.client.offset.start_offset import ConsumeFromWhere
from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import response
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_pop import FakePop
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

ANY = MessageQueue("T", "broker-a", -1)
RUNS = int(os.environ.get("TORTURE_RUNS", "60"))


def popping(**config: object) -> tuple[FakeCluster, FakePop, Member]:
    cluster = FakeCluster()
    cluster.create("T", queues=2)
    pop = FakePop(cluster, cluster.brokers["broker-a"])
    settings = {"client_rebalance": False, **config}
    return cluster, pop, Member(cluster, "m", **settings)


def pops(pop: FakePop) -> list[dict[str, str]]:
    return [one.ext_fields for one in pop.broker.calls if one.code == RequestCode.POP_MESSAGE]


def test_one_suspended_pop_per_broker_gets_a_new_message_at_once() -> None:
    cluster, pop, member = popping(consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)

    async def main() -> None:
        async with member.consumer:
            await wait_until(cluster, lambda: member.owned() == [ANY])
            await asyncio.sleep(20)
            assert len(pops(pop)) == 2  # 15 s each
            began_ms = cluster.clock.monotonic_ms()
            pop.fill(b"a")
            await wait_until(cluster, lambda: pop.acked == [b"a"])
            assert cluster.clock.monotonic_ms() - began_ms < 100
            first = pops(pop)[0]
            assert (first["queueId"], first["maxMsgNums"], first["initMode"]) == ("-1", "32", "1")
            assert (first["invisibleTime"], first["pollTime"]) == ("60000", "15000")

    run_virtual(main(), cluster.clock)


def test_popping_pauses_while_too_many_messages_are_unfinished_or_the_consumer_is_suspended() -> (
    None
):
    cluster, pop, member = popping(pop_batch_nums=2, pop_threshold_for_queue=3)
    member.delay_s = 10

    async def main() -> None:
        pop.fill(*(b"%d" % number for number in range(8)))
        async with member.consumer:
            await wait_until(cluster, lambda: member.consumer.cached_messages() == 4)
            await asyncio.sleep(5)
            assert member.consumer.cached_messages() == 4  # more than 3: no further pop
            member.consumer.suspend()
            await wait_until(cluster, lambda: len(pop.acked) == 4)
            before = len(pops(pop))
            await asyncio.sleep(30)
            assert len(pops(pop)) <= before + 1
            member.consumer.resume()
            await wait_until(cluster, lambda: len(pop.acked) == 8)

    run_virtual(main(), cluster.clock)


def test_a_full_broker_is_asked_again_after_a_second_and_a_busy_one_after_twenty_ms() -> None:
    cluster, pop, member = popping()

    async def main() -> None:
        pop.polling_full = True
        async with member.consumer:
            await wait_until(cluster, lambda: len(pops(pop)) == 1)
            await asyncio.sleep(10.5)
            assert 10 <= len(pops(pop)) <= 12
            pop.broker.scripts[RequestCode.POP_MESSAGE] = lambda command: response(
                command, ResponseCode.FLOW_CONTROL, "busy"
            )
            before = len(pops(pop))
            await asyncio.sleep(3)
            assert len(pops(pop)) - before > 50

    run_virtual(main(), cluster.clock)


def test_a_running_consumer_follows_a_change_of_the_mode_in_both_directions() -> None:
    cluster, pop, member = popping()

    async def main() -> None:
        pop.mode = "PULL"
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.owned()) == 2)
            assert ANY not in member.owned()
            pop.fill(b"a", b"b")
            await wait_until(cluster, lambda: len(member.got) == 2)
            pop.done |= {(0, 0), (1, 0)}  # a real broker starts at the committed offsets
            pop.mode = "POP"
            await wait_until(cluster, lambda: member.owned() == [ANY])
            cluster.create("%RETRY%g_T", queues=1)
            cluster.create("%RETRY%g+T", queues=1)
            pop.fill(b"c")
            await wait_until(cluster, lambda: pop.acked == [b"c"])
            pop.mode = "PULL"
            await wait_until(cluster, lambda: "%RETRY%g+T" in {one.topic for one in member.owned()})
            retried = MessageQueue("%RETRY%g+T", "broker-a", 0)
            pop.broker.store(retried, b"from the time of POP")
            await wait_until(cluster, lambda: b"from the time of POP" in member.bodies)
            assert member.got[-1].topic == "T"
            pop.mode = "POP"
            await wait_until(cluster, lambda: member.owned() == [ANY])
            assert set(member.consumer.subscriptions) == {"T", "%RETRY%g"}

    run_virtual(main(), cluster.clock)


def test_orderly_listeners_and_clients_that_rebalance_themselves_are_never_popped() -> None:
    for settings in ({"orderly": True, "client_rebalance": False}, {"client_rebalance": True}):
        cluster = FakeCluster()
        cluster.create("T", queues=2)
        pop = FakePop(cluster, cluster.brokers["broker-a"])
        member = Member(cluster, "m", **settings)

        async def main(
            cluster: FakeCluster = cluster, pop: FakePop = pop, member: Member = member
        ) -> None:
            async with member.consumer:
                await wait_until(cluster, lambda: len(member.owned()) == 2)
                assert RequestCode.QUERY_ASSIGNMENT not in pop.broker.codes()

        run_virtual(main(), cluster.clock)


@pytest.mark.parametrize("seed", range(RUNS))
def test_random_kills_of_members_and_brokers_lose_nothing(seed: int) -> None:
    """Every message is consumed at least once and acknowledged in the end."""
    rng = Random(seed)
    cluster = FakeCluster()
    cluster.create("T", queues=3)
    broker = cluster.brokers["broker-a"]
    pop = FakePop(cluster, broker)

    def member(name: str) -> Member:
        made = Member(cluster, name, client_rebalance=False, pop_invisible_ms=5_000)
        made.delay_s = rng.choice([0, 0, 0.3, 6])
        made.fails = {b"%d" % rng.randrange(100): rng.choice([1, 2]) for _ in range(5)}
        return made

    async def main() -> None:
        everyone = [member(f"m{number}") for number in range(3)]
        alive = list(everyone)
        for one in alive:
            await one.consumer.start()
        count = 0
        for step in range(rng.randint(3, 6)):
            more = rng.randint(1, 30)
            pop.fill(*(b"%d" % number for number in range(count, count + more)))
            count += more
            await asyncio.sleep(rng.choice([0, 0.01, 0.2, 1, 6]))
            action = rng.randrange(4)
            if action == 0 and len(alive) > 1:
                await alive.pop(rng.randrange(len(alive))).kill()
            elif action == 1 and len(alive) > 1:
                await alive.pop(rng.randrange(len(alive))).consumer.shutdown()
            elif action == 2:
                everyone.append(member(f"n{step}"))
                alive.append(everyone[-1])
                await alive[-1].consumer.start()
            else:
                broker.kill()
                await asyncio.sleep(rng.choice([0, 0.5, 5]))
                broker.start()
        for one in alive:
            one.delay_s = 0
        bodies = {b"%d" % number for number in range(count)}
        # a message that fails after late deliveries waits two of the long intervals
        await wait_until(cluster, lambda: set(pop.acked) == bodies, 2 * 600)
        assert {body for one in everyone for body in one.bodies} == bodies
        for one in alive:
            await one.consumer.shutdown()

    run_virtual(main(), cluster.clock)
