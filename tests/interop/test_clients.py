"""Unmodified clients use our name server and broker as if they were the real ones."""

import base64
import itertools
import re
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

Cluster = tuple[str, str]
NAMES = itertools.count()


@pytest.fixture
def topic(our_cluster: Cluster, make_topic: Callable[..., None]) -> str:
    """A fresh topic with four queues."""
    name = f"Clients{next(NAMES)}"
    make_topic(our_cluster[1], name)
    return name


def bodies(events: list[dict[str, Any]]) -> Counter[bytes]:
    return Counter(base64.b64decode(event["body"]) for event in events)


@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch"])
def test_java_sends_and_everything_sent_is_there(
    our_cluster: Cluster, peer: Any, topic: str, mode: str, until: Callable[..., Any]
) -> None:
    namesrv, _ = our_cluster
    sent = peer.produce(
        namesrv=namesrv, topic=topic, mode=mode, count=20, tags="A,B", keys="k{i} all"
    )
    if mode == "oneway":
        # no answers: wait by asking until the queues have grown
        until(lambda: len(peer.dump(namesrv=namesrv, topic=topic)[1]) >= 20, "20 oneway messages")
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
    [
        {"size": 1_000_000, "compressOver": 100_000_000},
        {"size": 60_000, "compressible": True},
        {"size": 60_000, "compressible": True, "compressType": "LZ4"},
        {"size": 60_000, "compressible": True, "compressType": "ZSTD"},
        {"size": 60_000, "compressible": True, "compressType": "ZLIB"},
    ],
    ids=lambda shape: shape.get("compressType", "plain" if "compressOver" in shape else "default"),
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
        if "compressType" in shape and peer.version.startswith("5."):
            # the client clears the bit "compressed" after unpacking; the bits of the type stay
            assert (
                message["sysFlag"] >> 8 & 7
                == {"LZ4": 1, "ZSTD": 2, "ZLIB": 3}[shape["compressType"]]
            )


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


def test_a_missing_topic_is_created_by_the_first_send(our_cluster: Cluster, peer: Any) -> None:
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
    # consumed messages stay consumed: the next member starts after them
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
            group=f"g-{topic}",
            model="broadcast",
        )
    peer.produce(namesrv=namesrv, topic=topic, count=12)
    for name in names:
        assert len(bodies(peer.messages(name, 12))) == 12
        peer.ask("stop", consumer=name)


def test_members_share_the_queues_as_they_join_and_leave(
    our_cluster: Cluster, peer: Any, topic: str, until: Callable[..., Any]
) -> None:
    namesrv, _ = our_cluster
    group = f"share-{topic}"
    one, two = f"one-{group}", f"two-{group}"

    def held(name: str) -> set[int]:
        events = peer.ask("assigned", consumer=name, topic=topic)
        return {event["queueId"] for event in events if event["event"] == "assigned"}

    peer.ask("consume", consumer=one, namesrv=namesrv, topic=topic, group=group)
    until(lambda: held(one) == {0, 1, 2, 3}, "the only member holds all queues")
    peer.ask("consume", consumer=two, namesrv=namesrv, topic=topic, group=group)
    until(
        lambda: len(held(one)) == len(held(two)) == 2 and not held(one) & held(two),
        "two members hold half of the queues each",
    )
    peer.produce(namesrv=namesrv, topic=topic, count=40)
    seen = [*peer.messages(one, 20), *peer.messages(two, 20)]
    assert bodies(seen) == Counter(f"body-{index}".encode() for index in range(40))
    # it leaves with UNREGISTER_CLIENT: the other member is notified and takes over
    peer.ask("stop", consumer=two)
    until(lambda: held(one) == {0, 1, 2, 3}, "the remaining member holds all queues again")
    sent = peer.produce(namesrv=namesrv, topic=topic, count=8, first=40)
    rest = peer.messages_with(one, {event["msgId"] for event in sent})
    # only messages that the leaving member had not yet committed may be delivered again
    again = bodies(rest) - Counter(f"body-{index}".encode() for index in range(40, 48))
    assert set(again) <= set(bodies(seen))
    peer.ask("stop", consumer=one)


