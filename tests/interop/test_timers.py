"""Timers against the real broker: one scenario on both, and stores that change hands."""

import base64
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.common.topic import TIMER_TOPIC
from broker.message.message import PROPERTY_TIMER_ROLL_TIMES as ROLL_TIMES
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.body.timer import TimerMetrics
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.find import message_rows
from mqadmin.inspector.query import Query
from mqadmin.message_row import MessageRow
from mqadmin.repair.store_repair import make_plan, repair

RECALLING = {"recallMessageEnable": "true"}
# Set by brokers and clients on the way; all others are compared by value.
VARYING = ("TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_DELIVER_MS", "UNIQ_KEY")
VARYING += ("MIN_OFFSET", "MAX_OFFSET")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def ask(broker: str, code: int, header: dict[str, str] | None = None) -> RemotingCommand:
    with BlockingClient(timeout_ms=20_000) as client:
        return client.call(broker, request(code, header or {}))


def raw_send(broker: str, topic: str, name: str, properties: dict[str, object]) -> RemotingCommand:
    pairs = {"UNIQ_KEY": name.ljust(32, "0"), "WAIT": "true", **properties}
    header = dict.fromkeys("efhj", "0") | dict.fromkeys("km", "false")
    header |= {"a": "raw", "b": topic, "c": "TBW102", "d": "4", "g": str(now_ms())}
    header["i"] = "".join(f"{key}\1{value}\2" for key, value in pairs.items())
    with BlockingClient(timeout_ms=20_000) as client:
        return client.call(broker, request(RequestCode.SEND_MESSAGE_V2, header, name.encode()))


def raw_recall(broker: str, topic: str, handle: str) -> RemotingCommand:
    header = {"producerGroup": "raw", "topic": topic, "recallHandle": handle, "bname": "broker-a"}
    return ask(broker, RequestCode.RECALL_MESSAGE, header)


def handle_of(topic: str, broker: str, timestamp: object, key: str = "K") -> str:
    return base64.urlsafe_b64encode(f"v1 {topic} {broker} {timestamp} {key}".encode()).decode()


def pending(broker: str, topic: str) -> int:
    metrics = TimerMetrics.from_bytes(ask(broker, RequestCode.GET_TIMER_METRICS).body_bytes())
    return metrics.timing_count[topic].count if topic in metrics.timing_count else 0


def bodies(peer: Any, namesrv: str, topic: str) -> Counter[str]:
    _, messages = peer.dump(namesrv=namesrv, topic=topic)
    return Counter(base64.b64decode(message["body"]).decode() for message in messages)


