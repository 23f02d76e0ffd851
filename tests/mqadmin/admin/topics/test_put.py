import pytest

from broker.errors import ClientError
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.topics.put import TopicFields, plan_put
from tests.support.fake_brokers import FakeBroker


def test_put_creates_where_the_topic_is_missing_and_patches_where_it_exists(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    assert admin.apply(admin.topic.plan_create("T", queues=4, broker="broker-a")).ok
    plan = plan_put(admin, "T", TopicFields(perm=4), cluster="DefaultCluster")
    changes = {change.target: change for change in plan.changes}
    assert changes["broker-a"].action == "update"
    assert (changes["broker-a"].after or {})["readQueueNums"] == 4
    assert changes["broker-b"].action == "create"
    assert (changes["broker-b"].after or {})["readQueueNums"] == 8
    assert {(change.after or {})["perm"] for change in plan.changes} == {4}


def test_put_of_the_present_state_changes_nothing(admin: MQAdmin) -> None:
    assert admin.apply(admin.topic.plan_create("T", queues=8)).ok
    assert plan_put(admin, "T", TopicFields(), cluster="DefaultCluster").empty


def test_put_checks_name_and_fields(admin: MQAdmin) -> None:
    with pytest.raises(ClientError):
        plan_put(admin, "bad.name!", TopicFields(), broker="broker-a")
    with pytest.raises(ClientError, match="at least one queue"):
        plan_put(admin, "T", TopicFields(read_queue_nums=0), broker="broker-a")
