"""The steps of a switch against scripted brokers: order, waits, failures, the undone fence."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from broker.errors import (
    BrokerError,
    ClientError,
    ConnectError,
    RequestTimeoutError,
    RocketMQError,
)
from broker.remoting.protocol.body.role import BrokerRoleInfo
from broker.remoting.protocol.codes import ResponseCode
from mqadmin.admin.failover.roles import Member, RoleClient
from mqadmin.admin.failover.switch import POLL_S, START_S, FailoverAdmin, SwitchResult
from tests.support.fake_brokers import FakeCluster

MASTER, FIRST, SECOND = "m:1", "s:1", "s:2"


def broker(address: str, **fields: Any) -> BrokerRoleInfo:
    return BrokerRoleInfo(cluster_name="C", broker_name="b", address=address, **fields)


class Roles(RoleClient):
    """Brokers of one name; ``refuse[address, action]`` raises, ``calls`` lists the requests."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster.admin())
        self.now = 0.0
        self.infos: dict[str, BrokerRoleInfo] = {
            MASTER: broker(
                MASTER,
                role="SYNC_MASTER",
                writable=True,
                max_offset=1000,
                replication_properties={"inSyncReplicas": "2"},
            ),
            FIRST: broker(
                FIRST,
                broker_id=1,
                role="SLAVE",
                max_offset=1000,
                connected=True,
                master_address=MASTER,
            ),
        }
        self.refuse: dict[tuple[str, str], RocketMQError] = {}
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.on_poll: Callable[[], None] = lambda: None
        self.after: dict[str, Callable[[], object]] = {}  # action → done with its response
        self.silent: set[str] = set()

    def set(self, address: str, **fields: Any) -> None:
        self.infos[address] = msgspec.structs.replace(self.infos[address], **fields)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_poll()

    def role_of(self, address: str) -> BrokerRoleInfo:
        if address in self.silent:
            raise ConnectError(f"{address} refused", address=address)
        return self.infos[address]

    def registered(self, name: str) -> dict[int, str]:
        if name != "b":
            return {}
        return {info.broker_id: address for address, info in self.infos.items()}

    def members(self, name: str, also: str = "") -> list[Member]:
        return [
            Member(address=address, broker_id=info.broker_id, info=info)
            for address, info in self.infos.items()
            if address not in self.silent
        ]

    def change(
        self,
        address: str,
        action: str,
        properties: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> BrokerRoleInfo:
        self.calls.append((address, action, dict(fields)))
        if (address, action) in self.refuse:
            raise self.refuse[address, action]
        if action == "fence":
            self.set(address, voted_epoch=fields["epoch"], voted_for=fields["target"])
            if self.infos[address].role != "SLAVE":
                self.set(address, writable=False, fenced_reason=f"epoch {fields['epoch']}")
        if action == "promote":
            self.set(
                address,
                role="SYNC_MASTER",
                writable=True,
                fenced_reason="",
                broker_id=0,
                epoch=fields["epoch"],
            )
        if action == "demote":
            self.set(
                address,
                role="SLAVE",
                writable=False,
                fenced_reason="",
                connected=True,
                broker_id=fields["broker_id"],
                epoch=fields["epoch"],
            )
        self.now += 0.25
        if action in self.after:
            self.after[action]()
        return self.infos[address]

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [(address, action) for address, action, _ in self.calls]


@pytest.fixture
def roles(cluster: FakeCluster) -> Roles:
    return Roles(cluster)


@pytest.fixture
def failover(cluster: FakeCluster, roles: Roles) -> FailoverAdmin:
    made = FailoverAdmin(cluster.admin(), wait_s=1.0, clock=lambda: roles.now, sleep=roles.sleep)
    made.client = roles
    return made


def statuses(result: SwitchResult) -> list[tuple[str, str, str]]:
    return [(step.action, step.address, step.status) for step in result.steps]


def test_a_planned_switch_fences_waits_copies_promotes_and_demotes(
    failover: FailoverAdmin, roles: Roles
) -> None:
    plan = failover.plan_promote("b")
    result = failover.run(plan)
    assert result.error is None
    assert [status for *_, status in statuses(result)] == ["done"] * 6
    assert roles.steps == [
        (MASTER, "fence"),
        (FIRST, "fence"),
        (FIRST, "synchronize"),
        (FIRST, "promote"),
        (MASTER, "demote"),
    ]
    assert roles.calls[3][2] == {"epoch": 1, "expected_offset": 1000}
    assert roles.calls[4][2] == {"epoch": 1, "broker_id": 1}


def test_writes_are_interrupted_from_the_fence_of_the_master_to_the_promotion(
    failover: FailoverAdmin,
) -> None:
    result = failover.run(failover.plan_promote("b"))
    assert result.interrupted_ms == 1000  # two fences, synchronize, promote: 0.25 s each


def test_each_step_is_reported_before_it_is_run(failover: FailoverAdmin, roles: Roles) -> None:
    seen: list[tuple[str, int]] = []
    failover.run(failover.plan_promote("b"), lambda text: seen.append((text, len(roles.calls))))
    assert [text.split(": ")[:2] for text, _ in seen] == [
        [MASTER, "fence"],
        [FIRST, "fence"],
        [FIRST, "wait"],
        [FIRST, "synchronize"],
        [FIRST, "promote"],
        [MASTER, "demote"],
    ]
    assert [count for _, count in seen] == [0, 1, 2, 2, 3, 4]


def test_the_promotion_waits_until_the_slave_has_the_whole_log(
    failover: FailoverAdmin, roles: Roles
) -> None:
    roles.set(FIRST, max_offset=990)
    plan = failover.plan_promote("b")

    def copy() -> None:
        roles.set(FIRST, max_offset=roles.infos[FIRST].max_offset + 2)

    roles.on_poll = copy
    result = failover.run(plan)
    assert result.error is None
    assert roles.infos[FIRST].max_offset == 1000


def test_records_that_arrive_between_plan_and_fence_are_waited_for(
    failover: FailoverAdmin, roles: Roles
) -> None:
    plan = failover.plan_promote("b")
    roles.set(MASTER, max_offset=1200)
    roles.on_poll = lambda: roles.set(FIRST, max_offset=1200)
    assert failover.run(plan).error is None
    assert roles.calls[3][2]["expected_offset"] == 1200


def test_a_slave_that_stays_behind_stops_the_switch_and_the_master_serves_again(
    failover: FailoverAdmin, roles: Roles
) -> None:
    roles.set(FIRST, max_offset=400)
    result = failover.run(failover.plan_promote("b"))
    assert isinstance(result.error, ClientError)
    assert "is 600 bytes behind after 1 s" in result.error.message
    assert "--wait" in result.error.hint
    assert statuses(result)[2] == ("wait", FIRST, "failed")
    assert [status for *_, status in statuses(result)[3:]] == ["planned"] * 3
    assert roles.steps[2:] == [(MASTER, "fence"), (FIRST, "fence"), (MASTER, "promote")]
    assert {fields["epoch"] for _, _, fields in roles.calls[2:]} == {2}
    assert list(result.notes) == [f"the switch was undone: {MASTER} accepts writes again"]
    assert result.interrupted_ms is None


def test_a_switch_whose_first_fence_is_refused_has_nothing_to_undo(
    failover: FailoverAdmin, roles: Roles
) -> None:
    roles.refuse[MASTER, "fence"] = BrokerError(ResponseCode.NO_PERMISSION, "no", MASTER)
    result = failover.run(failover.plan_promote("b"))
    assert isinstance(result.error, BrokerError)
    assert statuses(result)[0] == ("fence", MASTER, "failed")
    assert roles.steps == [(MASTER, "fence")]
    assert list(result.notes) == []


def test_a_slave_that_refuses_the_vote_lets_the_master_serve_again(
    failover: FailoverAdmin, roles: Roles
) -> None:
    roles.refuse[FIRST, "fence"] = ConnectError("refused", address=FIRST)
    result = failover.run(failover.plan_promote("b"))
    assert isinstance(result.error, ConnectError)
    assert statuses(result)[:2] == [("fence", MASTER, "done"), ("fence", FIRST, "failed")]
    assert roles.steps[-1] == (MASTER, "promote")
    assert "was undone" in result.notes[0]


def test_a_master_that_cannot_be_restored_is_named_with_the_command(
    failover: FailoverAdmin, roles: Roles
) -> None:
    roles.refuse[FIRST, "synchronize"] = RequestTimeoutError("no answer", address=FIRST)
    roles.refuse[MASTER, "promote"] = BrokerError(ResponseCode.SYSTEM_ERROR, "disk full", MASTER)
    result = failover.run(failover.plan_promote("b"))
    assert isinstance(result.error, RequestTimeoutError)
    (note,) = result.notes
    assert f"{MASTER} still refuses writes" in note
    assert f"mqadmin broker promote {MASTER}" in note


def test_a_refused_fence_during_the_undoing_is_named(failover: FailoverAdmin, roles: Roles) -> None:
    """Only a peer that does not answer is skipped: a refusal means that the epoch is taken."""
    roles.set(FIRST, max_offset=1)
    plan = failover.plan_promote("b")

    def refuse() -> None:
        roles.refuse[FIRST, "fence"] = BrokerError(ResponseCode.SYSTEM_ERROR, "epoch 9", FIRST)

    roles.on_poll = refuse
    (note,) = failover.run(plan).notes
    assert f"{MASTER} still refuses writes" in note


def test_a_refused_promotion_before_it_took_effect_is_undone(
    failover: FailoverAdmin, roles: Roles
) -> None:
    roles.refuse[FIRST, "promote"] = BrokerError(ResponseCode.SYSTEM_ERROR, "offset", FIRST)
    result = failover.run(failover.plan_promote("b"))
    assert statuses(result)[4] == ("promote", FIRST, "failed")
    assert "was undone" in result.notes[0]


def test_after_the_promotion_a_failure_does_not_restore_the_old_master(
    failover: FailoverAdmin, roles: Roles
) -> None:
    """Two masters would accept writes."""
    roles.refuse[MASTER, "demote"] = ConnectError("refused", address=MASTER)
    result = failover.run(failover.plan_promote("b"))
    assert isinstance(result.error, ConnectError)
    assert [status for *_, status in statuses(result)] == ["done"] * 5 + ["failed"]
    assert (MASTER, "promote") not in roles.steps
    assert list(result.notes) == []
    assert result.interrupted_ms == 1000


def test_a_promoted_broker_may_close_its_connections_while_it_restarts(
    failover: FailoverAdmin, roles: Roles
) -> None:
    plan = failover.plan_promote("b")
    polls: list[float] = []
    roles.after["promote"] = lambda: roles.silent.add(FIRST)

    def poll() -> None:
        polls.append(roles.now)
        if len(polls) == 3:
            roles.silent.clear()

    roles.on_poll = poll
    result = failover.run(plan)
    assert result.error is None
    assert len(polls) == 3
    assert result.interrupted_ms == 1000 + round(3 * POLL_S * 1000)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"writable": False, "problem": "disk full"}, "disk full"),
        ({"writable": False, "fenced_reason": "epoch 7"}, "epoch 7"),
        ({"changing": True, "problem": "starting"}, "starting"),
    ],
)
def test_a_promoted_broker_that_accepts_no_writes_is_reported_with_its_reason(
    failover: FailoverAdmin, roles: Roles, state: dict[str, Any], reason: str
) -> None:
    plan = failover.plan_promote("b")
    roles.on_poll = lambda: None
    roles.after["promote"] = lambda: roles.set(FIRST, **state)
    result = failover.run(plan)
    assert isinstance(result.error, RequestTimeoutError)
    assert result.error.message == (f"{FIRST} does not accept writes after {START_S:g} s: {reason}")
    assert result.error.hint == "see its log, then run this command again"
    assert list(result.notes) == []


