"""Static topics by a Java client and the Java mqadmin."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.remoting.protocol.body.namesrv.route import LogicQueueMappingItem
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.topics.static import StaticTopics
from tests.support.broker_process import RawPeer

MQADMIN = Path(sys.executable).parent / "mqadmin"

TOPIC = "Fixed"
FIRST_BLOCK = 10_000  # mqadmin starts the next segment at a multiple of it

Start = Callable[[str], str]


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """``start("java" or "our")``: a name server and the masters broker-a and broker-b."""

    def run(kind: str) -> str:
        servers = request.getfixturevalue(f"{kind}_servers")
        namesrv: str = servers.namesrv(tmp_path)
        for name in ("broker-a", "broker-b"):
            folder = tmp_path / name
            servers.broker(folder, folder / "store", namesrv, brokerName=name)
        return namesrv

    return run


def places(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((event["queueId"], event["queueOffset"]) for event in events)


def ids(events: list[dict[str, Any]]) -> set[str]:
    return {event.get("uniqKey") or event["msgId"] for event in events}


def fill(peer: Any, namesrv: str) -> list[dict[str, Any]]:
    """A static topic of two queues on broker-a, with three messages in each."""
    peer.mqadmin("updateStaticTopic", "-n", namesrv, "-t", TOPIC, "-qn", "2", "-b", "broker-a")
    words = {"namesrv": namesrv, "topic": TOPIC, "group": "Till"}
    return [
        event
        for queue in range(2)
        for event in peer.produce(**words, queue=queue, first=queue * 3, count=3)
    ]


def consumed(peer: Any, namesrv: str, count: int) -> set[str]:
    """The ids of the messages that a push consumer of a new group gets."""
    consumer = f"tail@{namesrv}"
    peer.ask("consume", consumer=consumer, namesrv=namesrv, topic=TOPIC, group="Tail")
    found = ids(peer.messages(consumer, count))
    peer.ask("stop", consumer=consumer)
    return found


@pytest.mark.parametrize("kind", ["java", "our"])
def test_a_static_topic_is_made_written_and_read(start: Start, peer_533: Any, kind: str) -> None:
    namesrv = start(kind)
    sent = fill(peer_533, namesrv)
    assert places(sent) == [(queue, offset) for queue in range(2) for offset in range(3)]
    assert {event["brokerName"] for event in sent} == {"broker-a"}
    bounds, found = peer_533.dump(namesrv=namesrv, topic=TOPIC, group="Till")
    assert bounds == {0: (0, 3), 1: (0, 3)}
    assert places(found) == places(sent)
    assert {event["brokerName"] for event in found} == {"__syslo__global__"}
    assert consumed(peer_533, namesrv, 6) == ids(sent)
    peer_533.ask("forget", namesrv=namesrv)


def test_a_moved_static_topic_keeps_its_queues_and_messages(start: Start, peer_533: Any) -> None:
    """Ours only: after remappingStaticTopic the Java 5.3.3 broker fails requests for bounds."""
    namesrv = start("our")
    sent = fill(peer_533, namesrv)
    words = {"namesrv": namesrv, "topic": TOPIC, "group": "Till"}
    peer_533.mqadmin("remappingStaticTopic", "-n", namesrv, "-t", TOPIC, "-b", "broker-b")
    peer_533.ask("forget", namesrv=namesrv)
    more = [
        event
        for queue in range(2)
        for event in peer_533.produce(**words, queue=queue, first=10 + queue, count=1)
    ]
    assert places(more) == [(0, FIRST_BLOCK), (1, FIRST_BLOCK)]
    assert {event["brokerName"] for event in more} == {"broker-b"}
    bounds, found = peer_533.dump(**words)
    assert bounds == {0: (0, FIRST_BLOCK + 1), 1: (0, FIRST_BLOCK + 1)}
    assert places(found) == sorted(places(sent) + places(more))
    assert ids(found) == ids(sent + more)
    assert consumed(peer_533, namesrv, 8) == ids(sent + more)
    peer_533.ask("forget", namesrv=namesrv)


def start_move(admin: MQAdmin, peer: RawPeer) -> None:
    """Make broker-b the leader of all queues, without logical offsets: a move that has not ended.

    The queues have the same ids at both brokers, or Java finds the end of another queue.
    """
    detail = StaticTopics(admin).mappings(TOPIC)["broker-a"].mapping_detail
    assert detail is not None
    queues = {
        queue_id: [
            *items,
            LogicQueueMappingItem(
                gen=1, queue_id=items[0].queue_id, bname="broker-b", logic_offset=-1
            ),
        ]
        for queue_id, items in (detail.hosted_queues or {}).items()
    }
    moved = replace(detail, bname="broker-b", epoch=detail.epoch + 1000, hosted_queues=queues)
    fields = {
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "readQueueNums": "2",
        "writeQueueNums": "2",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "force": "false",
    }
    answer = peer.call(
        request(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, fields, moved.to_bytes())
    )
    assert answer is not None
    assert answer.code == 0, answer.remark


def end_of(peer: RawPeer, queue_id: int) -> str | None:
    """The max offset of a queue of the static topic."""
    fields = {"topic": TOPIC, "queueId": str(queue_id)}
    answer = peer.call(request(RequestCode.GET_MAX_OFFSET, fields))
    assert answer is not None
    return answer.ext_fields.get("offset")


@pytest.mark.parametrize("kind", ["java", "our"])
def test_the_end_of_a_queue_is_known_while_it_is_moved(
    start: Start, peer_533: Any, until: Callable[..., Any], kind: str
) -> None:
    namesrv = start(kind)
    fill(peer_533, namesrv)
    with MQAdmin([namesrv]) as admin:
        (target,) = admin.topology.writers(broker="broker-b")
        with RawPeer(target.address) as peer:
            start_move(admin, peer)
            for queue_id in range(2):
                until(lambda at=queue_id: end_of(peer, at) == "3", "the messages in the queues")
    peer_533.ask("forget", namesrv=namesrv)


def mapping(namesrv: str, topic: str) -> Any:
    """Broker name → queue numbers and segments of each queue; epochs are times."""
    with MQAdmin([namesrv]) as admin:
        found = StaticTopics(admin).mappings(topic)
    return {
        name: (
            one.topic_config.read_queue_nums,
            one.topic_config.write_queue_nums,
            one.mapping_detail
            and (one.mapping_detail.total_queues, one.mapping_detail.hosted_queues),
        )
        for name, one in found.items()
    }


@pytest.mark.parametrize("kind", ["java", "our"])
def test_both_tools_move_a_static_topic_the_same(start: Start, peer_533: Any, kind: str) -> None:
    namesrv = start(kind)
    for topic in ("ByJava", "ByUs"):
        words = ("-n", namesrv, "-t", topic, "-qn", "2", "-b", "broker-a")
        peer_533.mqadmin("updateStaticTopic", *words)
        for queue in range(2):
            peer_533.produce(namesrv=namesrv, topic=topic, group="Till", queue=queue, count=3)
    peer_533.mqadmin("remappingStaticTopic", "-n", namesrv, "-t", "ByJava", "-b", "broker-b")
    words = ("remappingStaticTopic", "-n", namesrv, "-t", "ByUs", "-b", "broker-b")
    done = subprocess.run(
        [str(MQADMIN), *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert mapping(namesrv, "ByUs") == mapping(namesrv, "ByJava")
    peer_533.ask("forget", namesrv=namesrv)


COMMITS = "the commits of a consumer that stops: requests without a response"


def own_tool(*words: str) -> str:
    """The output of our mqadmin."""
    done = subprocess.run(
        [sys.executable, "-m", "mqadmin", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def progress(output: str) -> list[list[str]]:
    """Topic, broker name, queue id, end, committed offset and lag in consumerProgress."""
    return sorted(line.split()[:6] for line in output.splitlines() if line.startswith(TOPIC))


@pytest.mark.parametrize("kind", ["java", "our"])
def test_consumer_progress_is_that_of_the_queues_clients_see(
    start: Start, peer_533: Any, until: Callable[..., Any], kind: str
) -> None:
    namesrv = start(kind)
    words = ("consumerProgress", "-n", namesrv, "-g", "Tail")
    sent = fill(peer_533, namesrv)
    assert consumed(peer_533, namesrv, 6) == ids(sent)
    name = "__syslo__global__"
    read = [[TOPIC, name, queue, "3", "3", "0"] for queue in "01"]
    until(lambda: progress(own_tool(*words)) == read, COMMITS)
    assert progress(peer_533.mqadmin(*words)) == read
    own_tool("topic", "static", "remap", TOPIC, "-b", "broker-b", "-n", namesrv, "--yes")
    peer_533.ask("forget", namesrv=namesrv)
    for queue in range(2):
        peer_533.produce(namesrv=namesrv, topic=TOPIC, group="Till", queue=queue, count=2)
    # Java finds the end at a broker without a committed offset only if it gets the topic.
    moved = [[TOPIC, name, queue, "10002", "3", "9999"] for queue in "01"]
    until(
        lambda: progress(peer_533.mqadmin(*words, "-t", TOPIC)) == moved,
        "the messages in the queues: a broker answers a send before it dispatches",
    )
    assert progress(own_tool(*words)) == progress(own_tool(*words, "-t", TOPIC)) == moved
    if kind == "our":  # Java 5.3.3 brokers do not serve a moved queue
        assert len(consumed(peer_533, namesrv, 4)) == 4
        # Java shows the committed offset of the broker's queue here, 2.
        read = [[TOPIC, name, queue, "10002", "10002", "0"] for queue in "01"]
        until(lambda: progress(own_tool(*words)) == read, COMMITS)
    peer_533.ask("forget", namesrv=namesrv)


def test_the_noun_form_makes_and_moves_static_topics_of_java_brokers(
    start: Start, peer_533: Any
) -> None:
    namesrv = start("java")
    to = ("-n", namesrv, "--yes")
    own_tool("topic", "static", "create", TOPIC, "--queues", "2", "-b", "broker-a", *to)
    own_tool("topic", "static", "update", TOPIC, "--queues", "3", "-b", "broker-b", *to)
    peer_533.mqadmin(
        "updateStaticTopic", "-n", namesrv, "-t", "ByJava", "-qn", "2", "-b", "broker-a"
    )
    more = ("-t", "ByJava", "-qn", "3", "-b", "broker-a,broker-b")
    peer_533.mqadmin("updateStaticTopic", "-n", namesrv, *more)
    assert mapping(namesrv, TOPIC) == mapping(namesrv, "ByJava")
    own_tool("topic", "static", "remap", TOPIC, "-b", "broker-b", *to)
    peer_533.mqadmin("remappingStaticTopic", "-n", namesrv, "-t", "ByJava", "-b", "broker-b")
    assert mapping(namesrv, TOPIC) == mapping(namesrv, "ByJava")
