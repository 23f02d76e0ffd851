"""Static topics as plans: planned, refused, applied, resumed and read back."""

import msgspec
import pytest

from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.result import Plan
from tests.support.fake_brokers import FakeBroker, FakeCluster
from tests.support.static_topics import Served, static


@pytest.fixture
def served(cluster: FakeCluster, broker_a: FakeBroker) -> Served:
    """Topic T with two queues at broker-a, three messages in each."""
    made = Served(cluster, static("T", 2, ["broker-a"]))
    for number in range(6):
        broker_a.store("T", number % 2)
    return made


@pytest.fixture
def empty(cluster: FakeCluster) -> Served:
    """Brokers without static topics."""
    return Served(cluster, {})


def stored(plan: Plan) -> Plan:
    """A plan as it comes out of a plan file."""
    return msgspec.json.decode(msgspec.json.encode(plan), type=Plan)


def test_a_new_topic_is_spread_over_the_masters_of_the_only_cluster(
    admin: MQAdmin, empty: Served
) -> None:
    library = admin.static_topic
    plan = library.plan_create("T", 3)
    assert [(one.target, one.action, one.before, one.after) for one in plan.changes] == [
        ("broker-a", "create", None,
         {"totalQueues": 3, "queue0": "broker-a/0", "queue2": "broker-a/1"}),
        ("broker-b", "create", None, {"totalQueues": 3, "queue1": "broker-b/0"}),
    ]  # fmt: skip
    outcome = library.apply(stored(plan))
    assert [item.status for item in outcome.items] == ["done", "done"]
    rows = library.show("T").items
    assert [(row.queue_id, row.broker_name, row.broker_queue_id) for row in rows] == [
        (0, "broker-a", 0), (1, "broker-b", 0), (2, "broker-a", 1)
    ]  # fmt: skip


def test_an_existing_topic_is_not_created_again(admin: MQAdmin, served: Served) -> None:
    library = admin.static_topic
    with pytest.raises(ClientError, match="exists already on broker-a"):
        library.plan_create("T", 2)
    plan = library.plan_create("T", 9, if_not_exists=True)
    assert plan.empty
    assert plan.warnings == ["static topic T exists and is left unchanged: it has 2 queues, not 9"]
    assert library.plan_create("T", 2, if_not_exists=True).warnings == []
    assert [item.status for item in library.apply(plan).items] == ["unchanged"]
    assert served.writes == []


def test_an_update_adds_queues_and_the_same_number_changes_nothing(
    admin: MQAdmin, served: Served
) -> None:
    library = admin.static_topic
    assert library.plan_update("T", 2).empty
    plan = library.plan_update("T", 4, brokers=["broker-b"])
    assert library.apply(plan).ok
    assert [(row.queue_id, row.broker_name) for row in library.show("T").items] == [
        (0, "broker-a"), (1, "broker-a"), (2, "broker-b"), (3, "broker-b")
    ]  # fmt: skip
    with pytest.raises(ClientError, match="cannot lose queues"):
        library.plan_update("T", 3)
    with pytest.raises(ClientError, match="no broker has the static topic"):
        library.plan_update("Absent", 3)


def test_a_plan_whose_target_moved_changes_that_target_not(admin: MQAdmin, served: Served) -> None:
    library = admin.static_topic
    plan = library.plan_update("T", 4)
    assert library.apply(library.plan_update("T", 3)).ok
    written = list(served.writes)
    outcome = library.apply(plan)
    assert [item.status for item in outcome.items] == ["moved"]
    assert served.writes == written


def test_a_move_from_a_plan_file_decides_the_first_offsets(admin: MQAdmin, served: Served) -> None:
    library = admin.static_topic
    plan = stored(library.plan_remap("T", brokers=["broker-b"]))
    assert {one.target: one.after for one in plan.changes}["broker-b"] == {
        "totalQueues": 2, "queue0": "broker-a/0 broker-b/0", "queue1": "broker-a/1 broker-b/1"
    }  # fmt: skip
    outcome = library.apply(plan)
    assert outcome.ok, outcome
    assert served.writes == [("broker-b", -1), ("broker-a", -1), ("broker-b", 10_000)]
    rows = library.show("T").items
    assert [(row.queue_id, row.gen, row.logic_offset, row.sends) for row in rows] == [
        (0, 0, 0, False), (0, 1, 10_000, True), (1, 0, 0, False), (1, 1, 10_000, True)
    ]  # fmt: skip


def test_queues_that_are_where_they_belong_are_not_moved(admin: MQAdmin, served: Served) -> None:
    library = admin.static_topic
    plan = library.plan_remap("T", brokers=["broker-a"])
    assert plan.empty
    assert [item.status for item in library.apply(plan).items] == ["unchanged"]
    assert served.writes == []


def test_an_interrupted_move_is_resumed_by_its_plan_and_then_changes_nothing(
    cluster: FakeCluster, admin: MQAdmin, served: Served, broker_a: FakeBroker
) -> None:
    plan = admin.static_topic.plan_remap("T", brokers=["broker-b"])
    broker_a.refuse(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, 1)
    outcome = admin.static_topic.apply(plan)
    assert {item.target: item.status for item in outcome.items} == {
        "broker-a": "failed", "broker-b": "skipped"
    }  # fmt: skip
    assert "same command again" in outcome.warnings[0]
    broker_a.refusals.clear()
    for expected in (10_000, None):
        served.writes.clear()
        with cluster.admin() as session:
            assert session.static_topic.apply(plan).ok
        assert (served.writes[-1][1] if served.writes else None) == expected


def test_a_move_is_refused_as_a_whole_if_a_broker_changed(
    admin: MQAdmin, served: Served, cluster: FakeCluster
) -> None:
    plan = admin.static_topic.plan_remap("T", brokers=["broker-b"])
    assert admin.static_topic.apply(admin.static_topic.plan_update("T", 3)).ok
    served.writes.clear()
    outcome = admin.static_topic.apply(plan)
    assert {item.target: item.status for item in outcome.items} == {
        "broker-a": "moved", "broker-b": "skipped"
    }  # fmt: skip
    assert served.writes == []


def test_a_queue_that_moved_can_move_again(admin: MQAdmin, served: Served) -> None:
    library = admin.static_topic
    assert library.apply(library.plan_remap("T", brokers=["broker-b"])).ok
    plan = library.plan_remap("T", brokers=["broker-a"])
    assert [row.gen for row in library.show("T").items] == [0, 1, 0, 1]
    assert {one.target: one.after for one in plan.changes}["broker-a"] == {
        "totalQueues": 2,
        "queue0": "broker-a/0 broker-b/0 broker-a/2",
        "queue1": "broker-a/1 broker-b/1 broker-a/3",
    }
