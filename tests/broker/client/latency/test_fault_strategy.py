"""Pauses and queue selection by the rules of both releases (S196 to S201, U17)."""

import pytest

from broker.client.config import FaultRule
from broker.client.latency.fault_strategy import MQFaultStrategy, Outcome, outcome_of
from broker.client.publish.publish_info import TopicPublishInfo
from broker.common.clock import ManualClock
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, ClientError, ConnectError

V4, V5 = FaultRule.V4, FaultRule.V5


def info(*brokers: str, queues: int = 2) -> TopicPublishInfo:
    return TopicPublishInfo(
        "T", [MessageQueue("T", name, number) for name in brokers for number in range(queues)]
    )


def strategy(rule: FaultRule, **options: bool) -> MQFaultStrategy:
    return MQFaultStrategy(ManualClock(), enabled=True, rule=rule, **options)


@pytest.mark.parametrize(
    ("rule", "latencies"),
    [
        (
            V4,
            {
                49: 0,
                50: 0,
                99: 0,
                549: 0,
                550: 30_000,
                600: 30_000,
                1_100: 60_000,
                2_100: 120_000,
                3_100: 180_000,
                16_000: 600_000,
            },
        ),
        (
            V5,
            {
                49: 0,
                549: 0,
                550: 2_000,
                1_799: 2_000,
                1_800: 5_000,
                3_000: 6_000,
                5_000: 10_000,
                15_000: 30_000,
                99_000: 30_000,
            },
        ),
    ],
)
def test_pause_by_latency(rule: FaultRule, latencies: dict[int, int]) -> None:
    faults = strategy(rule)
    assert {latency: faults.pause_ms(latency) for latency in latencies} == latencies


@pytest.mark.parametrize(
    ("rule", "outcome", "pause_ms", "reachable"),
    [
        (V4, Outcome.SUCCESS, 0, True),
        (V4, Outcome.REMOTING_ERROR, 600_000, True),
        (V4, Outcome.BROKER_ERROR, 600_000, True),
        (V4, Outcome.CLIENT_ERROR, 600_000, True),
        (V4, Outcome.INTERRUPTED, 0, True),
        (V5, Outcome.SUCCESS, 0, True),
        (V5, Outcome.REMOTING_ERROR, 10_000, True),
        (V5, Outcome.BROKER_ERROR, 10_000, False),
        (V5, Outcome.CLIENT_ERROR, 0, True),
        (V5, Outcome.INTERRUPTED, 0, True),
    ],
)
def test_isolation_by_outcome(
    rule: FaultRule, outcome: Outcome, pause_ms: int, reachable: bool
) -> None:
    clock = ManualClock()
    faults = MQFaultStrategy(clock, enabled=True, rule=rule)
    faults.update("a", 1.0, Outcome.SUCCESS)
    faults.update("a", 1.0, outcome)
    if pause_ms:
        clock.advance(pause_ms - 1)
        assert not faults.faults.is_available("a")
        clock.advance(1)
    assert faults.faults.is_available("a")
    assert faults.faults.is_reachable("a") is reachable


def test_a_transport_failure_is_unreachable_only_with_the_detector() -> None:
    faults = strategy(V5, detector=True)
    faults.update("a", 1.0, Outcome.SUCCESS)
    faults.update("a", 1.0, Outcome.REMOTING_ERROR)
    assert not faults.faults.is_reachable("a")


@pytest.mark.parametrize("rule", FaultRule)
def test_a_marked_broker_gets_nothing_until_its_pause_is_over(rule: FaultRule) -> None:
    clock = ManualClock()
    faults = MQFaultStrategy(clock, enabled=True, rule=rule)
    topic = info("a", "b")
    faults.update("a", 5_000, Outcome.SUCCESS)
    pause_ms = faults.pause_ms(5_000)
    assert {faults.select(topic, None).broker_name for _ in range(20)} == {"b"}
    clock.advance(pause_ms)
    assert {faults.select(topic, None).broker_name for _ in range(20)} == {"a", "b"}


def test_a_retry_avoids_the_last_broker_with_5_x_rules_even_if_it_is_available() -> None:
    faults = strategy(V5)
    topic = info("a", "b")
    assert {faults.select(topic, "a", retry=True).broker_name for _ in range(20)} == {"b"}


def test_4_9_rules_do_not_exclude_the_last_broker_by_name() -> None:
    faults = strategy(V4)
    topic = info("a", "b")
    assert {faults.select(topic, "a").broker_name for _ in range(20)} == {"a", "b"}


def test_reachable_brokers_are_used_when_none_is_available() -> None:
    faults = strategy(V5)
    topic = info("a", "b", "c")
    for name in "abc":
        faults.update(name, 1.0, Outcome.SUCCESS)
        faults.update(name, 1.0, Outcome.REMOTING_ERROR)
    faults.update("b", 1.0, Outcome.BROKER_ERROR)
    assert {faults.select(topic, None).broker_name for _ in range(30)} == {"a", "c"}


def test_sends_continue_when_all_brokers_are_marked() -> None:
    faults = strategy(V4)
    topic = info("a", "b")
    faults.update("a", 16_000, Outcome.SUCCESS)
    faults.update("b", 600, Outcome.SUCCESS)
    chosen = [faults.select(topic, None) for _ in range(10)]
    assert {queue.broker_name for queue in chosen} == {"b"}
    assert {queue.queue_id for queue in chosen} == {0, 1}


def test_a_faulty_broker_that_left_the_route_is_forgotten() -> None:
    faults = strategy(V4)
    for name in ("gone", "a"):
        faults.update(name, 16_000 if name == "a" else 600, Outcome.SUCCESS)
    topic = info("a")
    assert {faults.select(topic, None).broker_name for _ in range(3)} == {"a"}
    assert [item.name for item in faults.faults.items()] == ["a"]


def test_disabled_it_keeps_no_table_and_only_skips_the_failed_broker() -> None:
    faults = MQFaultStrategy(ManualClock())
    topic = info("a", "b")
    faults.update("a", 99_000, Outcome.REMOTING_ERROR)
    assert faults.faults.items() == []
    assert {faults.select(topic, None).broker_name for _ in range(20)} == {"a", "b"}
    assert {faults.select(topic, "a").broker_name for _ in range(20)} == {"b"}
    assert faults.select(info("a"), "a").broker_name == "a"


def test_errors_are_classified() -> None:
    assert outcome_of(ConnectError("x")) is Outcome.REMOTING_ERROR
    assert outcome_of(BrokerError(1, "x")) is Outcome.BROKER_ERROR
    assert outcome_of(ClientError("x")) is Outcome.CLIENT_ERROR
    assert outcome_of(KeyboardInterrupt()) is Outcome.INTERRUPTED
