"""A cluster in memory: name servers and brokers that answer real frames and fail on demand."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import FrameDecoder
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker, FakeCluster, Recording


@pytest.fixture
def cluster() -> FakeCluster:
    """An empty cluster with one name server and the brokers broker-a and broker-b."""
    made = FakeCluster()
    made.add("broker-a")
    made.add("broker-b")
    return made


@pytest.fixture
def broker_a(cluster: FakeCluster) -> FakeBroker:
    return cluster.brokers[0]


@pytest.fixture
def broker_b(cluster: FakeCluster) -> FakeBroker:
    return cluster.brokers[1]


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[MQAdmin]:
    with cluster.admin() as session:
        yield session


@pytest.fixture
def replay(golden: Path) -> Callable[..., MQAdmin]:
    """A session answered with the recorded answers of a real cluster (labels of mqadmin runs).

    A request is answered with the first recorded answer to the same code whose request fields
    agree with ours in every field both have.
    """

    def make(*labels: str, version: str = "5.3.3") -> MQAdmin:
        path = golden / "frames" / f"mqadmin-{version}.jsonl.gz"
        pairs: list[tuple[RemotingCommand, RemotingCommand]] = []
        open_requests: dict[tuple[int, int], RemotingCommand] = {}
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if row["label"] not in labels:
                    continue
                (frame,) = FrameDecoder().feed(bytes.fromhex(row["hex"]))
                key = (row["conn"], frame.opaque)
                if row["from"] == "client" and not frame.is_response:
                    open_requests[key] = frame
                elif row["from"] == "server" and key in open_requests:
                    pairs.append((open_requests.pop(key), frame))
        return MQAdmin(["127.0.0.2:39876"], client=Recording(pairs))

    return make
