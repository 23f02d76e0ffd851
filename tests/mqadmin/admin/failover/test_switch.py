"""Switches between broker processes: planned, unplanned, interrupted, twice at once."""

import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from broker.client.config import ClientConfig, ConsumerConfig
from broker.client.facade.lite_pull import LitePullConsumer
from broker.client.facade.producer import Producer
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.errors import RocketMQError
from mqadmin.admin.failover.plan import SwitchPlan
from mqadmin.admin.failover.switch import FailoverAdmin, SwitchResult
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.repair.divergence import cut, find_divergence
from tests.support.replica_set import ReplicaSet, Writer, bodies, until

pytestmark = pytest.mark.timeout(180)

INTERRUPTION_S = 5.0


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[ReplicaSet]:
    with ReplicaSet(tmp_path) as brokers:
        yield brokers


def complete(result: SwitchResult) -> SwitchResult:
    assert result.error is None, (result.error, result.steps)
    assert {step.status for step in result.steps} == {"done"}
    return result


def test_a_planned_switch_loses_nothing_and_interrupts_clients_for_less_than_5_s(
    pair: ReplicaSet,
) -> None:
    client = ClientConfig(namesrv=pair.namesrv.address, client_ip="127.0.0.1")
    seen: set[bytes] = set()
    stopping = threading.Event()
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)

    def consume() -> None:
        consumer = LitePullConsumer("readers", client, config)
        consumer.subscribe("Orders", "*")
        with consumer:
            while not stopping.is_set():
                seen.update(bytes(message.body) for message in consumer.poll(200))

    assert pair.send(0).code == 0
    reader = threading.Thread(target=consume, daemon=True)
    with Producer("writers", client) as producer, Writer(producer.send) as writer:
        reader.start()
        until(lambda: len(writer.acknowledged) > 100, "messages before the switch")
        until(lambda: len(seen) > 50, "messages consumed before the switch")
        result = complete(pair.promote(1))
        before = len(writer.acknowledged)
        until(lambda: len(writer.acknowledged) > before + 100, "messages after the switch")
        consumed = len(seen)
        until(lambda: len(seen) > consumed + 20, "messages consumed after the switch")
    until(lambda: set(writer.acknowledged) <= seen, "every acknowledged message at the consumer")
    stopping.set()
    reader.join(30)
    assert result.interrupted_ms is not None
    assert result.interrupted_ms < INTERRUPTION_S * 1000
    assert writer.longest_gap_s < INTERRUPTION_S
    until(pair.level, "the old master follows")
    assert pair.masters() == [1]
    for broker in pair.brokers:
        assert set(writer.acknowledged) <= set(bodies(broker))
    assert pair.registered() == {0: pair.brokers[1].address, 1: pair.brokers[0].address}


def test_roles_survive_a_restart_and_win_over_broker_conf(pair: ReplicaSet) -> None:
    complete(pair.promote(1))
    until(pair.level, "the old master follows")
    for broker in pair.brokers:
        broker.stop()
    for broker in pair.brokers:
        broker.start()
    until(pair.level, "both follow their new roles")
    assert pair.masters() == [1]
    assert "not brokerRole=SLAVE brokerId=1 as configured" in pair.brokers[1].log_text
    complete(pair.promote(0))
    until(pair.level, "back again")
    assert pair.masters() == [0]


def test_a_fenced_master_names_the_reason_to_producers(pair: ReplicaSet) -> None:
    plan = pair.plan()
    with pair.admin() as admin, FailoverAdmin(admin) as library:
        steps = Stepwise(library, stop_before="wait")
        assert steps.run(plan).error is not None
    answer = pair.send(0)
    assert answer.code == 14  # SERVICE_NOT_AVAILABLE: RocketMQ producers retry elsewhere
    assert pair.brokers[1].address in (answer.remark or "")
    complete(pair.promote(0))
    assert pair.send(0).code == 0


class StoppedError(RocketMQError):
    """The tool was interrupted."""


class Stepwise:
    """A switch whose tool dies before one step, without undoing anything."""

    def __init__(self, library: FailoverAdmin, stop_before: str) -> None:
        self._library = library
        change = library.client.change
        stopped = False

        def limited(address: str, action: str, properties=None, **fields):
            nonlocal stopped
            if stopped or action == stop_before:
                stopped = True  # the steps that would undo the switch are not taken either
                raise StoppedError(f"stopped before {action}")
            return change(address, action, properties, **fields)

        def stop(address: str) -> NoReturn:
            nonlocal stopped
            stopped = True
            raise StoppedError("stopped before wait")

        library.client.change = limited  # type: ignore[method-assign]
        if stop_before == "wait":  # its first step is a query of the master
            library.client.role_of = stop  # type: ignore[method-assign]

    def run(self, plan: SwitchPlan) -> SwitchResult:
        return self._library.run(plan)


