"""The order in which name servers are asked."""

import pytest

from broker.errors import ClientError
from broker.remoting.rpc.caller import NameServerOrder, parse_namesrv


def test_name_servers_are_split_and_checked() -> None:
    assert parse_namesrv("a:1; b:2,a:1;") == ("a:1", "b:2")
    assert parse_namesrv(["a:1", " b:2 "]) == ("a:1", "b:2")
    with pytest.raises(ClientError, match="name server 'a'"):
        parse_namesrv("a")


def addresses(order: NameServerOrder) -> list[str]:
    return [address for address, _ in order.attempts()]


def test_each_one_is_tried_once_from_the_current_one_on() -> None:
    order = NameServerOrder(["a", "b", "c"], first=1)
    assert list(order.attempts()) == [("b", 3), ("c", 2), ("a", 1)]


def test_the_one_that_answered_is_asked_first() -> None:
    order = NameServerOrder(["a", "b", "c"])
    order.answered("c")
    assert (order.current, addresses(order)) == ("c", ["c", "a", "b"])


def test_one_that_failed_is_asked_last_by_every_caller() -> None:
    order = NameServerOrder(["a", "b", "c"])
    running = order.attempts()
    assert next(running)[0] == "a"
    order.failed("a")
    order.failed("a")  # a second caller reports the same failure
    assert order.current == "b"
    assert next(running)[0] == "b"