def scenario(
    peer: Any, namesrv: str, broker: str, make_topic: Any, until: Callable[..., Any]
) -> list[Any]:
    """Everything a producer and a consumer of timers see, ids and times aside."""
    topic = "Timers"
    make_topic(broker, topic)
    events: list[Any] = []
    soon = {"namesrv": namesrv, "topic": topic, "queue": 1, "tags": "A", "keys": "k"}
    for name, system in {
        "sec": {"TIMER_DELAY_SEC": 3},
        "ms": {"TIMER_DELAY_MS": 2500},
        "at": {"TIMER_DELIVER_MS": now_ms() + 3000},
        "past": {"TIMER_DELIVER_MS": 1},
        "level": {"DELAY": 1, "TIMER_DELAY_SEC": 3600},
        "kept": {"TIMER_DELAY_SEC": 6},
        "recalled": {"TIMER_DELAY_SEC": 6},
        "far": {"TIMER_DELAY_SEC": 3 * 86_400},
    }.items():
        (sent,) = peer.produce(**soon, body=name, system=system)
        handle = sent["recallHandle"]
        events.append((name, sent["event"], sent.get("status"), sent.get("queueId"), bool(handle)))
        if name in ("recalled", "far"):
            (recalled, _) = peer.ask("recall", namesrv=namesrv, topic=topic, handle=handle)
            same = recalled.get("msgId") == sent["msgId"]
            events.append((name, "recalled", same, recalled.get("code")))
    late = handle_of(topic, "broker-a", now_ms() - 1)
    for handle in (late, handle_of("Other", "broker-a", now_ms() + 5000), "@@@", "djI="):
        events.append(("recall", raw_recall(broker, topic, handle).code))
    for target, handle in (
        (topic, handle_of(topic, "broker-b", now_ms() + 5000)),
        (topic, handle_of(topic, "broker-a", now_ms() + 4 * 86_400_000)),
        (topic, handle_of(topic, "broker-a", "soon")),
        ("Unknown", handle_of("Unknown", "broker-a", now_ms() + 5000)),
    ):
        events.append(("recall", raw_recall(broker, target, handle).code))
    for name, properties in {
        "beyond": {"TIMER_DELAY_SEC": 3 * 86_400 + 60},
        "text": {"TIMER_DELIVER_MS": "soon"},
        "wrapped": {"TIMER_DELAY_MS": 2**63 - 1},
        "huge": {"TIMER_DELAY_SEC": 2**63},
        "negative": {"TIMER_DELAY_SEC": -5},
        "lateDelete": {"TIMER_DELIVER_MS": 1, "TIMER_DEL_UNIQKEY": "x"},
        "delayed copy": {"TIMER_DELAY_SEC": 3600, "TIMER_OUT_MS": 5},
    }.items():
        answer = raw_send(broker, topic, name, properties)
        events.append((name, answer.code, "recallHandle" in answer.ext_fields))
    expected = 9  # sec, ms, at, past, level, kept, wrapped, negative, delayed copy
    until(lambda: sum(bodies(peer, namesrv, topic).values()) >= expected, "the deliveries")
    _, messages = peer.dump(namesrv=namesrv, topic=topic)
    delivered = []
    for message in messages:
        properties = {k: v for k, v in message["properties"].items() if k not in VARYING}
        names = sorted(message["properties"].keys() - {"MIN_OFFSET", "MAX_OFFSET"})
        text = base64.b64decode(message["body"]).decode()
        delivered.append((text, message["queueId"], message["tags"], names, properties))
        due = message["properties"].get("TIMER_OUT_MS")
        if due is not None and text not in ("delayed copy",):
            late_ms = message["storeTimestamp"] - int(due) - 1000
            assert late_ms >= 0, (text, late_ms)
    events += sorted(delivered, key=lambda entry: str(entry[0]))
    until(lambda: pending(broker, topic) == 0, "no message is pending")
    events.append(("pending", pending(broker, topic)))
    return events


