"""Configurations and metrics of the masters of a cluster."""

from typing import Any

from broker.common.group import SubscriptionGroupConfig
from broker.remoting.protocol.body.namesrv.route import TopicList
from mqadmin.admin.exports.report import cluster_configs, cluster_metrics
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker, FakeCluster

CLUSTER = "DefaultCluster"


def known(broker: FakeBroker) -> None:
    broker.on_305 = lambda header, command: TopicList(topic_list=[])  # type: ignore[attr-defined]


def test_configs_count_masters_and_slaves_and_keep_the_chosen_settings(
    cluster: FakeCluster, admin: MQAdmin, broker_a: FakeBroker
) -> None:
    cluster.add("broker-a", broker_id=1)
    broker_a.config |= {"brokerName": "broker-a", "brokerRole": "SYNC_MASTER", "secret": "x"}
    found = cluster_configs(admin, CLUSTER)
    report: Any = found.report
    assert report["clusterScale"] == {
        "namesrvSize": 1,
        "masterBrokerSize": 2,
        "slaveBrokerSize": 1,
    }
    assert report["brokerConfigs"]["broker-a"] == {
        "brokerName": "broker-a",
        "brokerRole": "SYNC_MASTER",
    }
    assert (found.brokers, found.errors) == (2, [])


def test_figures_that_a_broker_does_not_publish_are_none_and_totals_are_sums(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    known(broker_a)
    known(broker_b)
    broker_a.runtime |= {
        "getTransferedTps": "7.0 1 1",
        "msgPutTotalTodayMorning": "30",
        "msgPutTotalYesterdayMorning": "10",
    }
    broker_b.runtime |= {"putTps": "2.5 0 0", "getTransferredTps": "1.0 0 0"}
    report: Any = cluster_metrics(admin, CLUSTER).report
    quotas = {name: one["runtimeQuota"] for name, one in report["evaluateReport"].items()}
    assert quotas["broker-a"]["oneDayNum"]["normalOneDayInNum"] == 20
    assert quotas["broker-b"]["oneDayNum"]["normalOneDayInNum"] is None
    assert quotas["broker-a"]["tps"]["normalOutTps"] == 7.0
    assert report["totalData"]["totalTps"]["totalNormalInTps"] == 4.0
    assert report["totalData"]["totalTps"]["totalNormalOutTps"] == 8.0
    assert report["totalData"]["totalOneDayNum"]["normalOneDayInNum"] == 20


def test_versions_of_connected_consumers_are_listed_once(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    known(broker_a)
    known(broker_b)
    broker_a.connect("g", "client@1", "orders")
    broker_a.connect("g", "client@2", "orders")
    broker_a.groups["idle"] = SubscriptionGroupConfig(group_name="idle")
    report: Any = cluster_metrics(admin, CLUSTER).report
    brokers = report["evaluateReport"]
    assert brokers["broker-a"]["runtimeVersion"]["clientInfo"] == ["JAVA%V5_3_3"]
    assert brokers["broker-a"]["runtimeQuota"]["groupSize"] == 2
    assert brokers["broker-b"]["runtimeVersion"]["clientInfo"] == []


def test_a_broker_that_fails_is_missing_and_an_error(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    known(broker_a)
    broker_b.down = True
    for read in (cluster_configs, cluster_metrics):
        found = read(admin, CLUSTER)
        assert found.brokers == 1
        assert {error.target for error in found.errors} == {"broker-b"}