def test_a_broker_that_stays_silent_is_reported_as_such(
    failover: FailoverAdmin, roles: Roles
) -> None:
    plan = failover.plan_promote("b")
    roles.after["promote"] = lambda: roles.silent.add(FIRST)
    result = failover.run(plan)
    assert result.error is not None
    assert result.error.message.endswith(": no answer")


def test_a_demoted_master_whose_log_differs_is_named_with_the_repair(
    failover: FailoverAdmin, roles: Roles
) -> None:
    plan = failover.plan_promote("b")
    roles.after["demote"] = lambda: roles.set(
        MASTER, connected=False, diverged_at=900, max_offset=1300
    )
    result = failover.run(plan)
    assert result.error is None
    (note,) = result.notes
    assert "from physical offset 900 to its end at 1300" in note
    assert "--diverged-at 900 --in-place" in note


def test_without_a_master_the_slave_is_promoted_from_the_end_of_its_own_log(
    failover: FailoverAdmin, roles: Roles
) -> None:
    roles.silent.add(MASTER)
    roles.set(FIRST, max_offset=777)
    plan = failover.plan_promote("b")
    assert plan.kind == "unplanned"
    result = failover.run(plan)
    assert result.error is None
    assert roles.steps == [(FIRST, "fence"), (FIRST, "promote")]
    assert roles.calls[1][2]["expected_offset"] == 777
    assert result.interrupted_ms is None


