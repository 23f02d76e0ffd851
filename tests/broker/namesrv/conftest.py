"""Fixtures of the name server tests: clock, route tables, registrations, recorded exchanges."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.common.clock import ManualClock
from broker.common.topic import TopicConfig
from broker.namesrv.brokers import Registration
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.route import RouteInfoManager
from broker.remoting.protocol.body.version import DataVersion


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def routes(clock: ManualClock) -> RouteInfoManager:
    return RouteInfoManager(clock, NamesrvConfig())


@pytest.fixture
def make_registration() -> Callable[..., Registration]:
    """A registration: topics as names or as name=TopicConfig, the rest by keyword."""

    def make_registration(
        *topics: str | TopicConfig, counter: int = 0, state: int = 0, **fields
    ) -> Registration:
        configs = [
            topic
            if isinstance(topic, TopicConfig)
            else TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4)
            for topic in topics
        ]
        values = {
            "cluster": "C",
            "broker_name": "a",
            "broker_id": 0,
            "address": "10.0.0.1:10911",
            "ha_address": "10.0.0.1:10912",
            "enable_acting_master": False,
            "topics": {config.topic_name: config for config in configs},
            "data_version": DataVersion(counter=counter, state_version=state, timestamp=1),
        }
        return Registration(**{**values, **fields})

    return make_registration


@pytest.fixture(scope="session")
def exchanges() -> Callable[[str], list[tuple[dict, dict]]]:
    """The (request, response) pairs of a Java name server in one recording."""

    def exchanges(name: str) -> list[tuple[dict, dict]]:
        path = Path(__file__).parents[2] / "golden" / "frames" / f"{name}.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            frames = [frame for frame in map(json.loads, lines) if frame["link"].endswith("39876")]
        answers = {(f["conn"], f["opaque"]): f for f in frames if f["from"] == "server"}
        return [
            (frame, answers[frame["conn"], frame["opaque"]])
            for frame in frames
            if frame["from"] == "client" and (frame["conn"], frame["opaque"]) in answers
        ]

    return exchanges
