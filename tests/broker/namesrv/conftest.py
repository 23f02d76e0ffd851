"""Fixtures of the name server tests: a loop with an end, registrations, a golden conversation."""

import asyncio
import gzip
import json
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from broker.common.clock import ManualClock
from broker.common.topic import TopicConfig
from broker.namesrv.brokers import Registration
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.route import RouteInfoManager
from broker.remoting import loop
from broker.remoting.protocol.body.version import DataVersion

TIMEOUT_S = 20


@pytest.fixture
def run() -> Callable[[Coroutine], Any]:
    """Run a coroutine in the daemon's kind of loop; it must end soon."""

    def runner(main: Coroutine) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(TIMEOUT_S):
                return await main

        with asyncio.Runner(loop_factory=loop.loop_factory()) as loop_runner:
            try:
                return loop_runner.run(limited())
            except BaseException:
                warnings.simplefilter("ignore", ResourceWarning)
                raise

    return runner


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def routes(clock: ManualClock) -> RouteInfoManager:
    return RouteInfoManager(clock, NamesrvConfig())


@pytest.fixture
def said() -> Callable[..., Registration]:
    """A registration: topics as names or as name=TopicConfig, the rest by keyword."""

    def said(
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

    return said


@pytest.fixture(scope="session")
def exchanges() -> Callable[[str], list[tuple[dict, dict]]]:
    """What a Java name server was asked and answered in one recording, as (request, answer)."""

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
