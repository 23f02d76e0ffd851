"""The fault table with a manual clock."""

from broker.client.config import FaultRule
from broker.client.latency.fault_tolerance import LatencyFaultTolerance
from broker.common.clock import ManualClock


def test_a_broker_is_available_again_exactly_after_its_pause() -> None:
    for rule in FaultRule:
        clock = ManualClock()
        faults = LatencyFaultTolerance(clock, rule)
        faults.update("a", latency_ms=600, pause_ms=2_000)
        clock.advance(1_999)
        assert not faults.is_available("a")
        clock.advance(1)
        assert faults.is_available("a")
        assert faults.is_available("never failed")


def test_a_fast_success_frees_a_broker_at_once_only_before_5_1_4() -> None:
    for rule, freed in ((FaultRule.V4, True), (FaultRule.V5, False)):
        faults = LatencyFaultTolerance(ManualClock(), rule)
        faults.update("a", latency_ms=600, pause_ms=2_000)
        faults.update("a", latency_ms=1, pause_ms=0)
        assert faults.is_available("a") is freed


def test_reachability_is_recorded_with_5_x_rules_only() -> None:
    for rule, reachable in ((FaultRule.V4, True), (FaultRule.V5, False)):
        faults = LatencyFaultTolerance(ManualClock(), rule)
        faults.update("a", latency_ms=1, pause_ms=0, reachable=True)
        faults.update("a", latency_ms=1, pause_ms=0, reachable=False)
        assert faults.is_reachable("a") is reachable
        faults.set_reachable("a", True)
        assert faults.is_reachable("a")
    assert faults.is_reachable("unknown")


def test_the_better_half_is_used_in_turn_when_all_brokers_are_faulty() -> None:
    faults = LatencyFaultTolerance(ManualClock(), FaultRule.V4)
    assert faults.pick_one_at_least() is None
    faults.update("only", latency_ms=9, pause_ms=9)
    assert faults.pick_one_at_least() == "only"
    for name, latency in (("b", 5), ("c", 1), ("d", 20)):
        faults.update(name, latency_ms=latency, pause_ms=latency)
    assert {faults.pick_one_at_least() for _ in range(20)} == {"c", "b"}


def test_with_5_x_rules_any_reachable_broker_is_picked() -> None:
    faults = LatencyFaultTolerance(ManualClock(), FaultRule.V5)
    for name in "abc":
        faults.update(name, latency_ms=1, pause_ms=1)
        faults.update(name, latency_ms=1, pause_ms=1, reachable=name != "b")
    assert {faults.pick_one_at_least() for _ in range(100)} == {"a", "c"}
    faults.remove("a")
    faults.remove("c")
    assert faults.pick_one_at_least() is None


def test_a_probe_is_due_once_per_interval() -> None:
    clock = ManualClock()
    faults = LatencyFaultTolerance(clock)
    faults.update("a", latency_ms=1, pause_ms=1)
    assert faults.due_for_probe(2_000) == []
    clock.advance(2_000)
    assert faults.due_for_probe(2_000) == ["a"]
    assert faults.due_for_probe(2_000) == []


def test_the_table_can_be_printed() -> None:
    clock = ManualClock()
    faults = LatencyFaultTolerance(clock)
    faults.update("broker-a", latency_ms=612.4, pause_ms=2_000)
    clock.advance(500)
    assert str(faults).splitlines() == [
        "broker latency_ms avoided_ms reachable",
        "broker-a 612 1500 yes",
    ]
