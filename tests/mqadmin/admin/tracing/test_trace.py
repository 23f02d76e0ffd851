"""The trace of a message, found by its id or key in the trace topic."""

from typing import Any

import pytest

from broker.errors import ClientError
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.tracing.trace import message_trace

F, R = "\1", "\2"
ID = "7F00000100002A9F0000000000000001"


def record(*fields: object) -> str:
    return F.join(map(str, fields)) + R


@pytest.fixture
def traced(cluster: Any, broker_a: Any) -> None:
    """One message, sent and consumed after a retry; another one in the same trace message."""
    pub = record(
        *("Pub", 1000, "R", "PG", "T", ID, "A", "k1", "h:1", 5, 7, 0, "OFF", "true", "c:1")
    )
    other = record("Pub", 900, "R", "PG", "T", "OTHER", "", "", "h:1", 5, 7, 0, "O2", "true")
    before = record("SubBefore", 1010, "R", "CG", "req", ID, 1, "k1", "c:2")
    after = record("SubAfter", "req", ID, 12, "true", "k1", 0)
    broker_a.store("trace", body=(other + pub).encode(), keys=f"{ID} OTHER k1")
    broker_a.store("trace", body=after.encode(), keys=f"{ID} k1")
    broker_a.store("trace", body=before.encode(), keys=f"{ID} k1")


@pytest.mark.parametrize("text", [ID, "k1"])
def test_the_steps_of_a_message_come_in_order(traced: None, admin: MQAdmin, text: str) -> None:
    rows = message_trace(admin, text, topic="trace").items
    assert [row.trace_type for row in rows] == ["Pub", "SubBefore", "SubAfter"]
    assert {row.msg_id for row in rows} == {ID}
    assert [row.status for row in rows] == ["success", None, "success"]


def test_a_message_without_a_trace_has_no_steps(traced: None, admin: MQAdmin) -> None:
    assert message_trace(admin, "none", topic="trace").items == []


def test_a_trace_topic_without_a_route_is_an_error(cluster: Any, admin: MQAdmin) -> None:
    with pytest.raises(ClientError, match="nosuch has no route"):
        message_trace(admin, ID, topic="nosuch")
