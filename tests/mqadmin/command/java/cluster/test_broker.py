from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def test_broker_status_prints_each_key(java: Run, embedded: Any) -> None:
    rows = java("brokerStatus -b $B").out.splitlines()
    assert "brokerVersionDesc               : V5_3_3" in rows
    rows = java("brokerStatus -c DefaultCluster").out.splitlines()
    assert f"{embedded.address:<24} brokerVersionDesc               : V5_3_3" in rows


def test_get_broker_config_has_a_banner_per_broker(java: Run, embedded: Any) -> None:
    rows = java("getBrokerConfig -b $B").out.splitlines()
    assert rows[0] == f"============{embedded.address}============"
    assert f"{'brokerName':<50}=  broker-a" in rows
    rows = java("getBrokerConfig -c DefaultCluster").out.splitlines()
    assert rows[0] == f"============Master: {embedded.address}============"
    assert java("getBrokerConfig").status == 2


def test_update_broker_config_refuses_a_key_that_java_drops(java: Run, embedded: Any) -> None:
    done = java("updateBrokerConfig -b $B -k brokerPermission -v 6")
    assert (done.status, done.out) == (0, f"update broker config success, {embedded.address}\n")
    assert java("updateBrokerConfig -c DefaultCluster -k noSuchKey -v 1").status == 2
    assert java("updateBrokerConfig -b $B -k configBlackList -v x").status in (4, 6)


@pytest.mark.parametrize("name", ["cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"])
def test_cleaning_needs_a_target(java: Run, name: str) -> None:
    done = java(name)
    assert (done.status, done.out) == (2, "")
    assert "every cluster" in done.err
    assert java(f"{name} -b $B").out == "success\n"
    assert java(f"{name} -c NoSuch").status == 1


def test_reset_master_flush_offset_needs_both_options(java: Run) -> None:
    assert java("resetMasterFlushOffset -b $B").status == 2
    done = java("resetMasterFlushOffset -b $B -o 0")
    assert done.status == 4
    assert "RESET_MASTER_FLUSH_OFFSET" in done.err
