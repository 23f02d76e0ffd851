"""Verdicts about a message and a group."""

from typing import Any

import pytest

from broker.remoting.protocol.body.consumer.group import GroupList
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.connections import Connection, ConsumerConnections, Subscription
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.tracing import track
from mqadmin.message_row import MessageRow


def connected(
    *, consume_type: str = "CONSUME_PASSIVELY", model: str = "CLUSTERING", tags: str | None = "*"
) -> ConsumerConnections:
    client = Connection(
        client_id="c", client_addr="1.1.1.1:1", language="JAVA", version="V5", brokers=["broker-a"]
    )
    subscriptions = []
    if tags is not None:
        kind = "SQL92" if "=" in tags else "TAG"
        one = Subscription(topic="T", sub_string=tags, expression_type=kind, sub_version=1)
        subscriptions = [one]
    return ConsumerConnections(
        group="g",
        consume_type=consume_type,
        message_model=model,
        consume_from_where=None,
        connections=[client],
        subscriptions=subscriptions,
    )


@pytest.mark.parametrize(
    ("group", "offset", "known", "verdict"),
    [
        (connected(), 6, True, "CONSUMED"),
        (connected(), 5, True, "NOT_CONSUME_YET"),
        (connected(), None, True, "NOT_CONSUME_YET"),
        (connected(tags="A || B"), 6, True, "CONSUMED"),
        (connected(tags="B"), 6, True, "CONSUMED_BUT_FILTERED"),
        (connected(tags="B"), 5, True, "NOT_CONSUME_YET"),
        (connected(tags="a = 1"), 6, True, "CONSUMED"),
        (connected(tags=None), 6, True, "CONSUMED"),
        (connected(consume_type="CONSUME_ACTIVELY"), 6, True, "PULL"),
        (connected(model="BROADCASTING"), None, True, "CONSUME_BROADCASTING"),
        (connected(), None, False, "UNKNOWN"),
        (connected(consume_type="CONSUME_POP"), 6, True, "CONSUMED"),
    ],
)
def test_the_verdict_of_a_group(
    group: ConsumerConnections, offset: int | None, known: bool, verdict: str
) -> None:
    message = message_row(queue_offset=5, tags="A")
    assert track.verdict_of(group, message, offset, known=known)[0] == verdict


def message_row(**fields: object) -> MessageRow:
    given = dict.fromkeys(MessageRow.__struct_fields__, None)
    given |= {"topic": "T", "broker_name": "broker-a", "queue_id": 0, "keys": [], "properties": {}}
    return MessageRow(**{**given, **fields})  # type: ignore[arg-type]


def test_a_group_without_a_client_is_not_online_whatever_it_committed(
    cluster: Any, broker_a: Any, admin: MQAdmin
) -> None:
    broker_a.store("T")
    found = track.MessageTracker(admin).track(message_row(queue_offset=0), group="g")
    (row,) = found.items
    assert (row.track_type, row.clients, row.consumer_offset) == ("NOT_ONLINE", 0, None)
    assert "none is committed" in row.detail


@pytest.mark.parametrize(
    ("group", "offset", "known", "detail"),
    [
        (connected(), 6, True, "the committed offset is 6"),
        (connected(), None, True, "none is committed"),
        (connected(tags="B"), 6, True, "the group subscribes to B"),
        (connected(tags=None), 6, True, "does not subscribe to the topic now"),
        (connected(consume_type="CONSUME_ACTIVELY"), 2, True, "pull consumers; "),
        (connected(model="BROADCASTING"), 9, True, "each client keeps its own progress"),
        (connected(), None, False, "broker broker-a is not in the route of T"),
    ],
)
def test_each_verdict_is_explained(
    group: ConsumerConnections, offset: int | None, known: bool, detail: str
) -> None:
    message = message_row(queue_offset=5, tags="A")
    assert detail in track.verdict_of(group, message, offset, known=known)[1]


@pytest.mark.parametrize(
    ("offset", "verdict"), [(4, "NOT_CONSUME_YET"), (5, "NOT_CONSUME_YET"), (6, "CONSUMED")]
)
def test_a_message_is_consumed_when_the_offset_is_past_it(offset: int, verdict: str) -> None:
    message = message_row(queue_offset=5, tags="A")
    assert track.verdict_of(connected(), message, offset, known=True)[0] == verdict


def test_a_message_of_the_retry_topic_needs_no_subscription() -> None:
    message = message_row(topic="%RETRY%g", queue_offset=5)
    verdict = track.verdict_of(connected(tags=None), message, 6, known=True)
    assert verdict == ("CONSUMED", "the committed offset is 6")


def subscribe(broker: Any, *groups: str) -> None:
    broker.on_300 = lambda header, command: GroupList(group_list=list(groups))


def test_every_group_of_the_topic_has_a_record_in_order_of_name(
    broker_a: Any, broker_b: Any, admin: MQAdmin
) -> None:
    broker_a.store("T")
    broker_b.store("T")
    subscribe(broker_a, "z", "a")
    subscribe(broker_b, "m", "a")
    broker_a.connect("a", "c1", "T")
    broker_a.offsets["T@a"] = {0: 1}
    found = track.MessageTracker(admin).track(message_row(queue_offset=0))
    assert [(row.group, row.track_type, row.clients) for row in found.items] == [
        ("a", "CONSUMED", 1),
        ("m", "NOT_ONLINE", 0),
        ("z", "NOT_ONLINE", 0),
    ]


def test_the_topic_is_not_a_group_though_java_lists_it(broker_a: Any, admin: MQAdmin) -> None:
    broker_a.store("T")
    broker_a.expire("T", 0, 1)
    subscribe(broker_a, "T", "g")
    found = track.MessageTracker(admin).track(message_row(queue_offset=0))
    assert [row.group for row in found.items] == ["g"]
    (row,) = track.MessageTracker(admin).track(message_row(queue_offset=0), group="T").items
    assert row.group == "T", "a group that was asked for is always listed"


def test_a_broker_that_cannot_list_its_groups_is_an_error_next_to_the_others(
    broker_a: Any, broker_b: Any, admin: MQAdmin
) -> None:
    broker_a.store("T")
    broker_b.store("T")
    subscribe(broker_a, "g")
    broker_b.refuse(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, ResponseCode.SYSTEM_ERROR)
    found = track.MessageTracker(admin).track(message_row(queue_offset=0))
    assert [row.group for row in found.items] == ["g"]
    assert [(error.target, error.kind) for error in found.errors] == [("broker-b", "refused")]


def test_an_offset_that_cannot_be_queried_is_an_error_of_the_group(
    broker_a: Any, admin: MQAdmin
) -> None:
    broker_a.store("T")
    broker_a.connect("g", "c", "T")
    broker_a.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR)
    found = track.MessageTracker(admin).track(message_row(queue_offset=0), group="g")
    assert [row.track_type for row in found.items] == ["NOT_CONSUME_YET"]
    assert [(error.target, error.address) for error in found.errors] == [("g", broker_a.address)]


def test_a_message_of_a_broker_outside_the_route_is_unknown(broker_a: Any, admin: MQAdmin) -> None:
    broker_a.store("T")
    broker_a.connect("g", "c", "T")
    message = message_row(queue_offset=0, broker_name="gone")
    (row,) = track.MessageTracker(admin).track(message, group="g").items
    assert (row.track_type, row.consumer_offset, row.broker_name) == ("UNKNOWN", None, "gone")
