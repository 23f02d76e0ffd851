import json
from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_every_queue_is_allocated_to_one_client(live: Run) -> None:
    assert live("topic create Shared --queues 3 --yes").status == 0
    done = live("topic allocate Shared b a -o json")
    assert done.status == 0
    found = [(item["clientId"], item["queueId"]) for item in json.loads(done.out)["items"]]
    assert found == [("a", 0), ("a", 1), ("b", 2)]


def test_a_topic_without_a_route_is_status_1(live: Run) -> None:
    assert live("topic allocate NoSuch a").status == 1
