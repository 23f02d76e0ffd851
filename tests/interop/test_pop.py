"""POP and the real broker: the same requests, a Java consumer in POP mode, exchanged stores."""

import base64
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from broker.message.message import MessageExt
from broker.message.receipt_handle import decode_handle
from broker.message.record import scan_records
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from tests.support.pop_mode import set_request_mode

QUICK = {"flushConsumerOffsetInterval": "1000"}
LATE_MS = 3_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class PopPeer:
    """Sends, pops and acknowledges by raw requests, so that both brokers get the same bytes."""

    def __init__(self, broker: str, topic: str, group: str) -> None:
        self.broker = broker
        self.topic = topic
        self.group = group
        self.client = BlockingClient(timeout_ms=60_000)

    def ask(self, code: int, header: dict[str, Any], body: bytes = b"") -> RemotingCommand:
        fields = {name: str(value) for name, value in header.items()}
        return self.client.call(self.broker, request(code, fields, body))

    def send(self, name: str, queue_id: int = 0, **properties: str) -> None:
        pairs = {"UNIQ_KEY": name.ljust(32, "0"), "WAIT": "true", **properties}
        header = dict.fromkeys("fhj", "0") | dict.fromkeys("km", "false")
        header |= {"a": "raw", "b": self.topic, "c": "TBW102", "d": "4", "g": str(now_ms())}
        header |= {"e": str(queue_id)}
        header["i"] = "".join(f"{key}\1{value}\2" for key, value in pairs.items())
        answer = self.ask(RequestCode.SEND_MESSAGE_V2, header, name.encode())
        assert answer.code == 0, answer.remark

    def visible(self, *counts: int) -> None:
        """Wait until each queue has so many messages: a Java broker dispatches in a thread."""
        for queue_id, count in enumerate(counts):
            header = {"topic": self.topic, "queueId": queue_id}
            deadline = time.monotonic() + 20
            while True:
                answer = self.ask(RequestCode.GET_MAX_OFFSET, header)
                if int(answer.ext_fields["offset"]) >= count:
                    break
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def pop_raw(self, **fields: Any) -> RemotingCommand:
        header = {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": -1,
            "maxMsgNums": 32,
            "invisibleTime": 60_000,
            "pollTime": 0,
            "bornTime": now_ms(),
            "initMode": 0,
            "order": "false",
            **fields,
        }
        return self.ask(RequestCode.POP_MESSAGE, header)

    def pop_unlocked(self, **fields: Any) -> RemotingCommand:
        """A pop that is repeated while it finds messages left and none to return.

        A Java broker unlocks a queue after the response of a pop: the next one may be too early.
        """
        deadline = time.monotonic() + 20
        while True:
            answer = self.pop_raw(**fields)
            if answer.ext_fields["startOffsetInfo"] or answer.ext_fields["restNum"] == "0":
                return answer
            assert time.monotonic() < deadline

    def pop(self, **fields: Any) -> list[tuple[MessageExt, str]]:
        """(message, receipt handle) of a pop."""
        answer = self.pop_raw(**fields)
        return with_handles(answer) if answer.code == 0 else []

    def about(self, message: MessageExt, handle: str) -> dict[str, Any]:
        flag = decode_handle(handle).retry_flag
        kinds = {"0": self.topic, "1": f"%RETRY%{self.group}_{self.topic}"}
        return {
            "consumerGroup": self.group,
            "topic": kinds.get(flag, f"%RETRY%{self.group}+{self.topic}"),
            "queueId": message.queue_id,
            "offset": message.queue_offset,
            "extraInfo": handle,
        }

    def ack(self, message: MessageExt, handle: str, **fields: Any) -> int:
        return self.ask(RequestCode.ACK_MESSAGE, {**self.about(message, handle), **fields}).code

    def change(self, message: MessageExt, handle: str, invisible_ms: int) -> RemotingCommand:
        header = {**self.about(message, handle), "invisibleTime": invisible_ms}
        return self.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)

    def await_pop(self, count: int, patience_s: float = 30) -> list[tuple[MessageExt, str, int]]:
        """Pop until ``count`` messages came; each with the time (ms) of its arrival."""
        found: list[tuple[MessageExt, str, int]] = []
        deadline = time.monotonic() + patience_s
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
            popped = self.pop(pollTime=2_000)
            found += [(message, handle, now_ms()) for message, handle in popped]
        return found

    def close(self) -> None:
        self.client.close()


