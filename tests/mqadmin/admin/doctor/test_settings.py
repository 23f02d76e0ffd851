"""Settings that differ between the masters of a cluster, and permissions."""

import pytest

from mqadmin.admin.broker import BrokerConfigRecord
from mqadmin.admin.doctor.settings import permission_findings, setting_findings


def record(name: str, broker_id: int = 0, cluster: str = "C", **config: str) -> BrokerConfigRecord:
    return BrokerConfigRecord(
        cluster_name=cluster,
        broker_name=name,
        broker_id=broker_id,
        address=f"{name}:1",
        version=None,
        config=config,
    )


def test_a_setting_of_durability_that_differs_is_a_warning_that_names_the_odd_broker() -> None:
    (finding,) = setting_findings(
        [
            record("a", flushDiskType="SYNC_FLUSH"),
            record("b", flushDiskType="ASYNC_FLUSH"),
            record("c", flushDiskType="SYNC_FLUSH"),
        ]
    )
    assert (finding.severity, finding.target) == ("warning", "C flushDiskType")
    assert finding.fix == (
        "mqadmin broker config set b flushDiskType=SYNC_FLUSH (and in broker.conf)"
    )


def test_another_setting_that_differs_is_a_notice() -> None:
    (finding,) = setting_findings(
        [record("a", osPageCacheBusyTimeOutMills="1"), record("b", osPageCacheBusyTimeOutMills="2")]
    )
    assert finding.severity == "notice"


@pytest.mark.parametrize(
    "key",
    ["brokerName", "brokerIP1", "listenPort", "storePathRootDir", "haMasterAddress", "brokerId"],
)
def test_settings_that_identify_a_broker_are_not_compared(key: str) -> None:
    assert setting_findings([record("a", **{key: "1"}), record("b", **{key: "2"})]) == []


def test_slaves_other_clusters_and_settings_of_one_version_are_not_compared() -> None:
    assert (
        setting_findings(
            [
                record("a", deleteWhen="04", onlyNew="1"),
                record("a", 1, deleteWhen="05"),
                record("b", cluster="D", deleteWhen="06"),
                record("c", deleteWhen="04"),
            ]
        )
        == []
    )


def test_a_broker_without_write_permission_is_a_warning() -> None:
    (finding,) = permission_findings([record("a", brokerPermission="4"), record("b")])
    assert (finding.target, "refuses writes" in finding.message) == ("a", True)
