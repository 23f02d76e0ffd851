"""Queues and ages of the request families."""

from broker.server.configuration.config import BrokerConfig
from broker.server.flow_control.lanes import lane_limits


def test_lanes_have_the_queues_and_ages_of_the_settings() -> None:
    lanes = lane_limits(BrokerConfig())
    assert {name: (lane.queue_limit, lane.wait_ms) for name, lane in lanes.items()} == {
        "send": (10_000, 200),
        "reply": (10_000, 0),
        "pull": (100_000, 5_000),
        "litePull": (100_000, 5_000),
        "ack": (100_000, 3_000),
        "transaction": (100_000, 3_000),
        "query": (20_000, 0),
        "heartbeat": (50_000, 31_000),
        "admin": (10_000, 5_000),
    }


def test_without_fast_failure_no_request_ages() -> None:
    lanes = lane_limits(BrokerConfig(broker_fast_failure_enable=False))
    assert {lane.wait_ms for lane in lanes.values()} == {0}
