"""Transactions: Java clients at the Java broker and at ours, compared event by event."""

import base64
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.message.message_id import offset_msg_id
from broker.message.properties import encode_properties
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request

NAMES = itertools.count()
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DISCARDED = "TRANS_CHECK_MAX_TIME_TOPIC"
QUICK = {
    "transactionTimeOut": 500,
    "transactionCheckInterval": 1000,
    "transactionOpBatchInterval": 200,
    "flushConsumerOffsetInterval": 500,
    "transactionCheckMax": 4,
}
# Added by the client when it pulls, or different from run to run.
VOLATILE = (
    *("MIN_OFFSET", "MAX_OFFSET", "UNIQ_KEY", "__transactionId__", "CLUSTER"),
    *("REAL_TOPIC", "REAL_QID", "PGROUP"),
)

Events = list[dict[str, Any]]


class Side:
    """One broker with its name server, and a transactional producer there."""

    def __init__(self, peer: Any, namesrv: str, broker: str) -> None:
        self.peer = peer
        self.namesrv = namesrv
        self.broker = broker
        self.number = next(NAMES)
        self.topic = f"Ledger{self.number}"
        self.producer = f"tx-{self.number}"
        self.started: set[str] = set()
        self.words = {
            "namesrv": namesrv,
            "topic": self.topic,
            "group": f"PG-{self.number}",
            "producer": self.producer,
        }

    def send(self, local: str, check: str, count: int = 1, **words: Any) -> Events:
        self.started.add(self.producer)
        own = {"local": local, "check": check, **words.pop("properties", {})}
        events = self.peer.ask(
            "transaction", **{**self.words, "count": count, "properties": own, **words}
        )
        return [event for event in events if event["event"] != "end"]

    def register(self, until: Callable[..., Any]) -> None:
        """Start the producer and wait until the broker knows it: a check needs a live producer.

        The first sends fail while the name server has no route of the broker.
        """
        until(
            lambda: self.send("commit", "commit", topic="First")[0]["event"] == "sent",
            "the name server has a route",
        )
        fields = {"producerGroup": self.words["group"]}
        code = RequestCode.GET_PRODUCER_CONNECTION_LIST
        until(lambda: self.call(code, fields).code == 0, "the producer is registered")

    def half(self, sent: dict[str, Any]) -> dict[str, Any]:
        """The newest half message of a sent one."""
        return [e for e in self.dump(HALF) if e["uniqKey"] == sent["msgId"]][-1]

    def checks(self, count: int) -> Events:
        """The next checks of messages of the topic; a slow first send is checked, too."""
        found: Events = []
        while len(found) < count:
            checks = self.peer.messages(self.producer, 1)
            found += [check for check in checks if check["topic"] == self.topic]
        return found

    def visible(self) -> Events:
        return self.peer.dump(namesrv=self.namesrv, topic=self.topic)[1]

    def bodies(self) -> list[str]:
        return sorted(base64.b64decode(event["body"]).decode() for event in self.visible())

    def dump(self, topic: str) -> Events:
        events = self.peer.try_ask("dump", namesrv=self.namesrv, topic=topic)
        return [event for event in events if event["event"] == "message"]

    def call(self, code: int, fields: dict[str, Any], body: bytes = b"") -> RemotingCommand:
        with BlockingClient(timeout_ms=20_000) as client:
            named = {name: str(value) for name, value in fields.items()}
            return client.call(self.broker, request(code, named, body))

    def end(self, half: dict[str, Any], decision: int, **changes: Any) -> tuple[int, str | None]:
        """END_TRANSACTION for a record of the half topic: code and remark of the answer."""
        fields = {
            "producerGroup": self.words["group"],
            "tranStateTableOffset": half["queueOffset"],
            "commitLogOffset": half["physicalOffset"],
            "commitOrRollback": decision,
            "msgId": half["uniqKey"],
            "transactionId": half["uniqKey"],
            **changes,
        }
        answer = self.call(RequestCode.END_TRANSACTION, fields)
        return answer.code, answer.remark

    def offset_id(self, event: dict[str, Any]) -> str:
        """The offset message id of a record of this broker."""
        return offset_msg_id(self.broker, event["physicalOffset"])

    def raw_half(self, **properties: str) -> RemotingCommand:
        """Send a half message that a Java client would not send; the answer."""
        given = {
            "TRAN_MSG": "true",
            "PGROUP": self.words["group"],
            "WAIT": "true",
            "UNIQ_KEY": f"7F{self.number:030d}",
            **properties,
        }
        plain = dict(
            zip(
                "acdefhjkm",
                (self.words["group"], "TBW102", 4, 1, 4, 9, 0, "false", "false"),
                strict=True,
            )
        )
        born_ms = time.time_ns() // 1_000_000
        fields = {**plain, "b": self.topic, "g": born_ms, "i": encode_properties(given).decode()}
        return self.call(RequestCode.SEND_MESSAGE_V2, fields, b"raw")

    def stop(self) -> None:
        self.peer.ask("stopProducer", producer=self.producer)


