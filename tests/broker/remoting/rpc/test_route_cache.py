"""Routes: queues to write, queues to read, time to live."""

import msgspec
import pytest

from broker.common.clock import ManualClock
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, ClientError
from broker.remoting.protocol.body.namesrv.route import BrokerData, QueueData, TopicRouteData
from broker.remoting.protocol.command import response
from broker.remoting.rpc.route_cache import ROUTE_LIMIT, ROUTE_TTL_MS, Route, RouteCache


def route(**fields) -> Route:
    return Route(
        "t",
        TopicRouteData(
            queue_datas=[
                QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=2, perm=6),
                QueueData(broker_name="a", read_queue_nums=2, write_queue_nums=1, perm=6),
                QueueData(broker_name="ro", read_queue_nums=1, write_queue_nums=1, perm=4),
                QueueData(broker_name="wo", read_queue_nums=1, write_queue_nums=1, perm=2),
                QueueData(broker_name="slaves", read_queue_nums=1, write_queue_nums=1, perm=6),
            ],
            broker_datas=[
                BrokerData(broker_name="a", broker_addrs={0: "a:0", 1: "a:1"}),
                BrokerData(broker_name="b", broker_addrs={0: "b:0"}),
                BrokerData(broker_name="ro", broker_addrs={0: "ro:0"}),
                BrokerData(broker_name="wo", broker_addrs={0: "wo:0"}),
                BrokerData(broker_name="slaves", broker_addrs={2: "s:2", 1: "s:1"}),
            ],
            **fields,
        ),
    )


def names(queues):
    return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


def test_queues_to_write_need_permission_and_a_master() -> None:
    assert names(route().publish_queues()) == ["a0", "b0", "b1", "wo0"]


def test_queues_to_read_need_permission_only() -> None:
    assert names(route().subscribe_queues()) == ["a0", "a1", "b0", "ro0", "slaves0"]


def test_an_order_configuration_decides_alone() -> None:
    ordered = route(order_topic_conf="b:2;a:1;malformed;:3;c:x")
    assert ordered.publish_queues() == [
        MessageQueue("t", "b", 0),
        MessageQueue("t", "b", 1),
        MessageQueue("t", "a", 0),
    ]


@pytest.mark.parametrize("count", ["-1", "²", "65537", "9" * 5_000, " ", "1.5", "1_0"])
def test_an_invalid_number_in_an_order_configuration_is_skipped(count: str) -> None:
    """One entry of the configuration could otherwise exhaust the memory of every client."""
    ordered = route(order_topic_conf=f"a:{count};b:1")
    assert ordered.publish_queues() == [MessageQueue("t", "b", 0)]


def test_addresses() -> None:
    one = route()
    assert (one.master("a"), one.reader("a")) == ("a:0", "a:0")
    assert (one.master("slaves"), one.reader("slaves")) == (None, "s:1")
    assert (one.master("nope"), one.reader("nope")) == (None, None)
    assert one.suggested_reader("nope", 1) is None
    assert one.suggested_reader("a", 0) == ("a:0", False)
    assert one.suggested_reader("slaves", 1) == ("s:1", True)
    assert one.suggested_reader("slaves", 0) == ("s:1", True)  # the next id, then the lowest
    assert one.suggested_reader("a", 7) == ("a:0", False)
    assert one.broker_names() == ["a", "b", "ro", "slaves", "wo"]


def test_a_route_is_asked_once_until_it_is_old(scripted, caller) -> None:
    clock = ManualClock()
    cache = RouteCache(caller, clock)
    scripted.route("t", "b")
    assert cache.get("t") is cache.find("t")
    clock.advance(ROUTE_TTL_MS)
    cache.get("t")
    assert len(scripted.asked(105)) == 2
    cache.forget("t")
    cache.get("t")
    assert len(scripted.asked(105)) == 3


def test_an_unknown_topic_is_none_or_an_error(scripted, caller) -> None:
    cache = RouteCache(caller)
    assert cache.find("t") is None
    with pytest.raises(ClientError, match="topic t has no route at ns:1, ns:2"):
        cache.get("t")


def test_another_refusal_is_raised(scripted, caller) -> None:
    scripted.scripts[105] = lambda a, c: response(c, 1, "starting")
    with pytest.raises(BrokerError):
        RouteCache(caller).find("t")


def test_the_cache_is_bounded_and_drops_the_oldest_route(scripted, caller) -> None:
    cache = RouteCache(caller)
    asked: list[str] = []

    def answer(address, command):
        asked.append(command.ext_fields["topic"])
        return response(command, body=TopicRouteData().to_bytes())

    scripted.scripts[105] = answer
    for number in range(ROUTE_LIMIT + 1):
        cache.find(str(number))
    asked.clear()
    cache.find("1")
    cache.find(str(ROUTE_LIMIT))
    assert asked == []
    cache.find("0")
    assert asked == ["0"]


def test_routes_survive_replacing_parts() -> None:
    data = msgspec.structs.replace(route().data, queue_datas=[])
    assert Route("t", data).publish_queues() == []
