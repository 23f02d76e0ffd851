"""``mqadmin broker promote`` and ``demote`` on the command line."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.replica_set import ReplicaSet, until

Run = Callable[..., Any]
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSet]:
    with ReplicaSet(tmp_path_factory.mktemp("pair")) as brokers:
        yield brokers


def test_a_dry_run_prints_names_addresses_and_offsets_and_changes_nothing(
    mqadmin: Run, pair: ReplicaSet
) -> None:
    assert pair.send(0).code == 0
    until(pair.level, "the slave follows")
    before = [pair.role(0), pair.role(1)]
    result = mqadmin("broker", "promote", "broker-a", "-n", pair.namesrv.address, "--dry-run")
    assert result.status == 0, result.err
    for broker in pair.brokers:
        assert broker.address in result.out
        assert broker.address in result.err
    end = before[0].max_offset if before[0] is not None else -1
    assert f"until the log is level: {end}, 0 bytes to copy" in result.out
    assert "cluster DefaultCluster" in result.err
    assert result.out.rstrip().endswith("dry run: nothing was changed")
    assert [pair.role(0), pair.role(1)] == before


def test_without_a_terminal_a_switch_needs_yes(mqadmin: Run, pair: ReplicaSet) -> None:
    result = mqadmin("broker", "promote", "broker-a", "-n", pair.namesrv.address)
    assert result.status == 2
    assert "needs --yes" in result.err
    assert pair.masters() == [0]


def test_promote_and_demote_switch_there_and_back(mqadmin: Run, pair: ReplicaSet) -> None:
    words = ("-n", pair.namesrv.address, "--yes", "-o", "json")
    result = mqadmin("broker", "promote", pair.brokers[1].address, *words)
    assert result.status == 0, result.err
    steps = json.loads(result.out)["items"]
    assert {step["status"] for step in steps} == {"done"}
    schema = mqadmin("broker", "promote", "-o", "schema").out
    assert all(f'"{name}"' in schema for step in steps for name in step)
    assert "writes were refused for" in result.err
    until(pair.level, "the old master follows")
    again = mqadmin("broker", "promote", pair.brokers[1].address, *words)
    assert again.status == 0
    assert "nothing to do" in again.err
    back = mqadmin("broker", "demote", pair.brokers[1].address, *words)
    assert back.status == 0, back.err
    until(pair.level, "roles as before")
    assert pair.masters() == [0]


def test_an_unknown_broker_is_refused_with_the_next_step(mqadmin: Run, pair: ReplicaSet) -> None:
    result = mqadmin("broker", "promote", "nosuch", "-n", pair.namesrv.address, "--yes")
    assert result.status != 0
    assert "no broker is named nosuch" in result.err
    assert "mqadmin cluster list" in result.err


def test_store_diff_and_check_replication_read_running_brokers(
    mqadmin: Run, pair: ReplicaSet
) -> None:
    addresses = [broker.address for broker in pair.brokers]
    until(pair.level, "the slave follows")
    same = mqadmin("store", "diff", *addresses, "-n", pair.namesrv.address, "-o", "json")
    assert same.status == 0, same.err
    assert json.loads(same.out)["verdict"] == "equal"
    words = ("check", "replication", "-n", pair.namesrv.address)
    fine = mqadmin(*words)
    assert fine.status == 0, fine.out
    assert fine.out.startswith("REPLICATION OK - broker-a: 1 of 1 connected slaves in sync")
    assert "'broker-a_gap'=0B;67108864;268435456;0" in fine.out
    samples = mqadmin(*words, "-o", "prometheus")
    assert 'mqadmin_check_replication_status{name="broker-a"} 0' in samples.out
    few = mqadmin(*words, "--in-sync", "2")
    assert few.status == 2
    assert few.out.startswith("REPLICATION CRITICAL - ")
    bad = mqadmin(*words, "--warn", "much")
    assert "is not a size or a duration" in bad.err
    silent = mqadmin("check", "replication", "-n", "127.0.0.1:1")
    assert silent.status == 3
    assert silent.out.startswith("REPLICATION UNKNOWN - ")
