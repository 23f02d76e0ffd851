"""The findings about a cluster, one fault at a time."""

from collections.abc import Callable

import pytest

from broker.remoting.protocol.body.ha import HAConnectionRuntimeInfo, HARuntimeInfo
from broker.remoting.protocol.body.namesrv.route import TopicList
from mqadmin.admin.doctor.cluster import examine_cluster
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeCluster


def kinds(cluster: FakeCluster) -> list[tuple[str, str, str]]:
    with cluster.admin() as admin:
        found = examine_cluster(admin, now=lambda: cluster.clock.now_ms() / 1000)
    return [(one.severity, one.kind, one.target) for one in found]


def test_a_sound_cluster_has_no_findings(cluster: FakeCluster) -> None:
    assert kinds(cluster) == []


def skew(cluster: FakeCluster, seconds: int) -> None:
    boot = cluster.clock.now_ms() + seconds * 1000 - 60_000
    cluster.brokers[1].runtime |= {
        "bootTimestamp": str(boot),
        "runtime": "[ 0 days, 0 hours, 1 minutes, 0 seconds ]",
    }


def unflushed(cluster: FakeCluster, age_ms: int) -> None:
    size = cluster.brokers[1].store("orders").total_size
    cluster.brokers[1].runtime["remainHowManyDataToFlush"] = f"{size} B"
    cluster.clock.advance(age_ms)


def lacks_topics(cluster: FakeCluster) -> None:
    cluster.brokers[0].store("orders")
    second = cluster.add_namesrv("127.0.0.1:9877")
    second.on_206 = lambda *_: TopicList(topic_list=[])  # type: ignore[method-assign]


def slave_lags(cluster: FakeCluster) -> None:
    cluster.add("broker-b", broker_id=1).ha = HARuntimeInfo(master=False)
    link = HAConnectionRuntimeInfo(addr="s:1", in_sync=False, diff=1 << 30)
    cluster.brokers[1].ha = HARuntimeInfo(master=True, ha_connection_info=[link])
    cluster.brokers[2].config = dict(cluster.brokers[1].config)


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        (lambda c: setattr(c.brokers[1], "down", True), ("critical", "brokerUnreachable")),
        (
            lambda c: c.brokers[1].runtime.update(brokerVersionDesc="V4_9_8"),
            ("warning", "versionsDiffer"),
        ),
        (lambda c: c.brokers[1].config.update(maxMessageSize="1"), None),
        (lambda c: c.brokers[1].config.update(flushDiskType="X"), ("warning", "settingDiffers")),
        (lambda c: c.brokers[1].config.update(brokerPermission="4"), ("warning", "permission")),
        (lambda c: setattr(c.brokers[1], "broker_id", 1), ("critical", "noMaster")),
        (lambda c: skew(c, 5), ("warning", "clockSkew")),
        (lambda c: skew(c, -90), ("critical", "clockSkew")),
        (lambda c: skew(c, 0), None),
        (lambda c: c.brokers[1].runtime.update(commitLogDiskRatio="0.8"), ("warning", "disk")),
        (lambda c: c.brokers[1].runtime.update(commitLogDiskRatio="0.9"), ("critical", "disk")),
        (
            lambda c: c.brokers[1].runtime.update(pageCacheLockTimeMills="700"),
            ("warning", "pageCache"),
        ),
        (
            lambda c: c.brokers[1].runtime.update(sendThreadPoolQueueHeadWaitTimeMills="150"),
            ("warning", "sendQueue"),
        ),
        (
            lambda c: c.brokers[1].runtime.update(dispatchBehindBytes="99999999"),
            ("warning", "dispatchLag"),
        ),
        (lambda c: unflushed(c, 40_000), ("warning", "flush")),
        (lambda c: unflushed(c, 1_000), None),
        (
            lambda c: setattr(c.add_namesrv("127.0.0.1:9877"), "down", True),
            ("critical", "namesrvUnreachable"),
        ),
        (lacks_topics, ("warning", "namesrvDiffers")),
        (slave_lags, ("critical", "replication")),
    ],
)
def test_a_fault_is_one_finding(
    cluster: FakeCluster, fault: Callable[[FakeCluster], None], finding: tuple[str, str] | None
) -> None:
    fault(cluster)
    found = [one[:2] for one in kinds(cluster)]
    assert found == ([] if finding is None else [finding])


def test_brokers_without_a_second_copy_and_sync_flush_are_a_notice(cluster: FakeCluster) -> None:
    for broker in cluster.brokers:
        broker.config["flushDiskType"] = "ASYNC_FLUSH"
    assert kinds(cluster) == [
        ("notice", "singleCopy", "broker-a"),
        ("notice", "singleCopy", "broker-b"),
    ]


def test_a_cluster_without_brokers_is_critical(cluster: FakeCluster) -> None:
    for broker in cluster.brokers:
        broker.registered = False
    assert [one[1] for one in kinds(cluster)] == ["noBroker"]


def test_every_finding_has_cause_and_fix(cluster: FakeCluster, admin: MQAdmin) -> None:
    cluster.brokers[0].down = True
    cluster.brokers[1].runtime |= {"commitLogDiskRatio": "0.9", "dispatchBehindBytes": "99999999"}
    found = examine_cluster(admin)
    assert len(found) == 3
    assert all(one.cause and one.fix and one.message for one in found)
