"""Request modes over several brokers: partial answers, plans per broker, moved states."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.errors import ClientError
from broker.remoting.protocol.body.consumer.lock import (
    MessageQueueAssignment,
    MessageRequestModeSerializeWrapper,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import Answer, FakeBroker, FakeCluster

Modes = dict[str, dict[str, SetMessageRequestModeRequestBody]]


class ModeTable:
    """The modes of one broker, and the assignments it answers with."""

    def __init__(self, broker: FakeBroker) -> None:
        self.modes: Modes = {}
        self.assigned: dict[str, list[MessageQueueAssignment] | None] = {}
        self.asked: list[QueryAssignmentRequestBody] = []
        broker.store("T")
        for code, handler in (
            (RequestCode.SET_MESSAGE_REQUEST_MODE, self.put),
            (RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, self.all),
            (RequestCode.QUERY_ASSIGNMENT, self.assign),
        ):
            setattr(broker, f"on_{code}", handler)

    def put(self, header, command) -> None:
        sent = SetMessageRequestModeRequestBody.from_bytes(command.body_bytes())
        self.modes.setdefault(sent.topic, {})[sent.consumer_group] = sent

    def all(self, header, command) -> MessageRequestModeSerializeWrapper:
        return MessageRequestModeSerializeWrapper(message_request_mode_map=self.modes)

    def assign(self, header, command) -> QueryAssignmentResponseBody:
        asked = QueryAssignmentRequestBody.from_bytes(command.body_bytes())
        self.asked.append(asked)
        if asked.client_id not in self.assigned:
            raise Answer(ResponseCode.SYSTEM_ERROR, "no such client")
        found = self.assigned[asked.client_id]
        return QueryAssignmentResponseBody(message_queue_assignments=found)

    def has(self, topic: str, group: str) -> tuple[str, int] | None:
        found = self.modes.get(topic, {}).get(group)
        return None if found is None else (found.mode, found.pop_share_queue_num)


@pytest.fixture
def a(broker_a: FakeBroker) -> ModeTable:
    return ModeTable(broker_a)


@pytest.fixture
def b(broker_b: FakeBroker) -> ModeTable:
    return ModeTable(broker_b)


def put(table: ModeTable, topic: str, group: str, mode: str = "POP", share: int = 0) -> None:
    table.modes.setdefault(topic, {})[group] = SetMessageRequestModeRequestBody(
        topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share
    )


def test_modes_are_listed_by_broker_then_topic(admin: MQAdmin, a: ModeTable, b: ModeTable) -> None:
    put(b, "A", "g")
    put(a, "T", "g", share=3)
    put(a, "A", "g", "PULL")
    put(a, "A", "other")
    rows = admin.mode.modes("g").items
    assert [(row.broker_name, row.topic, row.mode, row.pop_share_queue_num) for row in rows] == [
        ("broker-a", "A", "PULL", 0),
        ("broker-a", "T", "POP", 3),
        ("broker-b", "A", "POP", 0),
    ]


def test_modes_of_one_topic_on_one_broker(admin: MQAdmin, a: ModeTable, b: ModeTable) -> None:
    for table in (a, b):
        put(table, "T", "g")
        put(table, "U", "g")
    (row,) = admin.mode.modes("g", topic="U", broker="broker-b").items
    assert (row.broker_name, row.topic, row.group) == ("broker-b", "U", "g")


def test_a_broker_that_fails_is_an_error_next_to_the_modes_of_the_others(
    admin: MQAdmin, a: ModeTable, b: ModeTable, broker_b: FakeBroker
) -> None:
    put(a, "T", "g")
    broker_b.refuse(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, ResponseCode.SYSTEM_ERROR)
    listing = admin.mode.modes("g")
    assert [row.broker_name for row in listing.items] == ["broker-a"]
    assert [(error.target, error.kind) for error in listing.errors] == [("broker-b", "refused")]


def test_a_slave_is_not_queried_for_modes(cluster: FakeCluster, a: ModeTable, b: ModeTable) -> None:
    slave = cluster.add("broker-a", broker_id=1)
    admin = cluster.admin()
    admin.mode.modes("g")
    assert slave.address not in cluster.asked(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)


def test_a_broker_of_4_9_is_reported_with_the_command_that_shows_versions(
    admin: MQAdmin, a: ModeTable, broker_b: FakeBroker
) -> None:
    (error,) = admin.mode.modes("g").errors
    assert error.target == "broker-b"
    assert error.response_code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert error.hint == "mqadmin cluster list shows the version of each broker"


def test_a_plan_changes_only_brokers_with_another_mode(
    admin: MQAdmin, a: ModeTable, b: ModeTable
) -> None:
    put(a, "T", "g", "POP", 2)
    put(b, "T", "g", "POP", 1)
    plan = admin.mode.plan("g", "T", "POP", share=2)
    assert (plan.kind, plan.subject) == ("consumer.mode", "T@g")
    assert [(change.target, change.unchanged) for change in plan.changes] == [
        ("broker-a", True),
        ("broker-b", False),
    ]
    assert plan.changes[1].before == {"mode": "POP", "popShareQueueNum": 1}
    outcome = admin.mode.apply(plan)
    assert [item.status for item in outcome.items] == ["unchanged", "done"]
    assert b.has("T", "g") == ("POP", 2)


def test_a_plan_covers_the_brokers_of_the_topic_only(
    admin: MQAdmin, a: ModeTable, b: ModeTable, broker_b: FakeBroker
) -> None:
    del broker_b.topics["T"]
    plan = admin.mode.plan("g", "T", "POP")
    assert [change.target for change in plan.changes] == ["broker-a"]


def test_a_named_broker_is_planned_though_it_does_not_have_the_topic(
    admin: MQAdmin, a: ModeTable, b: ModeTable, broker_b: FakeBroker
) -> None:
    del broker_b.topics["T"]
    plan = admin.mode.plan("g", "T", "POP", broker="broker-b")
    assert [change.target for change in plan.changes] == ["broker-b"]


def test_a_named_cluster_is_planned_as_a_whole(admin: MQAdmin, a: ModeTable, b: ModeTable) -> None:
    plan = admin.mode.plan("g", "T", "PULL", cluster="DefaultCluster")
    assert [change.target for change in plan.changes] == ["broker-a", "broker-b"]
    with pytest.raises(ClientError, match="no cluster is named Other"):
        admin.mode.plan("g", "T", "PULL", cluster="Other")


def test_an_unknown_topic_has_no_plan(admin: MQAdmin, a: ModeTable) -> None:
    with pytest.raises(ClientError) as caught:
        admin.mode.plan("g", "None", "POP")
    assert "None" in caught.value.message


def test_the_hint_for_a_retry_topic_names_the_mode_that_applies(admin: MQAdmin) -> None:
    with pytest.raises(ClientError) as caught:
        admin.mode.plan("g", "%RETRY%g", "POP")
    assert caught.value.hint == "its messages are received in the mode of the topic"


def test_a_broker_that_cannot_be_read_is_not_part_of_the_plan(
    admin: MQAdmin, a: ModeTable, b: ModeTable, broker_b: FakeBroker
) -> None:
    broker_b.down = True
    plan = admin.mode.plan("g", "T", "POP")
    assert [change.target for change in plan.changes] == ["broker-a"]
    assert [(error.target, error.kind) for error in plan.errors] == [("broker-b", "unreachable")]
    outcome = admin.mode.apply(plan)
    assert not outcome.ok
    assert [item.status for item in outcome.items] == ["done"]


def test_a_mode_that_moved_since_the_plan_is_left_unchanged(
    admin: MQAdmin, a: ModeTable, b: ModeTable
) -> None:
    plan = admin.mode.plan("g", "T", "POP", share=1)
    put(a, "T", "g", "POP", 9)
    outcome = admin.mode.apply(plan)
    assert [item.status for item in outcome.items] == ["moved", "done"]
    assert a.has("T", "g") == ("POP", 9)


def test_a_broker_that_fails_before_the_plan_is_applied_is_reported(
    admin: MQAdmin, a: ModeTable, b: ModeTable, broker_a: FakeBroker
) -> None:
    plan = admin.mode.plan("g", "T", "POP")
    broker_a.silent = True
    outcome = admin.mode.apply(plan)
    assert [(item.target, item.status) for item in outcome.items] == [
        ("broker-a", "failed"),
        ("broker-b", "done"),
    ]
    assert outcome.items[0].error.kind == "timeout"


def test_a_group_with_an_at_sign_in_its_topic_is_read_back(
    admin: MQAdmin, a: ModeTable, broker_a: FakeBroker
) -> None:
    """The subject is split at the last @: groups have none, topics of other systems may."""
    broker_a.store("T@x")
    plan = admin.mode.plan("g", "T@x", "POP")
    assert admin.mode.apply(plan).ok
    assert a.has("T@x", "g") == ("POP", 0)


def assignment(topic: str, broker: str, queue_id: int, mode: str) -> MessageQueueAssignment:
    return MessageQueueAssignment(message_queue=MessageQueue(topic, broker, queue_id), mode=mode)


def test_assignments_are_listed_per_client(
    admin: MQAdmin, a: ModeTable, broker_a: FakeBroker
) -> None:
    for client in ("c1", "c2"):
        broker_a.connect("g", client, "T")
    a.assigned = {
        "c1": [assignment("T", "broker-a", -1, "POP")],
        "c2": [assignment("T", "broker-a", 0, "PULL"), assignment("T", "broker-a", 1, "PULL")],
    }
    rows = admin.mode.assignments("g", "T").items
    assert [(row.client_id, row.queue_id, row.mode) for row in rows] == [
        ("c1", -1, "POP"),
        ("c2", 0, "PULL"),
        ("c2", 1, "PULL"),
    ]
    assert {one.strategy_name for one in a.asked} == {"AVG"}
    assert {one.message_model for one in a.asked} == {"CLUSTERING"}


def test_a_client_without_a_queue_has_no_row_and_an_unassigned_one_an_empty_row(
    admin: MQAdmin, a: ModeTable, broker_a: FakeBroker
) -> None:
    for client in ("idle", "own"):
        broker_a.connect("g", client, "T")
    a.assigned = {"idle": [], "own": None}
    (row,) = admin.mode.assignments("g", "T").items
    assert (row.client_id, row.broker_name, row.queue_id, row.mode) == ("own", None, None, None)


def test_an_assignment_without_a_queue_has_the_topic_of_the_question(
    admin: MQAdmin, a: ModeTable, broker_a: FakeBroker
) -> None:
    broker_a.connect("g", "c", "T")
    a.assigned = {"c": [MessageQueueAssignment(message_queue=None, mode="POP")]}
    (row,) = admin.mode.assignments("g", "T").items
    assert (row.topic, row.broker_name, row.queue_id, row.mode) == ("T", None, None, "POP")


def test_a_refused_assignment_is_an_error_of_the_client(
    admin: MQAdmin, a: ModeTable, broker_a: FakeBroker
) -> None:
    for client in ("c1", "c2"):
        broker_a.connect("g", client, "T")
    a.assigned = {"c2": [assignment("T", "broker-a", 0, "PULL")]}
    listing = admin.mode.assignments("g", "T")
    assert [row.client_id for row in listing.items] == ["c2"]
    assert [(error.target, error.address) for error in listing.errors] == [("c1", broker_a.address)]