@pytest.fixture(scope="module")
def brokers(java_533: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(name server, broker address) of a quick Java broker and of a quick one of ours."""
    from tests.interop.conftest import JavaServers, OurServers, close_all

    work = tmp_path_factory.mktemp("transactions")
    java, ours = JavaServers(java_533), OurServers()
    theirs = java.namesrv(work / "java")
    java_broker = java.broker(work / "java", work / "java-store", theirs, **QUICK)
    own = ours.namesrv(work / "ours")
    our_broker = ours.broker(work / "ours", work / "our-store", own, **QUICK)
    yield {
        "java": (theirs, java_broker.address),
        "ours": (own, our_broker.address),
    }
    close_all(java.running)
    close_all(ours.running)


@pytest.fixture
def both(brokers: Any, peer: Any, make_topic: Callable[..., None]) -> Any:
    """``both(scenario)``: its result at the Java broker and at ours, must be equal."""

    def run(scenario: Callable[[Side], Any]) -> Any:
        results = {}
        for name, (namesrv, broker) in brokers.items():
            side = Side(peer, namesrv, broker)
            make_topic(broker, side.topic)
            make_topic(broker, "First")
            peer.produce(namesrv=namesrv, topic="First")  # no half message at offset 0 of the log
            results[name] = scenario(side)
            if side.producer in side.started:
                side.stop()
        assert results["ours"] == results["java"]
        return results["ours"]

    return run


def message_view(event: dict[str, Any]) -> dict[str, Any]:
    """The fields of a message that do not depend on time and place."""
    properties = {n: v for n, v in event["properties"].items() if n not in VOLATILE}
    view = {name: event[name] for name in ("body", "tags", "keys", "sysFlag", "flag")}
    has_half = event["preparedTransactionOffset"] > 0
    return {**view, "properties": properties, "hasHalf": has_half}


def test_commit_delivers_and_rollback_does_not(both: Any, until: Callable[..., Any]) -> None:
    def scenario(side: Side) -> Any:
        sent = [
            *side.send("commit", "commit", 3, keys="k{i}", tags="A"),
            *side.send("rollback", "rollback", 2, first=3),
        ]
        until(lambda: len(side.visible()) == 3, "three committed messages")
        shown = [(e["status"], e["local"], e["msgId"] == e["transactionId"]) for e in sent]
        views = sorted((message_view(e) for e in side.visible()), key=lambda view: view["body"])
        return shown, views

    shown, views = both(scenario)
    assert [local for _, local, _ in shown] == ["COMMIT_MESSAGE"] * 3 + ["ROLLBACK_MESSAGE"] * 2
    assert len(views) == 3
    assert {view["sysFlag"] & 0xC for view in views} == {8}


@pytest.mark.parametrize("answer", ["commit", "rollback"])
def test_an_open_transaction_is_checked_and_ends_as_answered(
    both: Any, until: Callable[..., Any], answer: str
) -> None:
    def scenario(side: Side) -> Any:
        side.register(until)
        side.send("unknown", answer, 2, keys="k{i}")
        checks = side.checks(2)
        expected = ["body-0", "body-1"] if answer == "commit" else []
        until(lambda: side.bodies() == expected, "the decided messages are visible")
        seen = sorted(
            (e["body"], e["topic"] == side.topic, e["checkTimes"], e["decision"]) for e in checks
        )
        views = sorted((message_view(e) for e in side.visible()), key=lambda view: view["body"])
        return seen, views

    both(scenario)


def test_a_silent_producer_is_asked_again(both: Any, until: Callable[..., Any]) -> None:
    def scenario(side: Side) -> Any:
        side.register(until)
        side.send("unknown", "unknown")
        return [event["checkTimes"] for event in side.checks(3)]

    assert both(scenario) == ["1", "2", "3"]


def test_another_producer_of_the_group_answers_for_one_that_is_gone(
    both: Any, until: Callable[..., Any]
) -> None:
    def scenario(side: Side) -> Any:
        side.send("unknown", "commit")
        side.stop()
        side.producer = side.words["producer"] = f"heir-{side.number}"
        side.send("commit", "commit", first=1)
        until(lambda: side.bodies() == ["body-0", "body-1"], "both messages")
        return side.bodies()

    both(scenario)


def test_wrong_ends_get_the_answers_of_a_java_broker(both: Any, until: Callable[..., Any]) -> None:
    def scenario(side: Side) -> Any:
        (sent,) = side.send("unknown", "unknown")
        until(lambda: side.dump(HALF), "the half message is dispatched")
        half = side.half(sent)
        answers = [
            side.end(half, 8, producerGroup="Foreign"),
            side.end(half, 8, tranStateTableOffset=half["queueOffset"] + 7_000),
            side.end(half, 8, commitLogOffset=1 << 50),
            side.end(half, 12, producerGroup="Foreign"),
            side.end(half, 12, commitLogOffset=1 << 50),
        ]
        before = side.bodies()
        answers += [side.end(half, 8)]
        return answers, before

    answers, before = both(scenario)
    assert [code for code, _ in answers] == [1, 1, 1, 1, 1, 0]
    assert before == []


def test_ends_of_a_decided_half_get_the_answers_of_a_java_broker(
    both: Any, until: Callable[..., Any]
) -> None:
    def scenario(side: Side) -> Any:
        committed, rolled_back = side.send("unknown", "unknown", count=2)
        until(lambda: len(side.dump(HALF)) >= 2, "the half messages are dispatched")
        halves = [side.half(committed), side.half(rolled_back)]
        answers = [side.end(halves[0], 8), side.end(halves[1], 12)]
        until(lambda: side.bodies(), "the committed message is dispatched")
        answers += [side.end(half, decision) for half in halves for decision in (12, 8)]
        answers += [side.end(half, 8, producerGroup="Foreign") for half in halves]
        return [code for code, _ in answers]

    assert both(scenario)[:2] == [0, 0]


def test_clients_cannot_send_to_the_topics_of_transactions(both: Any) -> None:
    def scenario(side: Side) -> Any:
        side.send("commit", "commit")
        refused = []
        for topic in (HALF, OP, DISCARDED):
            events = side.peer.ask(
                "produce", namesrv=side.namesrv, topic=topic, count=1, group=f"p{side.number}"
            )
            refused.append(events[0]["event"])
        return refused

    both(scenario)


def test_a_silent_transaction_is_discarded_and_can_be_resumed(
    both: Any, until: Callable[..., Any]
) -> None:
    def scenario(side: Side) -> Any:
        (sent,) = side.send("unknown", "unknown", keys="k")

        def discarded() -> Events:
            return [e for e in side.dump(DISCARDED) if e["uniqKey"] == sent["msgId"]]

        (given_up,) = until(discarded, "the half message is given up")
        before = side.bodies()
        resumed = side.call(
            RequestCode.RESUME_CHECK_HALF_MESSAGE,
            {"msgId": side.offset_id(given_up), "topic": DISCARDED},
        )
        half = side.half(sent)
        answer = side.end(half, 8)
        until(lambda: side.bodies() == ["body-0"], "the resumed transaction is committed")
        views = [message_view(given_up), message_view(half)]
        return before, (resumed.code, resumed.remark), answer, views

    before, resumed, answer, views = both(scenario)
    assert (before, resumed, answer) == ([], (0, None), (0, None))
    times = [view["properties"]["TRANSACTION_CHECK_TIMES"] for view in views]
    assert times[0] == "4"


def test_an_immunity_time_delays_the_first_check(both: Any, until: Callable[..., Any]) -> None:
    def scenario(side: Side) -> Any:
        side.register(until)
        side.send("unknown", "commit", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "2"})
        (check,) = side.checks(1)
        until(lambda: side.bodies() == ["body-0"], "the message is committed by the check")
        (message,) = side.visible()
        return check["decision"], "TRAN_PREPARED_QUEUE_OFFSET" in message["properties"]

    assert both(scenario) == ("commit", True)


def test_the_answer_to_a_half_message_has_its_place_in_the_half_queue(both: Any) -> None:
    def scenario(side: Side) -> Any:
        answer = side.raw_half()
        sent = int(answer.ext_fields["queueOffset"]), int(answer.ext_fields["msgId"][16:], 16)
        half = [e for e in side.dump(HALF) if e["uniqKey"] == answer.ext_fields["transactionId"]]
        places = [(e["queueOffset"], e["physicalOffset"]) for e in half[:1]]
        return (
            answer.code,
            answer.ext_fields["queueId"],
            sorted(answer.ext_fields),
            [sent] == places,
        )

    both(scenario)


def test_a_delay_on_a_half_message_counts_from_the_commit(
    brokers: Any, peer_533: Any, make_topic: Callable[..., None], until: Callable[..., Any]
) -> None:
    """Java clients remove it. A Java broker that gets one loses the message at its commit."""
    seen = {}
    for name, (namesrv, broker) in brokers.items():
        side = Side(peer_533, namesrv, broker)
        make_topic(broker, side.topic)
        answer = side.raw_half(DELAY="1")
        half = {
            "queueOffset": int(answer.ext_fields["queueOffset"]),
            "physicalOffset": int(answer.ext_fields["msgId"][16:], 16),
            "uniqKey": answer.ext_fields["transactionId"],
        }
        assert (answer.code, side.end(half, 8)) == (0, (0, None))
        if name == "ours":
            until(lambda side=side: side.bodies() == ["raw"], "the delayed message is delivered")
        seen[name] = half["uniqKey"] in {event["uniqKey"] for event in side.dump(HALF)}
    assert seen == {"java": False, "ours": True}


# ---- one store, two brokers

OPEN = {**QUICK, "transactionCheckInterval": 3_600_000}  # nothing is checked by this broker
# A broker counts checks without a producer, too: the producer may register after several.
CLOSED = {**QUICK, "transactionCheckMax": 100, "mappedFileSizeCommitLog": 32 * 1024 * 1024}


def listed(ops: Events) -> int:
    """The number of half messages that op records list."""
    return sum(
        len([piece for piece in base64.b64decode(op["body"]).split(b",") if piece]) for op in ops
    )


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize("first", ["java", "ours"])
def test_open_transactions_move_between_a_java_broker_and_ours(
    java_servers: Any,
    our_servers: Any,
    peer_533: Any,
    until: Callable[..., Any],
    tmp_path: Path,
    first: str,
    ending: str,
) -> None:
    """The second broker checks the transactions that the first one left open, and no others."""
    servers = {"java": java_servers, "ours": our_servers}
    store = tmp_path / "store"

    def serve(name: str, settings: dict[str, Any]) -> tuple[Side, Any]:
        namesrv = servers[name].namesrv(tmp_path / name)
        broker = servers[name].broker(tmp_path / name, store, namesrv, **settings)
        return Side(peer_533, namesrv, broker.address), broker

    side, broker = serve(first, OPEN)
    topic = side.topic
    group = side.words["group"]
    side.send("commit", "commit", 2)
    side.send("rollback", "commit", 2, first=2)
    side.send("unknown", "commit", 3, first=4, keys="k{i}")
    side.send("unknown", "rollback", 2, first=7)
    until(lambda: listed(side.dump(OP)) == 4, "four transactions are decided in the op queue")
    if ending == "kill":
        broker.kill()
        (store / "lock").unlink(missing_ok=True)
    else:
        broker.stop()
    side.stop()
    second, _ = serve("ours" if first == "java" else "java", CLOSED)
    second.topic = topic
    second.words.update(topic=topic, group=group)
    second.register(until)
    expected = ["body-0", "body-1", "body-4", "body-5", "body-6"]
    until(lambda: second.bodies() == expected, "the open transactions are decided")
    checks = second.checks(5)
    assert sorted(base64.b64decode(event["body"]).decode() for event in checks) == [
        f"body-{number}" for number in range(4, 9)
    ]
    until(lambda: listed(second.dump(OP)) >= 10, "nothing is open any more")
    assert second.bodies() == expected
    found = second.peer.ask("query", namesrv=second.namesrv, topic=topic, key="k4")
    assert [event["topic"] for event in found if event["event"] == "message"] == [topic]
    second.stop()
