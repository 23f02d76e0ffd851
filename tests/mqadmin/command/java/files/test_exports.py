import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def written(java: Run, line: str, folder: Path, name: str) -> dict[str, Any]:
    """Run an export; return the object of the file that it names."""
    done = java(f"{line} -f {folder}")
    assert (done.status, done.out) == (0, f"export {folder / name} success\n"), done.err
    found: dict[str, Any] = json.loads((folder / name).read_text())
    assert [path.name for path in folder.iterdir()] == [name]
    return found


def test_metadata_of_a_cluster_has_topics_and_groups_of_users(
    java: Run, topic: str, tmp_path: Path
) -> None:
    assert java("updateSubGroup -c DefaultCluster -g bill -q 2").status == 0
    assert java("updateTopic -b $B -t %RETRY%bill -r 1 -w 1").status == 0
    found = written(java, "exportMetadata -c DefaultCluster", tmp_path / "a", "metadata.json")
    assert list(found) == ["exportTime", "topicConfigTable", "subscriptionGroupTable"]
    assert found["topicConfigTable"][topic] == {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }
    assert found["subscriptionGroupTable"]["bill"]["retryQueueNums"] == 2
    assert not [name for name in found["topicConfigTable"] if name.startswith(("%", "TBW", "rmq"))]
    special = written(java, "exportMetadata -c DefaultCluster -s", tmp_path / "b", "metadata.json")
    assert "%RETRY%bill" in special["topicConfigTable"]


@pytest.mark.parametrize(
    ("option", "name", "table"),
    [
        ("-t", "topic.json", "topicConfigTable"),
        ("-g", "subscriptionGroup.json", "subscriptionGroupTable"),
    ],
)
def test_one_table_of_one_broker_has_its_data_version(
    java: Run, tmp_path: Path, option: str, name: str, table: str
) -> None:
    found = written(java, f"exportMetadata -b $B {option}", tmp_path / "a", name)
    assert list(found) == ["dataVersion", table]
    assert sorted(found["dataVersion"]) == ["counter", "stateVersion", "timestamp"]
    found = written(java, f"exportMetadata -c DefaultCluster {option}", tmp_path / "b", name)
    assert list(found) == ["exportTime", table]


def test_configs_have_the_scale_of_the_cluster_and_chosen_settings(
    java: Run, tmp_path: Path
) -> None:
    found = written(java, "exportConfigs -c DefaultCluster", tmp_path / "a", "configs.json")
    assert found["clusterScale"] == {
        "namesrvSize": 1,
        "masterBrokerSize": 1,
        "slaveBrokerSize": 0,
    }
    config = found["brokerConfigs"]["broker-a"]
    assert (config["brokerRole"], config["brokerId"]) == ("ASYNC_MASTER", "0")
    assert "storePathRootDir" not in config


def test_metrics_have_load_and_size_of_each_master_and_the_totals(
    java: Run, online: Any, tmp_path: Path
) -> None:
    found = written(java, "exportMetrics -c DefaultCluster", tmp_path / "a", "metrics.json")
    broker = found["evaluateReport"]["broker-a"]
    assert broker["runtimeVersion"]["rocketmqVersion"] == "V5_3_3"
    assert [one.partition("%")[0] for one in broker["runtimeVersion"]["clientInfo"]] == ["PYTHON"]
    quota = broker["runtimeQuota"]
    assert quota["groupSize"] > 0
    assert quota["topicSize"] > 0
    assert set(quota["tps"]) == {"normalInTps", "normalOutTps", "scheduleInTps", "transInTps"}
    assert 0 <= float(quota["diskRatio"]["commitLogDiskRatio"]) <= 1
    totals = found["totalData"]
    assert totals["totalTps"]["totalNormalInTps"] == quota["tps"]["normalInTps"]
    assert totals["totalOneDayNum"] == quota["oneDayNum"]


def test_an_unknown_cluster_and_a_folder_that_is_a_file_are_errors(
    java: Run, tmp_path: Path
) -> None:
    for name in ("exportConfigs", "exportMetrics", "exportMetadata"):
        done = java(f"{name} -c NoSuch -f {tmp_path}")
        assert done.status != 0
        assert "NoSuch" in done.err
    (tmp_path / "file").write_text("")
    done = java(f"exportConfigs -c DefaultCluster -f {tmp_path / 'file'}")
    assert done.status == 2
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize("line", ["-b $B", "-b $B -t -g", "", "-b $B -c DefaultCluster -t"])
def test_metadata_without_one_target_and_one_table_per_broker_is_refused(
    java: Run, tmp_path: Path, line: str
) -> None:
    assert java(f"exportMetadata {line} -f {tmp_path}").status == 2
    assert list(tmp_path.glob("*.json")) == []
