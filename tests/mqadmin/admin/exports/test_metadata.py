"""Tables of brokers: topics and groups of users, queue numbers added up."""

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig
from broker.remoting.protocol.body.namesrv.route import TopicList
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.exports.metadata import broker_metadata, group_table, topic_table
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker


def fill(broker: FakeBroker, queues: int) -> None:
    for name in ("orders", "%RETRY%g", "%DLQ%g", "TBW102", "DefaultCluster"):
        broker.topics[name] = TopicConfig(
            topic_name=name, read_queue_nums=queues, write_queue_nums=queues
        )
    for name in ("g", "CID_ONSAPI_OWNER"):
        broker.groups[name] = SubscriptionGroupConfig(group_name=name, retry_queue_nums=queues)
    broker.on_305 = lambda header, command: TopicList(topic_list=["DefaultCluster"])  # type: ignore[attr-defined]


def test_topics_and_groups_of_rocketmq_itself_are_left_out(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    fill(broker_a, 4)
    (target, _) = admin.topology.readers()
    (plain,) = broker_metadata(admin, [target]).items
    assert (list(plain.topics), list(plain.groups)) == (["orders"], ["g"])
    (special,) = broker_metadata(admin, [target], special=True).items
    assert list(special.topics) == ["%DLQ%g", "%RETRY%g", "orders"]


def test_queue_numbers_of_brokers_are_added_up(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    fill(broker_a, 4)
    fill(broker_b, 3)
    tables = broker_metadata(admin, admin.topology.readers()).items
    topics, groups = topic_table(tables), group_table(tables)
    assert isinstance(topics["orders"], dict)
    assert isinstance(groups["g"], dict)
    assert (topics["orders"]["readQueueNums"], topics["orders"]["writeQueueNums"]) == (7, 7)
    assert groups["g"]["retryQueueNums"] == 7


def test_a_broker_that_refuses_one_table_is_an_error_and_not_exported(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    fill(broker_a, 4)
    fill(broker_b, 3)
    broker_b.refuse(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 1)
    listing = broker_metadata(admin, admin.topology.readers())
    assert [one.target.label for one in listing.items] == ["broker-a"]
    assert [error.target for error in listing.errors] == ["broker-b"]
