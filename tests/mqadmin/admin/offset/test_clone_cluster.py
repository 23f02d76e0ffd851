"""Copies of offsets over several brokers: refusals, partial failures, moved states."""

import pytest

from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.offset.clone import OffsetCloner
from tests.support.fake_brokers import FakeBroker


@pytest.fixture
def cloner(admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker) -> OffsetCloner:
    """Two brokers with four queues each; the group ``source`` has an offset in three."""
    for broker in (broker_a, broker_b):
        for number in range(4):
            broker.store("T", number)
            broker.min_offsets["T", number] = 1  # brokers answer "not found", and not 0
    broker_a.offsets["T@source"] = {0: 1, 3: 0}
    broker_b.offsets["T@source"] = {2: 1}
    return OffsetCloner(admin)


def test_queues_without_an_offset_of_the_source_are_left_out(cloner: OffsetCloner) -> None:
    plan = cloner.plan("source", "target", "T")
    assert (plan.kind, plan.subject) == ("offset.clone", "T@target")
    assert [(one.target, one.before, one.after) for one in plan.changes] == [
        ("broker-a 0", None, {"consumerOffset": 1}),
        ("broker-a 3", None, {"consumerOffset": 0}),
        ("broker-b 2", None, {"consumerOffset": 1}),
    ]


def test_an_applied_copy_has_the_offsets_of_the_source(
    cloner: OffsetCloner, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    assert cloner.apply(cloner.plan("source", "target", "T")).ok
    assert broker_a.offsets["T@target"] == {0: 1, 3: 0}
    assert broker_b.offsets["T@target"] == {2: 1}


def test_offsets_that_are_equal_already_need_no_request(
    cloner: OffsetCloner, broker_a: FakeBroker
) -> None:
    broker_a.offsets["T@target"] = {0: 1, 3: 7}
    plan = cloner.plan("source", "target", "T")
    assert [(one.target, one.unchanged) for one in plan.changes] == [
        ("broker-a 0", True),
        ("broker-a 3", False),
        ("broker-b 2", False),
    ]
    assert plan.changes[1].before == {"consumerOffset": 7}


def test_a_target_with_clients_is_refused_with_their_number(
    cloner: OffsetCloner, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    broker_a.connect("target", "c1", "T")
    broker_b.connect("target", "c2", "T")
    with pytest.raises(ClientError, match="2 clients of group target are connected") as caught:
        cloner.plan("source", "target", "T")
    assert caught.value.hint == "stop them; mqadmin consumer connections target lists them"


def test_clients_of_the_source_do_not_matter(cloner: OffsetCloner, broker_a: FakeBroker) -> None:
    broker_a.connect("source", "c1", "T")
    assert not cloner.plan("source", "target", "T").empty


def test_a_source_without_offsets_is_refused_with_the_command_that_shows_them(
    cloner: OffsetCloner,
) -> None:
    with pytest.raises(ClientError, match="group other has no committed offset") as caught:
        cloner.plan("other", "target", "T")
    assert caught.value.hint == "mqadmin offset show other shows its offsets"


def test_a_broker_that_cannot_be_read_is_an_error_per_queue(
    cloner: OffsetCloner, broker_b: FakeBroker
) -> None:
    broker_b.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR)
    plan = cloner.plan("source", "target", "T")
    assert [one.target for one in plan.changes] == ["broker-a 0", "broker-a 3"]
    assert {error.target for error in plan.errors} == {f"broker-b {n}" for n in range(4)}


def test_a_source_that_cannot_be_read_anywhere_is_a_plan_of_errors(
    cloner: OffsetCloner, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    for broker in (broker_a, broker_b):
        broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR)
    plan = cloner.plan("source", "target", "T")
    assert (list(plan.changes), len(plan.errors)) == ([], 8)


def test_an_offset_that_moved_since_the_plan_is_left_unchanged(
    cloner: OffsetCloner, broker_a: FakeBroker
) -> None:
    plan = cloner.plan("source", "target", "T")
    broker_a.offsets["T@target"] = {0: 9}
    outcome = cloner.apply(plan)
    assert [item.status for item in outcome.items] == ["moved", "done", "done"]
    assert broker_a.offsets["T@target"] == {0: 9, 3: 0}


def test_a_broker_that_ignores_a_commit_differs(cloner: OffsetCloner, broker_a: FakeBroker) -> None:
    """A broker with a pending reset answers SUCCESS and ignores it."""
    plan = cloner.plan("source", "target", "T")
    broker_a.ignore_writes = True
    outcome = cloner.apply(plan)
    assert not outcome.ok
    assert [item.status for item in outcome.items] == ["differs", "differs", "done"]


def test_a_copy_of_any_offsets_is_exact(
    cloner: OffsetCloner, broker_a: FakeBroker, broker_b: FakeBroker, rng
) -> None:
    for broker in (broker_a, broker_b):
        for group in ("source", "target"):
            chosen = rng.sample(range(4), rng.randrange(1, 5))
            broker.offsets[f"T@{group}"] = {number: rng.randrange(5) for number in chosen}
    before = {one.name: dict(one.offsets["T@target"]) for one in (broker_a, broker_b)}
    assert cloner.apply(cloner.plan("source", "target", "T")).ok
    for broker in (broker_a, broker_b):
        expected = before[broker.name] | broker.offsets["T@source"]
        assert broker.offsets["T@target"] == expected
