"""Hooks around listener calls."""

import asyncio

import pytest

from broker.client.hooks.consume_hooks import ConsumeHooks, code_of
from broker.client.hooks.events import ConsumeEvent
from broker.client.results import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from broker.common.clock import ManualClock
from broker.common.message_queue import MessageQueue
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)
SUCCESS = ConsumeConcurrentlyStatus.CONSUME_SUCCESS


@pytest.mark.parametrize(
    ("result", "cost_ms", "expected"),
    [
        (SUCCESS, 1, 0),
        (SUCCESS, 100, 1),
        (ValueError(), 1, 2),
        (None, 1, 3),
        (ConsumeConcurrentlyStatus.RECONSUME_LATER, 1, 4),
        (ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT, 1, 4),
    ],
)
def test_codes_of_results(result: object, cost_ms: float, expected: int) -> None:
    assert code_of(result, SUCCESS, cost_ms=cost_ms, timeout_ms=100) == expected


@pytest.mark.parametrize("orderly", [False, True])
def test_each_call_is_reported_at_its_start_and_its_end(orderly: bool) -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    for number in range(3):
        cluster.brokers["broker-a"].store(QUEUE, b"%d" % number)
    events: list[ConsumeEvent] = []

    async def main() -> None:
        member = Member(cluster, "m", orderly=orderly)
        member.fails = {b"1": 1}
        member.consumer.consume_hooks.append(events.append)
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == 3)

    run_virtual(main(), cluster.clock)
    starts = [one for one in events if one.before]
    ends = [one for one in events if not one.before]
    assert [one.request_id for one in starts] == [one.request_id for one in ends]
    assert len({one.request_id for one in starts}) == 4
    assert sorted(one.context_code for one in ends) == [0, 0, 0, 4]
    assert {one.group for one in events} == {"g"}


def test_a_hook_that_raises_does_not_disturb_the_consumer() -> None:
    async def main() -> list[ConsumeEvent]:
        seen: list[ConsumeEvent] = []

        def fail(event: ConsumeEvent) -> None:
            raise ValueError("no")

        hooks = ConsumeHooks("g", ManualClock(), [fail, seen.append])
        hooks.before([], QUEUE)
        hooks.after("ID", [], QUEUE, cost_ms=1, code=0)
        await asyncio.sleep(0)
        return seen

    assert len(asyncio.run(main())) == 2


def test_without_hooks_no_id_is_made() -> None:
    async def main() -> str:
        return ConsumeHooks("g", ManualClock(), []).before([], QUEUE)

    assert asyncio.run(main()) == ""
