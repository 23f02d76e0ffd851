"""Unmodified clients use our name server and broker as if they were the real ones."""

import base64
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

Cluster = tuple[str, str]
NAMES = itertools.count()


@pytest.fixture
def topic(our_cluster: Cluster, peer_533: Any) -> str:
    """A fresh topic with four queues."""
    name = f"Clients{next(NAMES)}"
    peer_533.mqadmin(
        *(
            "updateTopic",
            "-n",
            our_cluster[0],
            "-b",
            our_cluster[1],
            "-t",
            name,
            "-r",
            "4",
            "-w",
            "4",
        )
    )
    return name


def bodies(events: list[dict[str, Any]]) -> Counter[bytes]:
    return Counter(base64.b64decode(event["body"]) for event in events)


@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch"])
def test_java_sends_and_everything_sent_is_there(
    our_cluster: Cluster, peer: Any, topic: str, mode: str
) -> None:
    namesrv, _ = our_cluster
    sent = peer.produce(
        namesrv=namesrv, topic=topic, mode=mode, count=20, tags="A,B", keys="k{i} all"
    )
    if mode == "oneway":
        # no answers: wait by asking until the queues have grown
        for _ in range(200):
            bounds, messages = peer.dump(namesrv=namesrv, topic=topic)
            if sum(top for _, top in bounds.values()) >= 20:
                break
    else:
        assert all(event["status"] == "SEND_OK" for event in sent), sent
    bounds, messages = peer.dump(namesrv=namesrv, topic=topic)
    assert bodies(messages) == Counter(f"body-{index}".encode() for index in range(20))
    assert sum(high - low for low, high in bounds.values()) == 20
    for message in messages:
        index = int(base64.b64decode(message["body"])[5:])
        assert message["tags"] == "AB"[index % 2]
        assert message["keys"].split() == [f"k{index}", "all"]
    if mode in ("sync", "async"):
        by_key = {(m["queueId"], m["queueOffset"]): m for m in messages}
        for event in sent:
            stored = by_key[event["queueId"], event["queueOffset"]]
            assert stored["uniqKey"] == event["msgId"]
            found = peer.ask("query", namesrv=namesrv, topic=topic, msgId=event["offsetMsgId"])
            assert found[0]["body"] == stored["body"]


@pytest.mark.parametrize(
    "shape",
    [{"size": 1_000_000, "compressOver": 100_000_000}, {"size": 60_000, "compressible": True}],
)
def test_big_and_compressed_bodies_come_back_whole(
    our_cluster: Cluster, peer: Any, topic: str, shape: dict[str, Any]
) -> None:
    namesrv, _ = our_cluster
    peer.produce(namesrv=namesrv, topic=topic, count=3, **shape)
    _, messages = peer.dump(namesrv=namesrv, topic=topic)
    assert len(messages) == 3
    for message in messages:
        body = base64.b64decode(message["body"])
        assert len(body) == shape["size"]
        assert body.startswith(b"body-")
        if "compressible" in shape:
            assert message["storeSize"] < shape["size"]


