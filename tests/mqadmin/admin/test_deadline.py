"""One broker hangs: the calls share the deadline, the responses of the others are kept."""

from typing import Any

import pytest

from broker.errors import RequestTimeoutError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.facade import MQAdmin


class Deadline:
    """The connections of a fake cluster with a deadline: a silent peer uses its whole timeout.

    No time passes; ``remaining_ms`` counts down. A call with no time left fails.
    """

    def __init__(self, cluster: Any, total_ms: float) -> None:
        self.cluster = cluster
        self.remaining_ms = total_ms
        self.given: list[float] = []

    def call(self, address: str, command: Any, timeout_ms: float | None = None) -> Any:
        answer = self.call_all([(address, command)], timeout_ms)[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def call_all(self, calls: Any, timeout_ms: float | None = None) -> Any:
        limit = self.remaining_ms if timeout_ms is None else min(timeout_ms, self.remaining_ms)
        self.given.append(limit)
        if limit <= 0:
            return [
                RequestTimeoutError(f"{address}: within 0 ms", address=address)
                for address, _ in calls
            ]
        answers = self.cluster.call_all(calls)
        if any(isinstance(answer, RequestTimeoutError) for answer in answers):
            self.remaining_ms -= limit
        return answers

    def close(self) -> None:
        pass


@pytest.fixture
def hung(cluster, broker_a, broker_b):
    """Two brokers with the same topic and group, of which broker-b hangs."""
    for broker in (broker_a, broker_b):
        broker.store("orders", keys="42")
        broker.connect("g", "c1", "orders")
        broker.connections["g"].clear()
        broker.committed("g", "orders")[0] = 0
    broker_b.silent = True
    return broker_b


@pytest.fixture
def deadline(cluster) -> Deadline:
    return Deadline(cluster, 10_000)


@pytest.fixture
def admin(cluster, deadline, monkeypatch):
    session = MQAdmin(["127.0.0.1:9876"], client=deadline)
    monkeypatch.setattr(session, "renew", lambda: None)  # one deadline for plan and apply
    return session


QUESTIONS = {
    "topic.list": lambda a: a.topic.list(),
    "topic.status": lambda a: a.topic.status("orders"),
    "broker.status": lambda a: a.broker.status(),
    "group.list": lambda a: a.group.list(),
    "consumer.list": lambda a: a.consumer.list(),
    "consumer.lag": lambda a: a.consumer.lag("g", topic="orders", clients=True),
    "offset.show": lambda a: a.offset.show("g"),
    "message.query_key": lambda a: a.message.query_key("orders", "42"),
    "message.query_key scan": lambda a: a.message.query_key("orders", "42", scan=True),
    "message.query_time": lambda a: a.message.query_time("orders", 1, None),
    "topic.delete": lambda a: a.apply(a.topic.plan_delete("orders")),
    "topic.update": lambda a: a.apply(a.topic.plan_update("orders", queues=9)),
    "group.delete": lambda a: a.apply(a.group.plan_delete("g")),
    "offset.reset": lambda a: a.offset.apply_reset(a.offset.plan_reset("g", "orders", "latest")),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_hung_broker_costs_one_phase_and_is_the_only_one_blamed(
    cluster, hung, admin, deadline, question, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = QUESTIONS[question](admin)
    assert {error.address for error in answer.errors} == {hung.address}
    assert answer.items
    assert all(getattr(item, "status", "done") in ("done", "unchanged") for item in answer.items)
    assert sum(address == hung.address for address, _ in cluster.calls) <= 4 * 2  # one phase
    assert deadline.remaining_ms == 5_000
    assert len({error.message for error in answer.errors}) == 1


def test_a_silent_peer_is_asked_once(cluster, hung, admin) -> None:
    admin.broker.status()
    admin.broker.config()
    assert cluster.asked(RequestCode.GET_BROKER_CONFIG) == [cluster.brokers[0].address]


def test_a_passed_deadline_blames_no_peer(cluster, admin, deadline) -> None:
    deadline.remaining_ms = 0
    with pytest.raises(RequestTimeoutError, match="deadline of 10000 ms has passed") as caught:
        admin.topic.list()
    assert caught.value.hint == "give the command more time with --timeout"
    assert cluster.calls == []


def test_every_phase_gets_a_share_and_never_less_than_a_round_trip(admin, deadline) -> None:
    given = []
    for left_ms in (10_000, 5_000, 800, 300, 1):
        deadline.remaining_ms = left_ms
        given.append(admin.phase_ms())
    assert given == [5_000, 2_500, 500, 300, 1]
