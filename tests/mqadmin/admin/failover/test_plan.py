"""Plans of role changes from the reported states alone."""

import msgspec
import pytest

from broker.errors import ClientError
from broker.remoting.protocol.body.role import BrokerRoleInfo
from mqadmin.admin.failover.plan import SwitchPlan, plan_demotion, plan_promotion
from mqadmin.admin.failover.roles import Member

MASTER = BrokerRoleInfo(
    cluster_name="C",
    broker_name="b",
    broker_id=0,
    address="m:1",
    role="SYNC_MASTER",
    writable=True,
    max_offset=1000,
)
SLAVE = BrokerRoleInfo(
    cluster_name="C",
    broker_name="b",
    broker_id=1,
    address="s:1",
    role="SLAVE",
    max_offset=900,
    master_end_offset=1000,
    connected=True,
)
SECOND = msgspec.structs.replace(SLAVE, broker_id=2, address="s:2", max_offset=800)


def plan(*infos: BrokerRoleInfo, wanted: str = "", take_over: bool = False) -> SwitchPlan:
    members = [Member(address=info.address, broker_id=info.broker_id, info=info) for info in infos]
    return plan_promotion("b", members, wanted, take_over=take_over)


def test_a_planned_switch_fences_every_member_before_anything_else() -> None:
    made = plan(MASTER, SLAVE, SECOND)
    assert (made.kind, made.target.address, made.epoch, made.demoted_id) == ("planned", "s:1", 1, 1)
    assert [(step.action, step.address) for step in made.steps] == [
        ("fence", "m:1"),
        ("fence", "s:1"),
        ("fence", "s:2"),
        ("wait", "s:1"),
        ("synchronize", "s:1"),
        ("promote", "s:1"),
        ("demote", "m:1"),
    ]
    assert made.missing_bytes == 0


def test_without_a_master_the_longest_log_wins_and_the_gap_is_counted() -> None:
    made = plan(SECOND, SLAVE)
    assert (made.kind, made.target.address, made.missing_bytes) == ("unplanned", "s:1", 100)
    assert any("lacks at least 100 bytes" in warning for warning in made.warnings)
    chosen = plan(SECOND, SLAVE, wanted="s:2")
    assert (chosen.target.address, chosen.missing_bytes) == ("s:2", 200)
    assert any("s:1 is more advanced" in warning for warning in chosen.warnings)


def test_an_unknown_end_of_the_master_is_named_not_counted_as_zero() -> None:
    made = plan(msgspec.structs.replace(SLAVE, master_end_offset=0))
    assert made.missing_bytes is None
    assert any("cannot be counted" in warning for warning in made.warnings)


def test_an_interrupted_switch_continues_in_its_epoch_and_another_target_is_refused() -> None:
    vote = {"voted_epoch": 3, "voted_for": "s:1"}
    fenced = msgspec.structs.replace(MASTER, fenced_reason="voted", writable=False, **vote)
    assert plan(fenced, SLAVE).epoch == 3
    with pytest.raises(ClientError, match="epoch 3 is reserved for s:1"):
        plan(fenced, SECOND)
    assert plan(fenced, SECOND, take_over=True).epoch == 4


def test_naming_the_fenced_master_cancels_the_switch() -> None:
    fenced = msgspec.structs.replace(
        MASTER, fenced_reason="voted", writable=False, voted_epoch=3, voted_for="s:1"
    )
    made = plan(fenced, SLAVE, wanted="m:1")
    assert (made.kind, made.epoch) == ("cancel", 4)
    assert [(step.action, step.address) for step in made.steps] == [
        ("fence", "m:1"),
        ("fence", "s:1"),
        ("promote", "m:1"),
    ]


def test_a_replaced_master_is_only_demoted_to_a_free_id() -> None:
    new = msgspec.structs.replace(SLAVE, role="SYNC_MASTER", broker_id=0, epoch=2, writable=True)
    old = msgspec.structs.replace(MASTER, fenced_reason="epoch 2", writable=False)
    made = plan(old, new, msgspec.structs.replace(SECOND, broker_id=1), wanted="s:1")
    assert (made.kind, made.demoted_id) == ("demote", 2)
    assert [(step.action, step.address) for step in made.steps] == [("demote", "m:1")]
    with pytest.raises(ClientError, match="was replaced by s:1"):
        plan(old, new, wanted="m:1")
    with pytest.raises(ClientError, match="no other master"):
        plan_demotion("b", [old, SECOND], old)


@pytest.mark.parametrize(
    ("infos", "reason"),
    [
        ((), "no broker of b answers"),
        ((MASTER,), "no slave of b answers"),
        ((MASTER, msgspec.structs.replace(MASTER, address="m:2"), SLAVE), "2 brokers of b are"),
        ((MASTER, msgspec.structs.replace(SLAVE, connected=False)), "does not follow the master"),
        ((MASTER, msgspec.structs.replace(SLAVE, diverged_at=7)), "differs from the master's"),
    ],
)
def test_impossible_switches_are_refused_with_the_reason(
    infos: tuple[BrokerRoleInfo, ...], reason: str
) -> None:
    with pytest.raises(ClientError, match=reason):
        plan(*infos)
    with pytest.raises(ClientError, match="is not a broker of b"):
        plan(SLAVE, wanted="x:9")


def test_nothing_is_to_do_for_the_master_of_followers() -> None:
    assert plan(MASTER, SLAVE, wanted="m:1").steps == []