def with_handles(answer: RemotingCommand) -> list[tuple[MessageExt, str]]:
    ext = answer.ext_fields
    starts = {
        (item.split(" ")[0], item.split(" ")[1]): item.split(" ")[2]
        for item in ext["startOffsetInfo"].split(";")
    }
    found = []
    for message in scan_records(answer.body_bytes(), check_crc=True):
        handle = message.get_property("POP_CK")
        if handle is None:
            start = starts["0", str(message.queue_id)]
            handle = (
                f"{start} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 broker-a"
                f" {message.queue_id} {message.queue_offset}"
            )
        found.append((message, handle))
    return found


def texts(popped: list[Any]) -> list[str]:
    return sorted(one[0].body.decode() for one in popped)


def shape(answer: RemotingCommand) -> tuple[int, str | None, list[str]]:
    """The parts of an answer that clients depend on, numbers aside."""
    return answer.code, answer.remark if answer.code == 0 else None, sorted(answer.ext_fields)


def basics(peer: PopPeer) -> Iterator[Any]:
    """Pops, acknowledgements, filters and refusals of one queue layout."""
    yield "empty", shape(peer.pop_raw())
    for number in range(6):
        peer.send(f"m{number}", number % 2, TAGS="AB"[number % 2])
    peer.visible(3, 3)
    first = peer.pop_raw(maxMsgNums=4)
    yield "first", shape(first), first.ext_fields["restNum"], len(with_handles(first))
    second = peer.pop_unlocked()
    yield "second", second.ext_fields["restNum"], len(with_handles(second))
    yield "third", shape(peer.pop_raw())
    popped = with_handles(first) + with_handles(second)
    yield "all", texts(popped)
    yield "acks", [peer.ack(*one) for one in popped], [peer.ack(*one) for one in popped]
    message, handle = popped[0]
    for fields in (
        {"topic": "Unknown"},
        {"queueId": 9},
        {"queueId": -1},
        {"offset": 99},
        {"offset": -1},
        {"extraInfo": "junk"},
        {"extraInfo": "a b c d e f g h"},
        {"extraInfo": "0 1 2 0 0 broker-a 0 0"},
    ):
        yield "bad ack", fields, peer.ack(message, handle, **fields)
    other = next(one for one in popped if one[0].queue_id != message.queue_id)
    yield "foreign ack", peer.ack(message, other[1]), peer.ack(message, handle)
    header = {**peer.about(message, handle), "invisibleTime": 1_000}
    yield (
        "foreign change",
        peer.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {**header, "extraInfo": other[1]}).code,
    )
    for fields in ({"topic": "Unknown"}, {"queueId": 9}, {"offset": 99}, {"extraInfo": "junk"}):
        answer = peer.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {**header, **fields})
        yield "bad change", fields, answer.code
    for fields in (
        {"topic": "Unknown"},
        {"queueId": 9},
        {"maxMsgNums": 33},
        {"bornTime": now_ms() - 10_000, "pollTime": 100},
        {"exp": "(", "expType": "SQL92"},
    ):
        yield "bad pop", list(fields), peer.pop_raw(**fields).code
    empty = peer.ask(RequestCode.BATCH_ACK_MESSAGE, {}, b'{"brokerName":"broker-a","acks":[]}')
    yield "empty batch", empty.code
    for code in (RequestCode.NOTIFICATION, RequestCode.POLLING_INFO, RequestCode.PEEK_MESSAGE):
        fields = {
            "consumerGroup": peer.group, "topic": peer.topic, "queueId": -1, "pollTime": 0,
            "bornTime": now_ms(), "maxMsgNums": 8,
        }  # fmt: skip
        answer = peer.ask(code, fields)
        yield code, answer.code, sorted(answer.ext_fields), answer.ext_fields.get("hasMsg")
        yield code, peer.ask(code, {**fields, "topic": "Unknown"}).code


def tags(peer: PopPeer) -> Iterator[Any]:
    """A tag filter passes over the messages of other tags."""
    for number in range(6):
        peer.send(f"t{number}", 0, TAGS="AB"[number % 2])
    peer.visible(6)
    yield "tag A", texts(peer.pop(exp="A", expType="TAG"))
    yield "nothing left", peer.pop_raw(exp="A", expType="TAG").code


