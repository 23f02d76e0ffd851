"""RouteLookup: queues of all brokers, kept for a while, shared by concurrent questions."""

import asyncio

import pytest

from broker.common.clock import ManualClock
from broker.common.message_queue import MessageQueue
from broker.common.topic import TopicConfig
from broker.errors import RemotingError
from broker.remoting.protocol.body.namesrv.route import QueueData, TopicRouteData
from broker.remoting.protocol.command import request, response
from broker.server.pop.assignment.route_lookup import ROUTE_LIFE_MS, RouteLookup


class NameServer:
    """Answers with one route, or fails."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.code = 0
        self.fails: set[str] = set()

    async def call(self, address, command, timeout_ms=3000):
        self.calls.append(address)
        await asyncio.sleep(0)
        if address in self.fails:
            raise RemotingError("refused")
        route = TopicRouteData(
            queue_datas=[
                QueueData(broker_name="a", read_queue_nums=2, write_queue_nums=2, perm=6),
                QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=2, perm=4),
                QueueData(broker_name="c", read_queue_nums=4, write_queue_nums=4, perm=2),
            ]
        )
        return response(request(0), self.code, body=route.to_bytes())


@pytest.fixture
def server() -> NameServer:
    return NameServer()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def lookup(server, clock, addresses=("n1",), own=None) -> RouteLookup:
    return RouteLookup(server, clock, lambda: addresses, lambda topic: own, lambda: "a")


ROUTE = [MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0)]


def test_readable_queues_of_every_broker(server, clock) -> None:
    assert asyncio.run(lookup(server, clock).queues("T")) == ROUTE


def test_a_route_is_kept_for_a_while(server, clock) -> None:
    async def main() -> None:
        it = lookup(server, clock)
        for _ in range(3):
            await it.queues("T")
        assert len(server.calls) == 1
        clock.advance(ROUTE_LIFE_MS)
        await it.queues("T")
        assert len(server.calls) == 2

    asyncio.run(main())


def test_an_old_route_is_used_while_no_name_server_answers(server, clock) -> None:
    async def main() -> None:
        it = lookup(server, clock)
        await it.queues("T")
        clock.advance(ROUTE_LIFE_MS)
        server.fails = {"n1"}
        assert await it.queues("T") == ROUTE

    asyncio.run(main())


def test_concurrent_questions_share_one_request(server, clock) -> None:
    async def main() -> None:
        it = lookup(server, clock)
        assert await asyncio.gather(*(it.queues("T") for _ in range(5))) == [ROUTE] * 5
        assert len(server.calls) == 1

    asyncio.run(main())


def test_the_next_name_server_is_asked_if_one_fails(server, clock) -> None:
    server.fails = {"n1"}
    assert asyncio.run(lookup(server, clock, ("n1", "n2")).queues("T")) == ROUTE
    assert server.calls == ["n1", "n2"]


def test_without_name_server_the_own_queues_are_known(server, clock) -> None:
    own = TopicConfig(topic_name="T", read_queue_nums=2)
    found = asyncio.run(lookup(server, clock, (), own).queues("T"))
    assert found == ROUTE[:2]
    assert asyncio.run(lookup(server, clock, ()).queues("T")) is None


def test_an_unknown_topic_is_not_decided(server, clock) -> None:
    server.code = 17
    assert asyncio.run(lookup(server, clock).queues("T")) is None