def test_the_queues_of_a_member_that_dies_go_to_the_others_at_once(
    our_cluster: Cluster,
    peer: Any,
    topic: str,
    until: Callable[..., Any],
    go_member: Callable[..., Any],
) -> None:
    """Without unregistering: the broker detects the closed connection and notifies the group."""
    namesrv, _ = our_cluster
    words = {"namesrv": namesrv, "topic": topic, "group": f"dies-{topic}"}
    name = f"stays-{topic}-{peer.version}"

    def held() -> int:
        return len(peer.ask("assigned", consumer=name, topic=topic)) - 1

    peer.ask("consume", consumer=name, **words)
    until(lambda: held() == 4, "the only member holds all queues")
    mortal = go_member(**words, timeoutS=600)
    until(lambda: held() == 2, "the Go member has got its half")
    mortal.kill()
    until(lambda: held() == 4, "the remaining member holds all queues again")
    sent = peer.produce(namesrv=namesrv, topic=topic, count=8)
    peer.messages_with(name, {event["msgId"] for event in sent})
    peer.ask("stop", consumer=name)


@pytest.mark.parametrize("fail_times", [0, 1])
def test_orderly_consumer_keeps_the_order_of_each_queue(
    our_cluster: Cluster, peer: Any, topic: str, fail_times: int
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
        failTimes=fail_times,
    )
    # a failed message is retried in its place: all later ones wait
    seen = peer.messages(consumer, 40 * (1 + fail_times))
    for queue_id in range(4):
        offsets = [event["queueOffset"] for event in seen if event["queueId"] == queue_id]
        assert offsets == [n for n in range(10) for _ in range(1 + fail_times)]
    peer.ask("stop", consumer=consumer)


def test_orderly_members_take_over_locked_queues(
    our_cluster: Cluster, peer: Any, topic: str, until: Callable[..., Any]
) -> None:
    namesrv, _ = our_cluster
    group = f"orderly-{topic}"
    names = [f"{n}-{group}-{peer.version}" for n in range(2)]
    words = {"namesrv": namesrv, "topic": topic, "group": group, "mode": "orderly"}
    peer.ask("consume", consumer=names[0], **words)
    peer.produce(namesrv=namesrv, topic=topic, count=8)
    peer.messages(names[0], 8)
    peer.ask("consume", consumer=names[1], **words)

    def shared() -> bool:
        held = [
            {e["queueId"] for e in peer.ask("assigned", consumer=name, topic=topic)[:-1]}
            for name in names
        ]
        return len(held[0]) == len(held[1]) == 2 and not held[0] & held[1]

    until(shared, "both members hold two queues")
    peer.produce(namesrv=namesrv, topic=topic, count=8, first=8)
    seen = [*peer.messages(names[0], 4), *peer.messages(names[1], 4)]
    assert bodies(seen) == Counter(f"body-{index}".encode() for index in range(8, 16))
    for name in names:
        peer.ask("stop", consumer=name)