def redelivery(peer: PopPeer) -> Iterator[Any]:
    """Unacknowledged messages come again, changed ones at their new time."""
    for number in range(4):
        peer.send(f"r{number}")
    peer.visible(4)
    popped = peer.pop(invisibleTime=4_000)
    by_text = {message.body.decode(): (message, handle) for message, handle in popped}
    yield "ack", peer.ack(*by_text["r0"])
    changed = peer.change(*by_text["r1"], 9_000)
    yield "change", changed.code, sorted(changed.ext_fields)  # Java adds an idle remark
    again = peer.await_pop(3)
    due_ms = {name: decode_handle(by_text[name][1]).due_ms for name in ("r2", "r3")}
    due_ms["r1"] = int(changed.ext_fields["popTime"]) + 9_000
    late = [at - due_ms[message.body.decode()] for message, _, at in again]
    assert min(late) >= 0, late
    peer_times.setdefault(peer.broker, []).extend(late)
    yield "again", texts(again), [message.reconsume_times for message, _, _ in again]
    for message, handle, _ in again:
        names = set(message.properties) - {"POP_CK", "1ST_POP_TIME"}
        yield message.body, message.topic, decode_handle(handle).retry_flag, sorted(names)
        yield "ack again", peer.ack(message, handle)
    time.sleep(1)
    yield "done", peer.pop_raw(pollTime=1_000).code


def ordered(peer: PopPeer) -> Iterator[Any]:
    """An ordered pop blocks its queue; the counts are those of its deliveries."""
    for number in range(4):
        peer.send(f"o{number}")
    peer.visible(4)
    answer = peer.pop_raw(order="true", maxMsgNums=2, invisibleTime=5_000, attemptId="one")
    first = with_handles(answer)
    yield "batch", shape(answer), texts(first), answer.ext_fields["reviveQid"]
    yield "counts", answer.ext_fields.get("orderCountInfo")
    yield "blocked", peer.pop_raw(order="true").code
    same = peer.pop_unlocked(order="true", maxMsgNums=2, invisibleTime=5_000, attemptId="one")
    yield "same attempt", texts(with_handles(same))
    (message, handle), (other, other_handle) = with_handles(same)
    yield "ack", peer.ack(message, handle), peer.pop_raw(order="true").code
    yield "illegal", peer.ack(message, handle, offset=3)
    deadline = time.monotonic() + 20
    while (answer := peer.pop_raw(order="true", maxMsgNums=2)).code != 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield "after its time", texts(with_handles(answer)), answer.ext_fields["orderCountInfo"]
    yield "late ack", peer.ack(other, other_handle)
    yield "acks", [peer.ack(*one) for one in with_handles(answer)]
    yield "rest", texts(peer.pop(order="true"))


peer_times: dict[str, list[int]] = {}
SCENARIOS: list[Callable[[PopPeer], Iterator[Any]]] = [basics, tags, redelivery, ordered]


@pytest.mark.parametrize("version_2", ["false", "true"])
def test_the_same_requests_have_the_same_outcome_on_both_brokers(
    version_2: str,
    our_servers: Any,
    java_servers: Any,
    make_topic: Callable[..., None],
    tmp_path: Path,
) -> None:
    seen: dict[str, dict[str, list[Any]]] = {}
    for name, servers in (("java", java_servers), ("ours", our_servers)):
        namesrv = servers.namesrv(tmp_path / name)
        broker = servers.broker(
            tmp_path / name, tmp_path / name / "store", namesrv, enableRetryTopicV2=version_2
        ).address
        seen[name] = {}
        for scenario in SCENARIOS:
            topic = f"Pop{scenario.__name__}"
            make_topic(broker, topic, 2)
            peer = PopPeer(broker, topic, f"CG{scenario.__name__}")
            try:
                seen[name][scenario.__name__] = list(scenario(peer))
            finally:
                peer.close()
    different = [
        (name, ours, java)
        for name in seen["java"]
        for ours, java in zip_longest(seen["ours"][name], seen["java"][name])
        if ours != java
    ]
    assert not different, "\n".join(map(repr, different))
    assert all(late <= LATE_MS for late in peer_times[broker])


