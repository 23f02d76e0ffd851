"""A store directory moves between our broker and the real one, both ways, and nothing is lost."""

import base64
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

RECORDED = ["normal-stop-533", "kill9-async-533", "kill9-sync-498", "normal-stop-498", "ipv6-533"]

View = dict[tuple[str, int, int], dict[str, Any]]

SAME = (
    *("physicalOffset", "storeSize", "body", "tags", "keys", "properties", "uniqKey", "msgId"),
    *("bornTimestamp", "storeTimestamp", "bornHost", "storeHost", "sysFlag", "flag", "bodyCRC"),
    *("reconsumeTimes", "preparedTransactionOffset"),
)


def view(peer: Any, namesrv: str, topics: list[str]) -> tuple[dict[str, Any], View]:
    """Queue bounds by topic and every message by its place, as the Java client sees them."""
    bounds, messages = {}, {}
    for topic in topics:
        bounds[topic], found = peer.dump(namesrv=namesrv, topic=topic)
        for message in found:
            place = (message["topic"], message["queueId"], message["queueOffset"])
            messages[place] = {name: message[name] for name in SAME}
            # the client adds these when it pulls; they describe the queue, not the message
            for moving in ("MIN_OFFSET", "MAX_OFFSET"):
                messages[place]["properties"].pop(moving, None)
    return bounds, messages


def keys_of(messages: View) -> list[tuple[str, str]]:
    pairs = {
        (topic, key)
        for (topic, _, _), message in messages.items()
        for key in (message["keys"] or "").split(" ")
        if key
    }
    return sorted(pairs)[:12]


def by_key(peer: Any, namesrv: str, pairs: list[tuple[str, str]]) -> dict[Any, list[str]]:
    answers = {}
    for topic, key in pairs:
        events = peer.try_ask("query", namesrv=namesrv, topic=topic, key=key)
        answers[topic, key] = sorted(e["body"] for e in events if e["event"] == "message")
    return answers


def committed(peer: Any, namesrv: str, topic: str, group: str) -> dict[int, int]:
    events = peer.ask("committed", namesrv=namesrv, topic=topic, group=group)
    return {e["queueId"]: e["offset"] for e in events if e["event"] == "committed"}


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_store_we_wrote_opens_in_the_java_broker(
    our_servers: Any, java_servers: Any, peer_533: Any, tmp_path: Path, ending: str
) -> None:
    store = tmp_path / "store"
    sizes = {"mappedFileSizeCommitLog": 1048576, "mappedFileSizeConsumeQueue": 6000}
    namesrv = our_servers.namesrv(tmp_path / "ours")
    broker = our_servers.broker(tmp_path / "ours", store, namesrv, **sizes)
    peer_533.produce(
        *(),
        namesrv=namesrv,
        topic="Moved",
        count=900,
        mode="async",
        size=2000,
        keys="k{i}",
        tags="A,B",
    )
    peer_533.produce(namesrv=namesrv, topic="Batch", count=50, mode="batch", keys="b{i}")
    peer_533.ask(
        "committed", namesrv=namesrv, topic="Moved", group=f"moved-{ending}", queue=1, offset=7
    )
    before = view(peer_533, namesrv, ["Moved", "Batch"])
    pairs = keys_of(before[1])
    answers = by_key(peer_533, namesrv, pairs)
    assert all(answers.values())
    if ending == "stop":
        broker.stop()
        assert not (store / "abort").exists()
    else:
        # consumer offsets reach the disk every five seconds
        offsets = store / "config" / "consumerOffset.json"
        for _ in range(600):
            if offsets.exists() and f"moved-{ending}" in offsets.read_text():
                break
            time.sleep(0.05)
        broker.kill()
        assert (store / "abort").exists()
    java_namesrv = java_servers.namesrv(tmp_path / "java-ns")
    java = java_servers.broker(tmp_path / "java", store, java_namesrv, **sizes)
    assert view(peer_533, java_namesrv, ["Moved", "Batch"]) == before
    assert by_key(peer_533, java_namesrv, pairs) == answers
    assert committed(peer_533, java_namesrv, "Moved", f"moved-{ending}")[1] == 7
    java.stop()


@pytest.mark.parametrize("recorded", RECORDED)
def test_a_recorded_java_store_is_continued_by_us_and_given_back(
    our_servers: Any,
    java_servers: Any,
    peer_533: Any,
    golden_store: Any,
    tmp_path: Path,
    recorded: str,
) -> None:
    store, conf, expected = golden_store(recorded)
    sizes = {
        key: value
        for key, value in (
            line.split("=", 1) for line in Path(conf).read_text().splitlines() if "=" in line
        )
        if key
        in (
            "mappedFileSizeCommitLog",
            "mappedFileSizeConsumeQueue",
            "maxHashSlotNum",
            "maxIndexNum",
        )
    }
    topics = sorted(
        {
            message["topic"]
            for message in expected["messages"]
            if not message["topic"].startswith(("%", "rmq_sys", "SCHEDULE", "RMQ_SYS", "TRANS"))
        }
    )
    name = expected["brokerName"]
    namesrv = our_servers.namesrv(tmp_path / "ours")
    ours = our_servers.broker(tmp_path / "ours", Path(store), namesrv, brokerName=name, **sizes)
    _, messages = view(peer_533, namesrv, topics)
    told = {
        (m["topic"], m["queueId"], m["queueOffset"]): m["bodyMd5"]
        for m in expected["messages"]
        if m["topic"] in topics and m.get("storeSize")
    }
    assert set(told) <= set(messages)
    added = peer_533.produce(
        namesrv=namesrv, topic=topics[0], count=20, keys="continued{i}", body="continued-"
    )
    assert all(event["status"] == "SEND_OK" for event in added), added
    after = view(peer_533, namesrv, topics)
    assert len(after[1]) == len(messages) + 20
    assert {place: after[1][place] for place in messages} == messages
    pairs = [(topics[0], "continued3"), *keys_of(messages)]
    answers = by_key(peer_533, namesrv, pairs)
    assert answers[topics[0], "continued3"] == [base64.b64encode(b"continued-3").decode()]
    ours.stop()
    kept = shutil.copytree(store, tmp_path / "kept")
    java_namesrv = java_servers.namesrv(tmp_path / "java-ns")
    java = java_servers.broker(tmp_path / "java", kept, java_namesrv, brokerName=name, **sizes)
    assert view(peer_533, java_namesrv, topics) == after
    assert by_key(peer_533, java_namesrv, pairs) == answers
    java.stop()
