"""POP consumption on virtual time: which result becomes which request."""

import asyncio

import pytest

from broker.client.pop.consume_pop import POP_DELAY_LEVEL_S, retry_delay_s, spent_delay_s
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_pop import FakePop
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

HOUR_MS = 3_600_000


def popping(**config: object) -> tuple[FakeCluster, FakePop, Member]:
    cluster = FakeCluster()
    cluster.create("T", queues=2)
    pop = FakePop(cluster, cluster.brokers["broker-a"])
    return cluster, pop, Member(cluster, "m", client_rebalance=False, **config)


@pytest.mark.parametrize(
    ("times", "level", "delay_s"),
    [
        (0, 0, 10),
        (1, 0, 30),
        (15, 0, 7_200),
        (40, 0, 7_200),
        (0, 3, 120),
        (5, 99, 7_200),
        (2, -1, 60),
    ],
)
def test_the_interval_follows_the_level_of_the_context_else_the_deliveries(
    times: int, level: int, delay_s: int
) -> None:
    assert retry_delay_s(times, level) == delay_s


def test_the_table_has_javas_sixteen_intervals() -> None:
    assert POP_DELAY_LEVEL_S == (
        10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("age_ms", "delay_s"),
    [
        (0, 10),
        (9_999, 10),
        (10_000, 30),
        (HOUR_MS, 7_200),
        (4 * HOUR_MS, 7_200),
        (4 * HOUR_MS + 1, None),
    ],
)
def test_a_message_at_its_maximum_waits_by_its_age_and_then_ends(
    age_ms: int, delay_s: int | None
) -> None:
    assert spent_delay_s(age_ms) == delay_s


def test_consumed_messages_are_acknowledged_and_failed_ones_come_again_later() -> None:
    cluster, pop, member = popping()
    member.fails = {b"b": 2}

    async def main() -> None:
        pop.fill(b"a", b"b", b"c")
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == 3)
            assert sorted(pop.acked) == [b"a", b"b", b"c"]
            assert pop.postponed == [(b"b", 10_000), (b"b", 30_000)]
            assert [one.reconsume_times for one in member.got if one.body == b"b"] == [2]
            assert {one.topic for one in member.got} == {"T"}
            assert member.consumer.cached_messages() == 0

    run_virtual(main(), cluster.clock)


def test_the_result_of_a_listener_that_took_too_long_does_not_count() -> None:
    cluster, pop, member = popping(pop_invisible_ms=5_000)
    member.delay_s = 6

    async def main() -> None:
        pop.fill(b"a")
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == 1)
            assert pop.acked == []
            member.delay_s = 0
            await wait_until(cluster, lambda: pop.acked == [b"a"])
            assert len(member.got) > 1  # the broker has delivered it again

    run_virtual(main(), cluster.clock)


def test_a_message_that_waited_too_long_for_a_listener_is_not_consumed_here() -> None:
    cluster, pop, member = popping(pop_invisible_ms=5_000, consume_threads=1)
    member.delay_s = 6

    async def main() -> None:
        pop.fill(b"a", b"b")
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == 1)
            await asyncio.sleep(0.1)
            assert [one.body for one in member.got] == [b"a"]  # b was skipped
            member.delay_s = 0
            await wait_until(cluster, lambda: sorted(pop.acked) == [b"a", b"b"])

    run_virtual(main(), cluster.clock)


def test_a_message_over_the_maximum_is_acknowledged_without_consumption() -> None:
    cluster, pop, member = popping(max_reconsume_times=1)
    member.fails = {b"a": 99}

    async def main() -> None:
        pop.fill(b"a")
        async with member.consumer:
            await wait_until(cluster, lambda: pop.acked == [b"a"], 600)
            assert member.fails[b"a"] == 97  # two deliveries
            assert member.got == []

    run_virtual(main(), cluster.clock)