def test_a_body_over_the_limit_is_refused_and_the_connection_lives_on(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    refused = peer.produce(
        namesrv=namesrv, topic=topic, count=1, size=5_000_000, compressOver=100_000_000
    )
    assert refused[0]["event"] == "failed"
    assert "CODE: 13" in refused[0]["error"]
    accepted = peer.produce(namesrv=namesrv, topic=topic, count=1, compressOver=100_000_000)
    assert accepted[0]["status"] == "SEND_OK"


def test_a_topic_nobody_made_is_made_by_the_first_send(our_cluster: Cluster, peer: Any) -> None:
    namesrv, _ = our_cluster
    name = f"Auto{next(NAMES)}"
    assert peer.produce(namesrv=namesrv, topic=name, count=1)[0]["status"] == "SEND_OK"
    bounds, _ = peer.dump(namesrv=namesrv, topic=name)
    assert sorted(bounds) == [0, 1, 2, 3]


def test_push_consumer_gets_old_and_new_messages_once(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    group, consumer = f"g-{topic}", f"c-{topic}-{peer.version}"
    peer.produce(namesrv=namesrv, topic=topic, count=10)
    peer.ask("consume", consumer=consumer, namesrv=namesrv, topic=topic, group=group)
    first = peer.messages(consumer, 10)
    peer.produce(namesrv=namesrv, topic=topic, count=10, first=10)
    second = peer.messages(consumer, 10)
    assert bodies(first + second) == Counter(f"body-{index}".encode() for index in range(20))
    peer.ask("stop", consumer=consumer)
    # what was consumed stays consumed: the next member starts behind it
    peer.produce(namesrv=namesrv, topic=topic, count=5, first=20)
    peer.ask("consume", consumer=consumer + "-again", namesrv=namesrv, topic=topic, group=group)
    third = peer.messages(consumer + "-again", 5)
    assert bodies(third) == Counter(f"body-{index}".encode() for index in range(20, 25))
    peer.ask("stop", consumer=consumer + "-again")


def test_tag_subscription_gets_exactly_its_subset(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    consumer = f"tags-{topic}-{peer.version}"
    peer.ask(
        "consume",
        consumer=consumer,
        namesrv=namesrv,
        topic=topic,
        group=f"g-{topic}",
        tags="A || C",
    )
    peer.produce(namesrv=namesrv, topic=topic, count=30, tags="A,B,C")
    seen = peer.messages(consumer, 20)
    assert Counter(event["tags"] for event in seen) == Counter(A=10, C=10)
    peer.ask("stop", consumer=consumer)


def test_broadcast_reaches_every_member(our_cluster: Cluster, peer: Any, topic: str) -> None:
    namesrv, _ = our_cluster
    names = [f"b{n}-{topic}-{peer.version}" for n in range(2)]
    for name in names:
        peer.ask(
            *("consume",),
            consumer=name,
            namesrv=namesrv,
            topic=topic,
            group=f"g-{topic}-{peer.version}",
            model="broadcast",
        )
    peer.produce(namesrv=namesrv, topic=topic, count=12)
    for name in names:
        assert len(bodies(peer.messages(name, 12))) == 12
        peer.ask("stop", consumer=name)


def test_members_share_the_queues_as_they_join_and_leave(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    namesrv, broker = our_cluster
    group = f"share-{topic}-{peer.version}"
    one, two = f"one-{group}", f"two-{group}"
    peer.ask("consume", consumer=one, namesrv=namesrv, topic=topic, group=group)
    peer.produce(namesrv=namesrv, topic=topic, count=4)
    peer.messages(one, 4)
    peer.ask("consume", consumer=two, namesrv=namesrv, topic=topic, group=group)
    # Rebalance is announced by the broker; keep sending until the newcomer has got something.
    got_two = 0
    sent = 4
    for _ in range(60):
        peer.produce(namesrv=namesrv, topic=topic, count=4, first=sent)
        sent += 4
        if not peer.consumer(two).empty():
            got_two = 1
            break
        try:
            peer.messages(two, 1, timeout_s=1)
            got_two = 1
            break
        except AssertionError:
            continue
    assert got_two, "the second member never got a queue"
    peer.ask("stop", consumer=two)
    for name in (one, two):
        while not peer.consumer(name).empty():
            peer.consumer(name).get()
    seen: set[int] = set()
    for _ in range(60):
        peer.produce(namesrv=namesrv, topic=topic, count=4, first=sent)
        sent += 4
        try:
            seen |= {event["queueId"] for event in peer.messages(one, 4, timeout_s=2)}
        except AssertionError:
            continue
        if seen == {0, 1, 2, 3}:
            break
    assert seen == {0, 1, 2, 3}, "the first member did not get all queues back"
    peer.ask("stop", consumer=one)


def test_orderly_consumer_keeps_the_order_of_each_queue(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    consumer = f"orderly-{topic}-{peer.version}"
    peer.produce(namesrv=namesrv, topic=topic, count=40)
    peer.ask(
        *("consume",),
        consumer=consumer,
        namesrv=namesrv,
        topic=topic,
        group=f"orderly-{topic}",
        mode="orderly",
    )
    seen = peer.messages(consumer, 40)
    for queue_id in range(4):
        offsets = [event["queueOffset"] for event in seen if event["queueId"] == queue_id]
        assert offsets == sorted(offsets)
    peer.ask("stop", consumer=consumer)


def test_a_failed_message_comes_back_by_way_of_the_retry_topic(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    consumer = f"retry-{topic}-{peer.version}"
    peer.produce(namesrv=namesrv, topic=topic, count=1)
    peer.ask(
        *("consume",),
        consumer=consumer,
        namesrv=namesrv,
        topic=topic,
        group=f"retry-{topic}-{peer.version.replace('.', '')}",
        failTimes=1,
    )
    first, second = peer.messages(consumer, 2)
    assert (first["reconsumeTimes"], second["reconsumeTimes"]) == (0, 1)
    assert second["body"] == first["body"]
    assert second["msgId"] == first["msgId"]
    peer.ask("stop", consumer=consumer)


def test_offsets_survive_a_restart_of_the_broker(
    our_servers: Any, peer_533: Any, tmp_path: Any
) -> None:
    namesrv = our_servers.namesrv(tmp_path)
    broker = our_servers.broker(tmp_path, tmp_path / "store", namesrv)
    port = int(broker.address.rpartition(":")[2])
    peer_533.produce(namesrv=namesrv, topic="Restart", count=10, queue=0)
    peer_533.ask("consume", consumer="r1", namesrv=namesrv, topic="Restart", group="restart")
    assert len(peer_533.messages("r1", 10)) == 10
    peer_533.ask("stop", consumer="r1")
    broker.stop()
    our_servers.broker(tmp_path, tmp_path / "store", namesrv, listenPort=port)
    peer_533.produce(namesrv=namesrv, topic="Restart", count=5, first=10, queue=0)
    peer_533.ask("consume", consumer="r2", namesrv=namesrv, topic="Restart", group="restart")
    again = peer_533.messages("r2", 5)
    assert bodies(again) == Counter(f"body-{index}".encode() for index in range(10, 15))
    peer_533.ask("stop", consumer="r2")


def test_consumers_go_on_when_the_broker_was_killed_and_came_back(
    our_servers: Any, peer_533: Any, tmp_path: Any
) -> None:
    namesrv = our_servers.namesrv(tmp_path)
    broker = our_servers.broker(tmp_path, tmp_path / "store", namesrv)
    port = int(broker.address.rpartition(":")[2])
    peer_533.ask("consume", consumer="k1", namesrv=namesrv, topic="TBW102", group="unused")
    peer_533.ask("stop", consumer="k1")
    peer_533.produce(namesrv=namesrv, topic="Killed", count=20)
    broker.kill()
    our_servers.broker(tmp_path, tmp_path / "store", namesrv, listenPort=port)
    peer_533.ask("consume", consumer="k2", namesrv=namesrv, topic="Killed", group="killed")
    assert len(bodies(peer_533.messages("k2", 20))) == 20
    peer_533.ask("stop", consumer="k2")


@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch"])
def test_go_sends_what_java_reads(
    our_cluster: Cluster, go_peer: Callable[..., Any], peer_533: Any, topic: str, mode: str
) -> None:
    namesrv, _ = our_cluster
    go_peer(
        do="produce",
        namesrv=namesrv,
        topic=topic,
        group="go-producer",
        mode=mode,
        count=8,
        body="go-",
        tags="A,B",
        keys="go{i}",
    )
    messages: list[Any] = []
    for _ in range(200):
        _, messages = peer_533.dump(namesrv=namesrv, topic=topic)
        if len(messages) == 8:
            break
    assert bodies(messages) == Counter(f"go-{index}".encode() for index in range(8))


@pytest.mark.parametrize("model", ["clustering", "broadcast"])
def test_go_consumes_by_tag(
    our_cluster: Cluster, go_peer: Callable[..., Any], peer_533: Any, topic: str, model: str
) -> None:
    namesrv, _ = our_cluster
    peer_533.produce(namesrv=namesrv, topic=topic, count=10, tags="A,B")
    events = go_peer(
        do="consume",
        namesrv=namesrv,
        topic=topic,
        group=f"go-{topic}",
        tags="A",
        model=model,
        count=5,
        timeoutS=90,
    )
    seen = [event for event in events if event["event"] == "message"]
    assert {event["tags"] for event in seen} == {"A"}


@pytest.mark.parametrize("model", ["clustering", "broadcast"])
def test_node_sends_and_consumes(
    our_cluster: Cluster, node_peer: Callable[..., Any], topic: str, model: str
) -> None:
    namesrv, _ = our_cluster
    sent = node_peer(
        do="produce",
        namesrv=namesrv,
        topic=topic,
        group="node-producer",
        count=6,
        body="node-",
        tags="A,B",
        keys="n{i}",
    )
    assert [event["status"] for event in sent if event["event"] == "sent"] == ["SEND_OK"] * 6
    events = node_peer(
        do="consume",
        namesrv=namesrv,
        topic=topic,
        group=f"node-{topic}",
        tags="B",
        model=model,
        count=3,
        timeoutS=90,
    )
    seen = sorted(event["body"] for event in events if event["event"] == "message")
    assert seen == ["node-1", "node-3", "node-5"]