def test_a_failed_message_comes_back_by_way_of_the_retry_topic(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    group = f"retry-{topic}"
    # The first heartbeat of a group makes its retry topic. A client that had no route for it then
    # looks again after 20 s; one that starts later has it at once.
    peer.ask("consume", consumer="first", namesrv=namesrv, topic=topic, group=group)
    peer.ask("stop", consumer="first")
    peer.produce(namesrv=namesrv, topic=topic, count=1, keys="again")
    consumer = f"retry-{topic}-{peer.version}"
    peer.ask(
        *("consume",), consumer=consumer, namesrv=namesrv, topic=topic, group=group, failTimes=1
    )
    first, second = peer.messages(consumer, 2)
    assert (first["reconsumeTimes"], second["reconsumeTimes"]) == (0, 1)
    for same in ("topic", "body", "msgId", "uniqKey", "keys", "bornTimestamp", "bornHost"):
        assert second[same] == first[same]
    assert second["properties"]["RETRY_TOPIC"] == topic
    assert second["properties"]["ORIGIN_MESSAGE_ID"] == first["properties"].get(
        "ORIGIN_MESSAGE_ID", second["properties"]["ORIGIN_MESSAGE_ID"]
    )
    peer.ask("stop", consumer=consumer)


def test_a_message_that_fails_too_often_ends_in_the_dead_letter_queue(
    our_cluster: Cluster, peer: Any, topic: str, until: Callable[..., Any]
) -> None:
    namesrv, _ = our_cluster
    group, consumer = f"dead-{topic}", f"dead-{topic}-{peer.version}"
    peer.produce(namesrv=namesrv, topic=topic, count=1, keys="dead")
    peer.ask(
        *("consume",),
        consumer=consumer,
        namesrv=namesrv,
        topic=topic,
        group=group,
        failTimes=100,
        maxReconsume=0,
    )
    (failed,) = peer.messages(consumer, 1)

    def dead() -> list[Any]:
        events = peer.try_ask("dump", namesrv=namesrv, topic=f"%DLQ%{group}")
        return [event for event in events if event["event"] == "message"]

    (letter,) = until(dead, "a dead letter")
    assert letter["body"] == failed["body"]
    assert letter["uniqKey"] == failed["uniqKey"]
    assert letter["properties"]["RETRY_TOPIC"] == topic
    assert letter["properties"]["ORIGIN_MESSAGE_ID"]
    peer.ask("stop", consumer=consumer)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_offsets_survive_a_restart_of_the_broker(
    our_servers: Any, peer_533: Any, tmp_path: Any, until: Callable[..., Any], ending: str
) -> None:
    namesrv = our_servers.namesrv(tmp_path)
    settings = {"flushConsumerOffsetInterval": 1000}
    broker = our_servers.broker(tmp_path, tmp_path / "store", namesrv, **settings)
    port = int(broker.address.rpartition(":")[2])
    peer_533.produce(namesrv=namesrv, topic="Restart", count=10, queue=0)
    peer_533.ask("consume", consumer="r1", namesrv=namesrv, topic="Restart", group="restart")
    assert len(peer_533.messages("r1", 10)) == 10
    peer_533.ask("stop", consumer="r1")
    if ending == "stop":
        broker.stop()
    else:
        file = tmp_path / "store" / "config" / "consumerOffset.json"
        until(
            lambda: file.exists() and re.search(r"\b0:10\b", file.read_text()),
            "the consumer offset is on the disk",
        )
        broker.kill()
    our_servers.broker(tmp_path, tmp_path / "store", namesrv, listenPort=port, **settings)
    peer_533.produce(namesrv=namesrv, topic="Restart", count=5, first=10, queue=0)
    peer_533.ask("consume", consumer="r2", namesrv=namesrv, topic="Restart", group="restart")
    again = peer_533.messages("r2", 5)
    assert bodies(again) == Counter(f"body-{index}".encode() for index in range(10, 15))
    peer_533.ask("stop", consumer="r2")
    peer_533.ask("forget", namesrv=namesrv)


def test_consumers_continue_after_the_broker_was_killed_and_restarted(
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


def test_pull_consumers_resume_after_their_committed_offset(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    words = {"namesrv": namesrv, "topic": topic, "group": f"lite-{topic}"}
    peer.produce(namesrv=namesrv, topic=topic, count=12)
    first = peer.ask("litepull", **words, count=12)[:-1]
    assert bodies(first) == Counter(f"body-{index}".encode() for index in range(12))
    peer.produce(namesrv=namesrv, topic=topic, count=4, first=12)
    second = peer.ask("litepull", **words, count=4)[:-1]
    assert bodies(second) == Counter(f"body-{index}".encode() for index in range(12, 16))
    offsets = {event["queueId"]: event["offset"] for event in peer.ask("committed", **words)[:-1]}
    assert sum(offsets.values()) == 16


def test_a_member_of_a_broadcasting_group_resumes_at_its_offset(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    """It keeps its offsets itself."""
    namesrv, _ = our_cluster
    name = f"alone-{topic}-{peer.version}"
    words = {"namesrv": namesrv, "topic": topic, "group": f"alone-{topic}", "model": "broadcast"}
    peer.ask("consume", consumer=name, **words)
    peer.produce(namesrv=namesrv, topic=topic, count=6)
    peer.messages(name, 6)
    peer.ask("stop", consumer=name)
    sent = peer.produce(namesrv=namesrv, topic=topic, count=3, first=6)
    peer.ask("consume", consumer=name, **words)
    again = peer.messages_with(name, {event["msgId"] for event in sent})
    # one that was seen and not yet noted down may come again
    assert len(again) <= 4
    peer.ask("stop", consumer=name)


def test_the_vip_channel_is_another_way_to_the_same_broker(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    """Clients that use it dial the port two below the one that is announced."""
    namesrv, _ = our_cluster
    sent = peer.produce(namesrv=namesrv, topic=topic, count=4, vip=True)
    assert all(event["status"] == "SEND_OK" for event in sent), sent
    consumer = f"vip-{topic}-{peer.version}"
    peer.ask(*("consume",), consumer=consumer, namesrv=namesrv, topic=topic, group=topic, vip=True)
    assert len(bodies(peer.messages(consumer, 4))) == 4
    peer.ask("stop", consumer=consumer)


def test_binary_headers(our_cluster: Cluster, peer: Any, topic: str) -> None:
    namesrv, _ = our_cluster
    consumer = f"binary-{topic}-{peer.version}"
    peer.ask("headers", type="ROCKETMQ")
    try:
        sent = peer.produce(namesrv=namesrv, topic=topic, count=8, tags="A,B", keys="k{i}")
        assert all(event["status"] == "SEND_OK" for event in sent), sent
        words = {"namesrv": namesrv, "topic": topic, "group": topic, "tags": "B"}
        peer.ask("consume", consumer=consumer, **words)
        seen = peer.messages(consumer, 4)
        assert bodies(seen) == Counter(f"body-{index}".encode() for index in (1, 3, 5, 7))
        found = peer.ask("query", namesrv=namesrv, topic=topic, key="k5")[:-1]
        assert [event["uniqKey"] for event in found] == [sent[5]["msgId"]]
        peer.ask("stop", consumer=consumer)
    finally:
        peer.ask("headers", type="JSON")


def test_delayed_messages_come_when_they_are_due(
    our_cluster: Cluster, peer: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    consumer = f"late-{topic}-{peer.version}"
    peer.ask("consume", consumer=consumer, namesrv=namesrv, topic=topic, group=topic)
    peer.produce(namesrv=namesrv, topic=topic, count=4, delayLevel=1, keys="late{i}")
    seen = peer.messages(consumer, 4)
    assert bodies(seen) == Counter(f"body-{index}".encode() for index in range(4))
    for event in seen:
        # level 1 is one second; the clock of the log counts in whole milliseconds
        assert event["storeTimestamp"] - event["bornTimestamp"] >= 999
    peer.ask("stop", consumer=consumer)


def test_other_protocols_are_recognised_and_clients_are_served(
    our_servers: Any, peer_533: Any, tmp_path: Any, until: Callable[..., Any]
) -> None:
    namesrv = our_servers.namesrv(tmp_path)
    broker = our_servers.broker(tmp_path, tmp_path / "store", namesrv)
    host, _, port = broker.address.rpartition(":")
    greetings = {
        "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
        "gRPC": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    }
    peer_533.produce(namesrv=namesrv, topic="Open", count=2)
    for name, greeting in greetings.items():
        with socket.create_connection((host, int(port)), timeout=20) as connection_of_no_client:
            connection_of_no_client.sendall(greeting)
            try:
                assert connection_of_no_client.recv(1) == b""
            except ConnectionResetError:
                pass
        until(lambda name=name: name in broker.text(), f"a log line that contains {name}")
    sent = peer_533.produce(namesrv=namesrv, topic="Open", count=2)
    assert [event["status"] for event in sent] == ["SEND_OK"] * 2
    peer_533.ask("forget", namesrv=namesrv)


@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch"])
def test_messages_of_go_are_read_by_java(
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


def test_go_bodies_big_and_compressed(
    our_cluster: Cluster, go_peer: Callable[..., Any], peer_533: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    go_peer(
        *(),
        do="produce",
        namesrv=namesrv,
        topic=topic,
        group="go-producer",
        count=2,
        size=50_000,
        body="go-",
    )
    _, messages = peer_533.dump(namesrv=namesrv, topic=topic)
    assert [len(base64.b64decode(message["body"])) for message in messages] == [50_000] * 2
    assert all(message["storeSize"] < 5_000 for message in messages)


def test_go_orderly_with_a_failure_in_place(
    our_cluster: Cluster, go_peer: Callable[..., Any], peer_533: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    peer_533.produce(namesrv=namesrv, topic=topic, count=5, queue=1)
    events = go_peer(
        *(),
        do="consume",
        namesrv=namesrv,
        topic=topic,
        group=f"go-{topic}",
        mode="orderly",
        failTimes=1,
        count=10,
        timeoutS=90,
    )
    offsets = [event["queueOffset"] for event in events if event["event"] == "message"]
    assert offsets == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_go_retries_by_way_of_the_retry_topic(
    our_cluster: Cluster, go_peer: Callable[..., Any], peer_533: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    peer_533.produce(namesrv=namesrv, topic=topic, count=1, body="again-")
    words = {"namesrv": namesrv, "topic": topic, "group": f"go-{topic}", "timeoutS": 90}
    events = go_peer(do="consume", **words, failTimes=1, count=2)
    seen = [event for event in events if event["event"] == "message"]
    assert [event["body"] for event in seen] == ["again-0", "again-0"]
    assert [event["reconsumeTimes"] for event in seen] == [0, 1]


def test_go_resumes_pulling_after_its_committed_offset(
    our_cluster: Cluster, go_peer: Callable[..., Any], topic: str
) -> None:
    namesrv, _ = our_cluster
    send = {"do": "produce", "namesrv": namesrv, "topic": topic, "group": "go-producer"}
    words = {"namesrv": namesrv, "topic": topic, "group": f"go-{topic}", "timeoutS": 90}
    go_peer(**send, count=6, body="go-")
    events = go_peer(do="pull", **words, count=6)
    seen = sorted(event["body"] for event in events if event["event"] == "message")
    assert seen == [f"go-{index}" for index in range(6)]
    go_peer(**send, count=3, first=6, body="go-")
    events = go_peer(do="consume", **words, count=3)
    seen = sorted(event["body"] for event in events if event["event"] == "message")
    assert seen == ["go-6", "go-7", "go-8"]


def test_node_retries_by_way_of_the_retry_topic(
    our_cluster: Cluster, node_peer: Callable[..., Any], peer_533: Any, topic: str
) -> None:
    namesrv, _ = our_cluster
    shape = {"body": "again-", "size": 9000, "compressible": True, "compressType": "ZLIB"}
    peer_533.produce(namesrv=namesrv, topic=topic, count=1, **shape)
    words = {"namesrv": namesrv, "topic": topic, "group": f"node-{topic}", "timeoutS": 120}
    events = node_peer(do="consume", **words, failTimes=1, count=2)
    seen = [event for event in events if event["event"] == "message"]
    assert [event["body"][:7] for event in seen] == ["again-0", "again-0"]
    assert [event["reconsumeTimes"] for event in seen] == [0, 1]
