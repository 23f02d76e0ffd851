"""Static topics by a Java client and the Java mqadmin: the same on Java brokers and on ours."""

from pathlib import Path
from typing import Any

import pytest

TOPIC = "Fixed"
KINDS = ("java", "our")


@pytest.fixture(params=KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, list[str]]:
    """A name server and two masters of one kind: its address and theirs."""
    servers = request.getfixturevalue(f"{request.param}_servers")
    namesrv = servers.namesrv(tmp_path)
    addresses = []
    for name in ("broker-a", "broker-b"):
        broker = servers.broker(tmp_path / name, tmp_path / name / "store", namesrv, brokerName=name)
        addresses.append(broker.address)
    return namesrv, addresses


def places(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((event["queueId"], event["queueOffset"]) for event in events)


def test_a_static_topic_keeps_its_queues_and_offsets_when_it_moves(
    cluster: tuple[str, list[str]], peer_533: Any
) -> None:
    namesrv, _ = cluster
    peer_533.mqadmin(
        "updateStaticTopic", "-n", namesrv, "-t", TOPIC, "-qn", "2", "-b", "broker-a"
    )
    words = {"namesrv": namesrv, "topic": TOPIC, "group": "Till"}
    sent = []
    for queue in range(2):
        sent += peer_533.produce(**words, queue=queue, first=queue * 3, count=3)
    print(sent)
    assert places(sent) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    bounds, found = peer_533.dump(**words)
    print(bounds, found)
    assert bounds == {0: (0, 3), 1: (0, 3)}
    assert places(found) == places(sent)

    peer_533.mqadmin("remappingStaticTopic", "-n", namesrv, "-t", TOPIC, "-b", "broker-b")
    peer_533.ask("forget", namesrv=namesrv)
    more = []
    for queue in range(2):
        more += peer_533.produce(**words, queue=queue, first=10 + queue, count=1)
    print(more)
    bounds, found = peer_533.dump(**words)
    print(bounds, found)
    assert {event["uniqKey"] for event in found} == {event["msgId"] for event in sent + more}
