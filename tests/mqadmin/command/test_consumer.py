import json
from collections.abc import Callable
from typing import Any

from mqadmin.admin.connections import Connection, ConsumerConnections, Subscription
from mqadmin.admin.consumer import ConsumerRecord, LagRecord
from mqadmin.admin.result import Listing

Run = Callable[..., Any]


def lag_record(queue_id: int, consumer_offset: int | None, state: str) -> LagRecord:
    lag = None if consumer_offset is None else 10 - consumer_offset
    return LagRecord(
        group="g",
        topic="t",
        broker_name="broker-a",
        queue_id=queue_id,
        broker_offset=10,
        consumer_offset=consumer_offset,
        lag=lag,
        lag_seconds=1.5 if lag else None,
        inflight=0,
        last_timestamp=1_700_000_000_000 if consumer_offset else None,
        client_id=None,
        state=state,
    )


LAG = Listing(
    items=[lag_record(0, 7, "ok"), lag_record(1, None, "noOffset"), lag_record(2, 12, "ahead")]
)


def test_lag_as_a_table(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["consumer.lag"] = LAG
    done = mqadmin("consumer", "lag", "g")
    assert done.status == 0
    assert done.err == "total lag 3 in 2 queues, 1 without a committed offset or a response\n"
    screen("consumer-lag.txt", done.out)


def test_a_total_of_unknown_values_is_null(mqadmin: Run, admin: Any) -> None:
    unknown = [item for item in LAG.items if item.lag is None]
    admin.answers["consumer.lag"] = Listing(items=unknown)
    done = mqadmin("consumer", "lag", "g")
    assert done.err == "total lag - in 0 queues, 1 without a committed offset or a response\n"


def test_an_offset_that_is_not_there_is_null_and_never_zero(mqadmin: Run, admin: Any) -> None:
    admin.answers["consumer.lag"] = LAG
    items = json.loads(mqadmin("consumer", "lag", "g", "-o", "json").out)["items"]
    assert items[1]["consumerOffset"] is None
    assert items[1]["lag"] is None
    assert items[1]["state"] == "noOffset"


def test_an_unknown_group_is_reported_once(mqadmin: Run, admin: Any) -> None:
    admin.answers["consumer.lag"] = Listing(items=(), notes=("no broker has an offset of group g",))
    done = mqadmin("consumer", "lag", "g")
    assert (done.status, done.out) == (1, "")
    assert done.err.splitlines() == [
        "error: no broker has an offset of group g",
        "hint: mqadmin consumer list and mqadmin group list list the groups",
    ]


def test_list(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["consumer.list"] = Listing(
        items=[
            ConsumerRecord(
                group="g",
                clients=2,
                consume_type="CONSUME_PASSIVELY",
                message_model="CLUSTERING",
                version="V5_3_3",
                consume_tps=1.25,
                lag=3,
            )
        ]
    )
    done = mqadmin("consumer", "list", "--no-lag")
    assert admin.calls[0][2] == {"include_system": False, "lag": False}
    screen("consumer-list.txt", done.out)


def test_connections(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["consumer.connections"] = ConsumerConnections(
        group="g",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        connections=(
            Connection(
                client_id="c1",
                client_addr="10.0.0.1:5000",
                language="JAVA",
                version="V5_3_3",
                brokers=("broker-a",),
            ),
        ),
        subscriptions=(
            Subscription(topic="t", sub_string="*", expression_type="TAG", sub_version=1),
        ),
    )
    done = mqadmin("consumer", "connections", "g")
    assert done.status == 0
    screen("consumer-connections.txt", done.out)


def test_an_offline_group_is_a_failure(mqadmin: Run, admin: Any) -> None:
    admin.answers["consumer.connections"] = ConsumerConnections(
        group="g",
        consume_type=None,
        message_model=None,
        consume_from_where=None,
        connections=(),
        subscriptions=(),
    )
    done = mqadmin("consumer", "connections", "g")
    assert done.status == 1
    assert "no client of group g is connected" in done.err
