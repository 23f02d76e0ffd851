"""Which filter a consumer may join a group with."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broker.client import ClientConfig, ConsumeConcurrentlyStatus, PushConsumer
from broker.errors import ClientError
from mqadmin.admin.connections import Connection, ConsumerConnections, Subscription
from mqadmin.admin.session import AdminSession
from mqadmin.traffic.membership import Filter, filter_to_join, joined_filter


def members(
    *subscriptions: tuple[str, str, str], model: str = "CLUSTERING", clients: int = 1
) -> ConsumerConnections:
    connection = Connection(
        client_id="c", client_addr="127.0.0.1:1", language="JAVA", version="V5_3_3", brokers=["a"]
    )
    return ConsumerConnections(
        group="g",
        consume_type="CONSUME_PASSIVELY",
        message_model=model,
        consume_from_where=None,
        connections=[connection] * clients,
        subscriptions=[
            Subscription(topic=topic, sub_string=text, expression_type=kind, sub_version=1)
            for topic, text, kind in (*subscriptions, ("%RETRY%g", "*", "TAG"))
        ],
    )


TAGS = ("orders", "a || b", "TAG")
SQL = ("orders", "n > 1", "SQL92")


@pytest.mark.parametrize(
    ("present", "wanted", "found"),
    [
        (TAGS, None, Filter(tags="a || b")),
        (TAGS, Filter(tags="b||a"), Filter(tags="a || b")),
        (SQL, None, Filter(sql="n > 1")),
        (SQL, Filter(sql=" n > 1 "), Filter(sql="n > 1")),
        (("orders", "*", "TAG"), Filter(), Filter()),
    ],
)
def test_the_filter_of_the_members_is_used(
    present: tuple[str, str, str], wanted: Filter | None, found: Filter
) -> None:
    assert joined_filter(members(present), "orders", wanted) == found


@pytest.mark.parametrize(
    ("present", "wanted"),
    [
        ([TAGS], Filter(tags="a")),
        ([TAGS], Filter()),
        ([TAGS], Filter(sql="a || b")),
        ([SQL], Filter(sql="n > 2")),
        ([TAGS, ("invoices", "*", "TAG")], None),
        ([("invoices", "*", "TAG")], None),
        ([], None),
    ],
)
def test_another_subscription_than_that_of_the_members_is_refused(
    present: Sequence[tuple[str, str, str]], wanted: Filter | None
) -> None:
    with pytest.raises(ClientError, match="group g") as caught:
        joined_filter(members(*present), "orders", wanted)
    assert "without --group" in caught.value.hint


def test_a_broadcasting_group_is_refused() -> None:
    with pytest.raises(ClientError, match="broadcasting"):
        joined_filter(members(TAGS, model="BROADCASTING"), "orders", None)


@pytest.mark.parametrize("wanted", [None, Filter(tags="x"), Filter(sql="n = 1")])
def test_a_group_without_connected_members_takes_any_filter(wanted: Filter | None) -> None:
    found = joined_filter(members(TAGS, clients=0), "orders", wanted)
    assert found == (wanted or Filter())


def test_the_members_are_those_of_the_brokers(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("Joined")

    def listener(*_: Any) -> ConsumeConcurrentlyStatus:
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer = PushConsumer("joined", client)
    consumer.subscribe(topic, "a || b")
    consumer.listen(listener)
    with consumer:
        assert filter_to_join(admin, "joined", topic, tags=None, sql=None).tags == "a || b"
        with pytest.raises(ClientError, match="not with tags 'c'"):
            filter_to_join(admin, "joined", topic, tags="c", sql=None)
    assert filter_to_join(admin, "joined", topic, tags="c", sql=None) == Filter(tags="c")
