"""Malformed responses of peers: every query returns a value or raises a RocketMQError."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.errors import RocketMQError
from broker.remoting.protocol.command import RemotingCommand
from mqadmin.admin.facade import MQAdmin

QUESTIONS: dict[str, Callable[[MQAdmin], Any]] = {
    "topic.list": lambda a: a.topic.list(),
    "topic.show": lambda a: a.topic.show("orders"),
    "topic.route": lambda a: a.topic.route("orders"),
    "topic.status": lambda a: a.topic.status("orders"),
    "topic.plan_create": lambda a: a.topic.plan_create("new"),
    "topic.plan_update": lambda a: a.topic.plan_update("orders", queues=2),
    "topic.plan_delete": lambda a: a.topic.plan_delete("orders"),
    "cluster.list": lambda a: a.cluster.list(),
    "broker.status": lambda a: a.broker.status(),
    "broker.config": lambda a: a.broker.config(),
    "group.list": lambda a: a.group.list(),
    "group.plan_update": lambda a: a.group.plan_update("g", settings={"retryMaxTimes": 2}),
    "group.plan_delete": lambda a: a.group.plan_delete("g"),
    "message.query_key": lambda a: a.message.query_key("orders", "42"),
    "message.query_key scan": lambda a: a.message.query_key("orders", "no", scan=True),
    "message.query_key window": lambda a: a.message.query_key("orders", "42", end_ms=1),
    "message.query_id": lambda a: a.message.query_id("0A0000010000" + "2A9F" + "0" * 16),
    "message.query_offset": lambda a: a.message.query_offset("orders", 0, 0, broker="broker-a"),
    "message.query_time": lambda a: a.message.query_time("orders", None, None),
    "message.send": lambda a: a.message.send("orders", b"x"),
    "message.tail": lambda a: list(a.message.tail("orders", last=1, follow=False)),
    "consumer.list": lambda a: a.consumer.list(),
    "consumer.lag": lambda a: a.consumer.lag("g", clients=True),
    "consumer.lag topic": lambda a: a.consumer.lag("g", topic="orders"),
    "consumer.connections": lambda a: a.consumer.connections("g"),
    "offset.show": lambda a: a.offset.show("g"),
    "offset.plan_reset": lambda a: a.offset.plan_reset("g", "orders", "-1h"),
    "dlq.list": lambda a: a.dlq.list(),
    "dlq.show": lambda a: a.dlq.show("g"),
}


@pytest.fixture
def filled(cluster, broker_a, broker_b):
    """A cluster in which every query has a result."""
    for broker in (broker_a, broker_b):
        broker.store("orders", keys="42", tags="A", uniq="U")
        broker.store("%DLQ%g")
        broker.connect("g", "c1", "orders")
        broker.committed("g", "orders")[0] = 0
    return cluster


def corrupt_answer(
    cluster, monkeypatch, change: Callable[[RemotingCommand], None], which: int
) -> None:
    """Apply ``change`` to response number ``which`` of the session, counted from 0."""
    honest = cluster.call_one
    seen = iter(range(10_000))

    def corrupted(address, command):
        answer = honest(address, command)
        if next(seen) == which and isinstance(answer, RemotingCommand):
            change(answer)
        return answer

    monkeypatch.setattr(cluster, "call_one", corrupted)


def ask(cluster, question: str) -> Any:
    """A value or an error of our tree; any other exception is a defect and fails the test."""
    try:
        return QUESTIONS[question](cluster.admin())
    except RocketMQError as error:
        return error


def answers_to(cluster, question: str) -> int:
    before = len(cluster.calls)
    ask(cluster, question)
    return len(cluster.calls) - before


@pytest.mark.parametrize("question", QUESTIONS)
def test_honest_answers_are_a_value(filled, question) -> None:
    assert not isinstance(ask(filled, question), RocketMQError)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_cut_body(filled, monkeypatch, rng, question) -> None:
    for which in range(answers_to(filled, question)):
        for share in (0.0, rng.random(), 0.999):
            with monkeypatch.context() as patch:
                corrupt_answer(filled, patch, lambda a, s=share: cut(a, s), which)
                ask(filled, question)


def cut(answer: RemotingCommand, share: float) -> None:
    body = answer.body_bytes()
    answer.body = body[: int(len(body) * share)]


@pytest.mark.parametrize("question", QUESTIONS)
def test_random_bytes_for_a_body(filled, monkeypatch, rng, question) -> None:
    for which in range(answers_to(filled, question)):
        for size in (1, 40, 300):
            with monkeypatch.context() as patch:
                noise = rng.randbytes(size)
                corrupt_answer(filled, patch, lambda a, n=noise: setattr(a, "body", n), which)
                ask(filled, question)


@pytest.mark.parametrize("body", [b"null", b"[]", b"1", b'{"topicList":3}', b'{"offsetTable":[]}'])
@pytest.mark.parametrize("question", QUESTIONS)
def test_json_of_another_shape(filled, monkeypatch, question, body) -> None:
    for which in range(answers_to(filled, question)):
        with monkeypatch.context() as patch:
            corrupt_answer(filled, patch, lambda a: setattr(a, "body", body), which)
            ask(filled, question)


@pytest.mark.parametrize("question", QUESTIONS)
def test_missing_and_wrong_header_fields(filled, monkeypatch, question) -> None:
    wrong = {
        "offset": "x",
        "nextBeginOffset": "-",
        "maxOffset": "",
        "msgId": "",
        "timestamp": "1.5",
    }
    for which in range(answers_to(filled, question)):
        for fields in ({}, wrong):
            with monkeypatch.context() as patch:
                corrupt_answer(
                    filled, patch, lambda a, f=fields: setattr(a, "ext_fields", f), which
                )
                ask(filled, question)


@pytest.mark.parametrize("question", QUESTIONS)
def test_unknown_error_codes(filled, monkeypatch, question) -> None:
    for which in range(answers_to(filled, question)):
        with monkeypatch.context() as patch:
            corrupt_answer(
                filled,
                patch,
                lambda a: (setattr(a, "code", 4711), setattr(a, "remark", None)),
                which,
            )
            ask(filled, question)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_peer_falls_silent_at_any_moment(filled, monkeypatch, question) -> None:
    """From some request on no broker answers."""
    from broker.errors import RequestTimeoutError

    for from_on in range(answers_to(filled, question)):
        with monkeypatch.context() as patch:
            honest = filled.call_one
            seen = iter(range(10_000))

            def silent(address, command, h=honest, s=seen, f=from_on):
                if next(s) >= f:
                    return RequestTimeoutError("late", address=address)
                return h(address, command)

            patch.setattr(filled, "call_one", silent)
            ask(filled, question)


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("topic.list", 21),
        ("topic.show", 351),
        ("topic.status", 202),
        ("cluster.list", 28),
        ("broker.status", 28),
        ("broker.config", 26),
        ("group.list", 201),
        ("consumer.list", 201),
        ("consumer.lag", 208),
        ("consumer.connections", 203),
        ("offset.show", 208),
        ("offset.plan_reset", 30),
        ("message.query_key", 12),
        ("message.query_time", 11),
        ("dlq.list", 202),
    ],
)
def test_one_broker_that_talks_rubbish_does_not_hide_the_other(
    filled, monkeypatch, broker_b, question, code
) -> None:
    honest = filled.call_one

    def corrupted(address, command):
        answer = honest(address, command)
        if address == broker_b.address and command.code == code:
            answer.body = b"\xff\xfe{"
            answer.ext_fields = {}
        return answer

    monkeypatch.setattr(filled, "call_one", corrupted)
    found = QUESTIONS[question](filled.admin())
    errors = found.errors
    assert errors
    assert all(error.kind == "protocol" for error in errors)
    assert any(broker_b.address in error.message for error in errors)
    rows = found.connections if question == "consumer.connections" else found.items
    assert rows
