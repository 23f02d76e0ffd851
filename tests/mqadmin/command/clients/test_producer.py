"""``mqadmin producer``: its output and its statuses."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.brokers.producers import ProducerRecord
from mqadmin.admin.clients.producers import ProducerConnections
from mqadmin.admin.connections import Connection
from mqadmin.admin.result import Listing, TargetError

Run = Callable[..., Any]


def test_producers_are_listed(mqadmin: Run, admin: Any) -> None:
    row = ProducerRecord(
        producer_group="shop",
        client_id="c1",
        client_addr="10.0.0.1:5000",
        language="JAVA",
        version="V5_3_3",
        version_code=479,
        address="a:1",
        last_update_timestamp=1_700_000_000_000,
        broker_name="broker-a",
    )
    admin.answers["producer.list"] = Listing(items=[row])
    done = mqadmin("producer", "list", "--group", "shop", "-o", "json")
    (item,) = json.loads(done.out)["items"]
    assert (done.status, item["clientId"], item["lastUpdateTimestamp"]) == (
        0,
        "c1",
        1_700_000_000_000,
    )
    assert admin.calls[0][2] == {"group": "shop", "cluster": None, "broker": None}


def test_connections_of_a_group_are_shown(mqadmin: Run, admin: Any) -> None:
    client = Connection(
        client_id="c1", client_addr="a:1", language="JAVA", version="V5_3_3", brokers=["broker-a"]
    )
    admin.answers["producer.connections"] = ProducerConnections(group="shop", connections=[client])
    done = mqadmin("producer", "connections", "shop")
    assert done.status == 0
    assert "c1" in done.out


def test_a_group_without_clients_has_status_1(mqadmin: Run, admin: Any) -> None:
    admin.answers["producer.connections"] = ProducerConnections(group="shop", connections=[])
    done = mqadmin("producer", "connections", "shop")
    assert done.status == 1
    assert "no client of producer group shop" in done.err


@pytest.mark.parametrize(
    ("responded", "status"), [(set(), 3), ({"b:2"}, 3), ({"b:1"}, 5), ({"b:1", "b:2"}, 5)]
)
def test_a_broker_that_responds_and_has_nothing_to_list_worked(
    mqadmin: Run, admin: Any, responded: set[str], status: int
) -> None:
    error = TargetError(kind="timeout", message="no answer", address="b:2", target="broker-b")
    admin.answers["producer.list"] = Listing(items=[], errors=[error])
    admin.responded = responded
    assert mqadmin("producer", "list").status == status