def test_producers_and_consumers_of_timers_see_the_same_on_both_brokers(
    our_servers: Any,
    java_servers: Any,
    peer_533: Any,
    make_topic: Any,
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    seen = {}
    for name, servers in (("java", java_servers), ("ours", our_servers)):
        namesrv = servers.namesrv(tmp_path / name)
        store = tmp_path / name / "store"
        broker = servers.broker(tmp_path / name, store, namesrv, **RECALLING)
        seen[name] = scenario(peer_533, namesrv, broker.address, make_topic, until)
        peer_533.ask("forget", namesrv=namesrv)
    assert seen["ours"] == seen["java"]


def test_recall_is_forbidden_by_default_on_both_brokers(
    our_cluster: tuple[str, str], java_cluster: tuple[str, str]
) -> None:
    handle = handle_of("T", "broker-a", now_ms() + 5000)
    codes = {raw_recall(broker, "T", handle).code for _, broker in (our_cluster, java_cluster)}
    assert codes == {16}


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize("first", ["java", "ours"])
def test_a_store_moves_with_timers_pending_and_back(
    our_servers: Any,
    java_servers: Any,
    peer_533: Any,
    make_topic: Any,
    until: Callable[..., Any],
    tmp_path: Path,
    first: str,
    ending: str,
) -> None:
    """Messages due before, while and after the store changes hands are each delivered once.

    Java repeats the deliveries and the rolls between the last checkpoint and a kill, by whichever
    broker; a message that was rolled twice is delivered twice.
    """
    store = tmp_path / "store"
    settings = {**RECALLING, "mappedFileSizeTimerLog": 52 * 100 + 16, "timerRollWindowSlot": 8}
    servers = {"java": java_servers, "ours": our_servers}
    second = "ours" if first == "java" else "java"
    namesrv = our_servers.namesrv(tmp_path / "names")
    words = {"namesrv": namesrv, "topic": "Moving", "queue": 0}
    handles = {}
    killed_ms: list[int] = []

    def produce(prefix: str) -> None:
        # seconds apart: while the broker changes, and through several rolls
        for delay in (2, 4, 7, 12, 20, 30, 55):
            for copy in range(3):
                name = f"{prefix}-{delay}-{copy}-"
                (sent,) = peer_533.produce(**words, body=name, system={"TIMER_DELAY_SEC": delay})
                assert sent["status"] == "SEND_OK", sent
                handles[name + "0"] = sent["recallHandle"]

    def recall(name: str) -> None:
        (event, _) = peer_533.ask(
            "recall", namesrv=namesrv, topic="Moving", handle=handles.pop(name)
        )
        assert "msgId" in event, event

    for number, side in enumerate((first, second, first)):
        broker = servers[side].broker(tmp_path / f"{side}{number}", store, namesrv, **settings)
        if number == 0:
            make_topic(broker.address, "Moving", queues=1)
        produce(f"{side}{number}")
        recall(f"{side}{number}-55-1-0")
        if number:
            before = second if number == 2 else first
            recall(f"{before}{number - 1}-55-2-0")  # stored by the other broker
        early = f"{side}{number}-4-2-0"
        until(lambda name=early: name in bodies(peer_533, namesrv, "Moving"), early)
        if number < 2 and (ending == "stop" or side == "java"):
            broker.stop()
        elif number < 2:
            killed_ms.append(now_ms())
            broker.kill()
        peer_533.ask("forget", namesrv=namesrv)
    until(lambda: bodies(peer_533, namesrv, "Moving").keys() >= handles.keys(), "all deliveries")
    broker.stop()
    delivered, rolled = stored_ms(store, "Moving"), stored_ms(store, TIMER_TOPIC, ROLL_TIMES)
    assert delivered.keys() == handles.keys()
    repeated = {name: times for name, times in delivered.items() if len(times) > 1}
    excused = {
        name
        for name in repeated
        for time_ms in (*delivered[name], *rolled[name])
        if any(-3_000 < time_ms - killed <= 0 for killed in killed_ms)
    }
    assert repeated.keys() == excused, (repeated, rolled, killed_ms)


def stored_ms(store: Path, topic: str, marked: str = "") -> dict[str, list[int]]:
    """The storeTimestamps of each message of ``topic``, of those with the property ``marked``."""
    times: dict[str, list[int]] = defaultdict(list)
    for row in message_rows(StoreDirectory(store), Query(topic=topic, body="text")):
        assert isinstance(row, MessageRow), row
        if not marked or marked in row.properties:
            times[str(row.body)].append(row.store_timestamp)
    return times


def lose_the_wheel(store: Path) -> None:
    (store / "timerwheel").unlink()


def zero_the_timer_log(store: Path) -> None:
    path = min((store / "timerlog").iterdir())
    with path.open("r+b") as file:
        file.write(bytes(52 * 3))


@pytest.mark.parametrize("harm", [lose_the_wheel, zero_the_timer_log])
@pytest.mark.parametrize("first", ["java", "ours"])
def test_the_java_broker_delivers_the_timers_of_a_repaired_store(
    our_servers: Any,
    java_servers: Any,
    peer_533: Any,
    make_topic: Any,
    until: Callable[..., Any],
    tmp_path: Path,
    first: str,
    harm: Callable[[Path], None],
) -> None:
    """The repair rebuilds wheel and log from the timer queue; each message is delivered once."""
    servers = {"java": java_servers, "ours": our_servers}
    namesrv = our_servers.namesrv(tmp_path / "names")
    store, repaired = tmp_path / "store", tmp_path / "repaired"
    broker = servers[first].broker(tmp_path / "first", store, namesrv)
    make_topic(broker.address, "Later", queues=1)
    names = set()
    words = {"namesrv": namesrv, "topic": "Later", "queue": 0}
    for delay in (15, 20, 30):
        for copy in range(2):
            name = f"{delay}-{copy}-"
            (sent,) = peer_533.produce(**words, body=name, system={"TIMER_DELAY_SEC": delay})
            assert sent["status"] == "SEND_OK", sent
            names.add(name + "0")
    until(lambda: pending(broker.address, "Later") == len(names), "all are in the wheel")
    broker.stop()
    peer_533.ask("forget", namesrv=namesrv)
    harm(store)
    result = repair(make_plan(StoreDirectory(store)), repaired)
    assert result.ok, result.findings
    java = java_servers.broker(tmp_path / "java", repaired, namesrv)
    until(lambda: bodies(peer_533, namesrv, "Later").keys() >= names, "all deliveries")
    assert bodies(peer_533, namesrv, "Later") == Counter(names)
    java.stop()
    peer_533.ask("forget", namesrv=namesrv)