def test_an_unplanned_switch_that_fails_is_not_undone(
    failover: FailoverAdmin, roles: Roles
) -> None:
    """There is no master that could serve again."""
    roles.silent.add(MASTER)
    plan = failover.plan_promote("b")
    roles.refuse[FIRST, "promote"] = BrokerError(ResponseCode.SYSTEM_ERROR, "no", FIRST)
    result = failover.run(plan)
    assert statuses(result)[-1] == ("promote", FIRST, "failed")
    assert list(result.notes) == []


def test_a_plan_without_steps_sends_nothing(failover: FailoverAdmin, roles: Roles) -> None:
    result = failover.run(failover.plan_promote(MASTER))
    assert (list(result.steps), result.error, roles.calls) == ([], None, [])


def test_a_cancelled_switch_fences_and_promotes_the_master(
    failover: FailoverAdmin, roles: Roles
) -> None:
    roles.set(MASTER, fenced_reason="voted", writable=False, voted_epoch=3, voted_for=FIRST)
    plan = failover.plan_promote(MASTER)
    assert plan.kind == "cancel"
    result = failover.run(plan)
    assert result.error is None
    assert roles.steps == [(MASTER, "fence"), (FIRST, "fence"), (MASTER, "promote")]


def replaced(roles: Roles) -> None:
    """The first slave is the master; the old master has returned and is fenced."""
    roles.set(MASTER, fenced_reason="epoch 2", writable=False)
    roles.set(FIRST, role="SYNC_MASTER", broker_id=0, epoch=2, writable=True)