def consumed(
    peer: Any, namesrv: str, broker: str, make_topic: Callable[..., None], until: Callable[..., Any]
) -> list[Any]:
    """Deliveries to a Java push consumer in POP mode: each message fails once, then succeeds."""
    make_topic(broker, "PopPush", 2)
    set_request_mode(broker, "PopPush", "CGPopPush")
    peer.produce(namesrv=namesrv, topic="PopPush", count=8, tags="A")
    name = f"popper-{namesrv}"
    peer.ask(
        "consume", consumer=name, namesrv=namesrv, topic="PopPush", group="CGPopPush",
        pop=True, invisibleMs=10_000, failTimes=1,
    )  # fmt: skip
    events = peer.messages(name, 16)
    peer.ask("stop", consumer=name)
    seen = Counter(
        (event["topic"], base64.b64decode(event["body"]), event["reconsumeTimes"])
        for event in events
    )
    return sorted(seen.items())


def test_a_java_push_consumer_in_pop_mode_sees_the_same_on_both_brokers(
    our_servers: Any,
    java_servers: Any,
    peer_533: Any,
    make_topic: Callable[..., None],
    until: Callable[..., Any],
    tmp_path: Path,
) -> None:
    seen = {}
    for name, servers in (("java", java_servers), ("ours", our_servers)):
        namesrv = servers.namesrv(tmp_path / name)
        broker = servers.broker(tmp_path / name, tmp_path / name / "store", namesrv)
        seen[name] = consumed(peer_533, namesrv, broker.address, make_topic, until)
        peer_533.ask("forget", namesrv=namesrv)
    assert seen["ours"] == seen["java"]
    assert {times for (_, _, times), _ in seen["ours"]} == {0, 1}


@pytest.mark.parametrize("merge", ["false", "true"])
@pytest.mark.parametrize("first", ["java", "ours"])
def test_open_check_points_move_with_the_store_to_the_other_broker(
    first: str,
    merge: str,
    our_servers: Any,
    java_servers: Any,
    make_topic: Callable[..., None],
    tmp_path: Path,
) -> None:
    """Acknowledged messages do not come again, the others do, each once; orders stay blocked."""
    servers = {"java": java_servers, "ours": our_servers}
    second = "ours" if first == "java" else "java"
    namesrv = java_servers.namesrv(tmp_path)
    settings = {**QUICK, "enablePopBufferMerge": merge}
    store = tmp_path / "store"
    broker = servers[first].broker(tmp_path / "one", store, namesrv, **settings)
    make_topic(broker.address, "PopMove", 2)
    make_topic(broker.address, "PopMoveOrder", 1)
    peer = PopPeer(broker.address, "PopMove", "CGMove")
    for number in range(8):
        peer.send(f"m{number}", number % 2)
    peer.visible(4, 4)
    popped = {one[0].body.decode(): one for one in peer.pop(invisibleTime=25_000)}
    assert len(popped) == 8
    for name in ("m0", "m3", "m5"):
        assert peer.ack(*popped[name]) == 0
    changed = peer.change(*popped["m6"], 40_000)
    assert changed.code == 0
    orders = PopPeer(broker.address, "PopMoveOrder", "CGMoveOrder")
    for number in range(3):
        orders.send(f"o{number}")
    orders.visible(3)
    batch = orders.pop(order="true", maxMsgNums=2, invisibleTime=600_000)
    assert texts(batch) == ["o0", "o1"]
    orders.close()
    peer.close()
    broker.stop()
    broker = servers[second].broker(tmp_path / "two", store, namesrv, **settings)
    peer = PopPeer(broker.address, "PopMove", "CGMove")
    again = peer.await_pop(5, 90)
    for message, handle, _ in again:
        assert peer.ack(message, handle) == 0
    times = {message.body.decode(): at for message, _, at in again}
    assert sorted(times) == ["m1", "m2", "m4", "m6", "m7"]
    due_ms = {name: decode_handle(popped[name][1]).due_ms for name in times}
    due_ms["m6"] = int(changed.ext_fields["popTime"]) + 40_000
    assert all(times[name] >= due_ms[name] for name in times), (times, due_ms)
    assert [message.reconsume_times for message, _, _ in again] == [1] * 5
    orders = PopPeer(broker.address, "PopMoveOrder", "CGMoveOrder")
    assert orders.pop(order="true") == []
    assert [orders.ack(*one) for one in batch] == [0, 0]
    assert texts(orders.pop(order="true")) == ["o2"]
    orders.close()
    time.sleep(2)
    assert peer.pop_raw(pollTime=1_000).code == 210
    peer.close()
    broker.stop()
