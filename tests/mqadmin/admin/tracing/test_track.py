"""Verdicts about a message and a group."""

from typing import Any

import pytest

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
