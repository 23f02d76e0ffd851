import json
from collections.abc import Callable
from typing import Any

from mqadmin.admin.cluster import ClusterRecord
from mqadmin.admin.result import Listing, TargetError

Run = Callable[..., Any]

FULL = ClusterRecord(
    cluster_name="DefaultCluster",
    broker_name="broker-a",
    broker_id=0,
    address="10.0.0.1:10911",
    version="V5_3_3",
    in_tps=12.5,
    out_tps=0.0,
    page_cache_lock_time_mills=0,
    earliest_message_timestamp=1_700_000_000_000,
    commit_log_disk_ratio=0.4712,
    active=True,
)
SILENT = ClusterRecord(
    cluster_name="DefaultCluster", broker_name="broker-a", broker_id=1, address="10.0.0.2:10911"
)


def test_a_broker_without_a_response_has_dashes(mqadmin: Run, admin: Any, screen: Any) -> None:
    error = TargetError(kind="timeout", message="no answer from 10.0.0.2:10911")
    admin.answers["cluster.list"] = Listing(items=[FULL, SILENT], errors=[error])
    done = mqadmin("cluster", "list")
    assert done.status == 5
    assert done.err == "error: no answer from 10.0.0.2:10911\n"
    screen("cluster-list.txt", done.out)


def test_unknown_values_are_null(mqadmin: Run, admin: Any) -> None:
    admin.answers["cluster.list"] = Listing(items=[SILENT])
    (item,) = json.loads(mqadmin("cluster", "list", "-o", "json").out)["items"]
    assert item["brokerId"] == 1
    assert item["inTps"] is None
    assert item["earliestMessageTime"] is None


def test_the_name_server_alone_can_be_asked(mqadmin: Run, admin: Any) -> None:
    admin.answers["cluster.list"] = Listing(items=[SILENT])
    assert mqadmin("cluster", "list", "--cluster", "C", "--no-status").status == 0
    assert admin.calls == [("cluster.list", (), {"cluster": "C", "status": False})]


def test_no_broker_at_all_is_a_no(mqadmin: Run, admin: Any) -> None:
    admin.answers["cluster.list"] = Listing(items=[])
    done = mqadmin("cluster", "list", "--cluster", "nosuch")
    assert done.status == 1
    assert "cluster nosuch" in done.err
