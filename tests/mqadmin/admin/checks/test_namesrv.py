"""Name servers: they answer in time and agree."""

from broker.remoting.protocol.body.namesrv.route import TopicList
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.checks.namesrv import check_namesrv
from tests.support.fake_brokers import FakeCluster


def test_name_servers_that_agree_are_ok(cluster: FakeCluster) -> None:
    cluster.add_namesrv("127.0.0.1:9877")
    rows = check_namesrv(cluster.admin(), 1, 3, clock=lambda: 0.0)
    assert [(row.name, row.status) for row in rows] == [
        ("127.0.0.1:9876", "OK"),
        ("127.0.0.1:9877", "OK"),
    ]


def test_a_name_server_that_does_not_answer_is_critical_and_the_other_ok(
    cluster: FakeCluster,
) -> None:
    cluster.add_namesrv("127.0.0.1:9877").down = True
    rows = check_namesrv(cluster.admin(), 1, 3, clock=lambda: 0.0)
    assert [row.status for row in rows] == ["OK", "CRITICAL"]
    cluster.namesrvs[0].refuse(RequestCode.GET_BROKER_CLUSTER_INFO, 1)
    rows = check_namesrv(cluster.admin(), 1, 3, clock=lambda: 0.0)
    assert [row.status for row in rows] == ["CRITICAL", "CRITICAL"]


def test_a_name_server_that_lacks_a_topic_of_the_other_is_a_warning(cluster: FakeCluster) -> None:
    cluster.brokers[0].store("orders")
    lacking = cluster.add_namesrv("127.0.0.1:9877")
    lacking.on_206 = lambda *_: TopicList(topic_list=[])  # type: ignore[method-assign]
    rows = check_namesrv(cluster.admin(), 1, 3, clock=lambda: 0.0)
    assert [row.status for row in rows] == ["OK", "WARNING"]
    assert "orders" in rows[1].message


def test_a_slow_name_server_and_one_without_brokers_are_reported(cluster: FakeCluster) -> None:
    ticks = iter([0.0, 2.0])
    (row,) = check_namesrv(cluster.admin(), 1, 3, clock=lambda: next(ticks))
    assert row.status == "WARNING"
    for broker in cluster.brokers:
        broker.registered = False
    (row,) = check_namesrv(cluster.admin(), 1, 3, clock=lambda: 0.0)
    assert (row.status, "no broker is registered" in row.message) == ("WARNING", True)