@pytest.mark.parametrize("named", ["b", MASTER])
def test_a_fenced_master_is_demoted_without_a_fence(
    failover: FailoverAdmin, roles: Roles, named: str
) -> None:
    replaced(roles)
    plan = failover.plan_demote(named)
    assert (plan.kind, plan.master.address if plan.master else None) == ("demote", MASTER)
    assert failover.run(plan).error is None
    assert roles.steps == [(MASTER, "demote")]
    assert roles.calls[0][2] == {"epoch": 2, "broker_id": 1}


def test_demoting_a_serving_master_is_a_switch_to_its_slave(
    failover: FailoverAdmin, roles: Roles
) -> None:
    plan = failover.plan_demote("b")
    assert (plan.kind, plan.target.address) == ("planned", FIRST)


def test_a_slave_cannot_be_demoted(failover: FailoverAdmin) -> None:
    with pytest.raises(ClientError) as caught:
        failover.plan_demote(FIRST)
    assert caught.value.message == f"{FIRST}: no master answers there"
    assert caught.value.hint == "mqadmin cluster list shows the brokers"


@pytest.mark.parametrize("verb", ["plan_promote", "plan_demote"])
def test_an_unknown_broker_name_is_an_error(failover: FailoverAdmin, verb: str) -> None:
    with pytest.raises(ClientError, match="no broker is named x") as caught:
        getattr(failover, verb)("x")
    assert caught.value.hint == "mqadmin cluster list shows names and addresses"


def test_a_run_may_be_repeated_after_any_failure(
    failover: FailoverAdmin, roles: Roles, rng
) -> None:
    """Whichever step fails, planning and running again ends with one master and a slave."""
    failures = rng.randrange(1, 6)
    for attempt in range(failures + 1):
        roles.refuse.clear()
        if attempt < failures:
            place = rng.choice((MASTER, FIRST))
            action = rng.choice(("fence", "synchronize", "promote", "demote"))
            roles.refuse[place, action] = ConnectError("refused", address=place)
        result = failover.run(failover.plan_promote(FIRST))
        assert sum(info.writable for info in roles.infos.values()) <= 1
    assert result.error is None
    assert (roles.infos[FIRST].role, roles.infos[FIRST].writable) == ("SYNC_MASTER", True)
    assert (roles.infos[MASTER].role, roles.infos[MASTER].broker_id) == ("SLAVE", 1)


def test_closing_closes_the_connections(cluster: FakeCluster) -> None:
    closed: list[str] = []
    with FailoverAdmin(cluster.admin()) as failover:
        failover.client.admin.close = lambda: closed.append("admin")  # type: ignore[method-assign]
    assert closed == ["admin"]