@pytest.mark.parametrize(
    ("victim", "step"),
    [
        *(("tool", step) for step in ("fence", "wait", "synchronize", "promote", "demote")),
        *(("master", step) for step in ("wait", "promote", "demote")),
        *(("slave", step) for step in ("promote", "demote")),
    ],
)
def test_a_switch_that_dies_at_any_step_is_completed_by_running_it_again(
    pair: ReplicaSet, step: str, victim: str
) -> None:
    for number in range(50):
        assert pair.send(0, b"%d" % number).code == 0
    target = pair.brokers[1].address
    with pair.admin() as admin, FailoverAdmin(admin) as library:
        plan = library.plan_promote(target)
        assert Stepwise(library, step).run(plan).error is not None
    if victim != "tool":
        broker = pair.brokers[0 if victim == "master" else 1]
        broker.kill()
        broker.start()
        until(lambda: pair.role(0 if victim == "master" else 1), "the broker answers again")
    until(lambda: following(pair), "the slave follows, or is the master")
    complete(pair.promote(1))
    until(pair.level, "the old master follows")
    assert pair.masters() == [1]
    assert pair.send(1, b"after").code == 0
    expected = [b"%d" % number for number in range(50)] + [b"after"]
    until(lambda: bodies(pair.brokers[0]) == expected, "the log of the old master")
    assert bodies(pair.brokers[1]) == expected


def following(pair: ReplicaSet) -> bool:
    """Whether broker 1 is the master, or follows."""
    info = pair.role(1)
    return info is not None and (info.role != "SLAVE" or info.connected)


def test_without_a_master_the_most_advanced_slave_is_promoted_and_its_gap_is_counted(
    tmp_path: Path,
) -> None:
    with ReplicaSet(tmp_path, slaves=2) as brokers:
        for number in range(20):
            assert brokers.send(0, b"%d" % number).code == 0
        until(brokers.level, "both slaves have everything")
        brokers.brokers[1].kill()
        assert brokers.send(0, b"late").code == 0
        until(brokers.level, "the other slave has everything")
        brokers.brokers[0].kill()
        brokers.brokers[1].start()
        until(lambda: brokers.role(1), "the slave answers")
        until(lambda: 0 not in brokers.registered(), "the name server forgets the master")
        late = brokers.role(2)
        behind = brokers.role(1)
        assert late is not None
        assert behind is not None
        plan = brokers.plan()
        assert plan.kind == "unplanned"
        assert plan.target.address == brokers.brokers[2].address
        assert plan.missing_bytes == 0
        worse = brokers.plan(brokers.brokers[1].address)
        assert worse.missing_bytes == late.max_offset - behind.max_offset > 0
        assert any("is more advanced" in warning for warning in worse.warnings)
        complete(brokers.promote(2))
        until(brokers.level, "the other slave follows the new master")
        assert brokers.masters() == [2]
        assert brokers.send(2, b"after").code == 0


def test_an_old_master_that_returns_with_other_records_is_fenced_and_names_the_divergence(
    pair: ReplicaSet, tmp_path: Path
) -> None:
    assert pair.send(0, b"common").code == 0
    until(pair.level, "the slave is level")
    pair.brokers[1].kill()
    for number in range(5):
        assert pair.send(0, b"only the old master %d" % number).code == 0
    pair.brokers[0].kill()
    pair.brokers[1].start()
    info = until(lambda: pair.role(1), "the slave answers")
    common = info.max_offset
    complete(pair.promote(1))
    assert pair.send(1, b"new master").code == 0
    pair.brokers[0].start()
    until(lambda: (old := pair.role(0)) is not None and old.fenced_reason, "the fence")
    answer = pair.send(0, b"refused")
    assert answer.code == 14
    assert pair.registered()[0] == pair.brokers[1].address
    result = complete(pair.demote(0))
    old = pair.role(0)
    assert old is not None
    assert old.diverged_at >= common
    assert old.diverged_at - common < 200  # within the first record that differs
    assert any(f"--diverged-at {old.diverged_at}" in note for note in result.notes)
    assert b"only the old master 4" in bodies(pair.brokers[0])  # nothing was truncated
    pair.brokers[0].stop()
    store = StoreDirectory(str(pair.brokers[0].store))
    extra = tmp_path / "extra.ndjson"
    found = find_divergence(store, old.diverged_at)
    cut(store, found, output=None, backup=tmp_path / "backup", records_path=extra)
    rows = [json.loads(line) for line in extra.read_text().splitlines()]
    assert [b64decode(row["body"]) for row in rows if row["topic"] == "Orders"] == [
        b"only the old master %d" % number for number in range(5)
    ]
    pair.brokers[0].start()
    until(pair.level, "the old master follows")
    assert bodies(pair.brokers[0]) == bodies(pair.brokers[1]) == [b"common", b"new master"]


def test_of_two_promotions_at_once_one_broker_becomes_the_master(tmp_path: Path) -> None:
    with ReplicaSet(tmp_path, slaves=2) as brokers:
        assert brokers.send(0).code == 0
        until(brokers.level, "both slaves follow")
        results: list[object] = []
        start = threading.Barrier(2)

        def promote(number: int) -> None:
            start.wait()
            try:
                results.append(brokers.promote(number))
            except RocketMQError as error:
                results.append(error)

        threads = [threading.Thread(target=promote, args=(number,)) for number in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert len(results) == 2
        # Both may have blocked each other; then the master serves again, or a rerun decides.
        if not brokers.masters():
            result = brokers.rerun()
            assert result.error is None
        until(lambda: len(brokers.masters()) == 1, "exactly one master")
        (master,) = brokers.masters()
        assert brokers.send(master).code == 0
