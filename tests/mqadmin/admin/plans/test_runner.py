"""Applying a plan of a file: exactly that plan, or nothing."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqadmin.admin.plans.plan_file import PlanFile, load_plan, write_plan_file
from mqadmin.admin.plans.runner import PlanRunner


@pytest.fixture
def runner(admin: Any) -> PlanRunner:
    return PlanRunner(admin)


@pytest.fixture
def kept(admin: Any, tmp_path: Path) -> Any:
    """Write a plan to a file and read it back."""

    def keep(plan: Any) -> PlanFile:
        path = tmp_path / "plan"
        path.unlink(missing_ok=True)
        write_plan_file(admin, plan, str(path), verb="v", context="")
        return load_plan(str(path))

    return keep


@pytest.fixture
def group(broker_a: Any, admin: Any) -> Any:
    for _ in range(9):
        broker_a.store("orders", 0)
    admin.group.apply(admin.group.plan_create("g"))
    broker_a.committed("g", "orders").update({0: 5})
    return broker_a


def test_a_plan_is_applied_and_may_be_applied_again(admin: Any, runner: Any, kept: Any) -> None:
    content = kept(admin.topic.plan_create("fresh", queues=2))
    for _ in range(2):
        done = runner.apply_change(content.change)
        assert done.ok
        assert [item.status for item in done.items] == ["done", "done"]


def test_nothing_is_changed_when_one_target_moved(
    admin: Any, runner: Any, kept: Any, broker_b: Any, cluster: Any
) -> None:
    content = kept(admin.topic.plan_create("fresh", queues=2))
    other = admin.topic.plan_create("fresh", queues=7, broker="broker-b")
    assert admin.topic.apply(other).ok
    before = len(cluster.asked(17))
    done = runner.apply_change(content.change)
    assert [item.status for item in done.items] == ["skipped", "moved"]
    assert len(cluster.asked(17)) == before


def test_groups_are_applied_by_their_own_library(
    admin: Any, runner: Any, kept: Any, broker_a: Any
) -> None:
    content = kept(admin.group.plan_create("made", settings={"retryMaxTimes": 3}))
    assert runner.apply_change(content.change).ok
    assert broker_a.groups["made"].retry_max_times == 3


def test_offsets_are_applied_as_planned(
    admin: Any, runner: Any, kept: Any, group: Any, tmp_path: Path
) -> None:
    content = kept(admin.offset.plan_reset("g", "orders", "2", queue_id=0))
    undo = str(tmp_path / "undo")
    assert runner.apply_offsets(content.offsets, undo_path=undo).ok
    assert group.committed("g", "orders") == {0: 2}


@pytest.mark.parametrize("online", [False, True])
def test_moved_offsets_change_nothing(
    admin: Any, runner: Any, kept: Any, group: Any, tmp_path: Path, online: bool
) -> None:
    if online:
        group.connect("g", "c1", "orders")
    content = kept(admin.offset.plan_reset("g", "orders", "2", queue_id=0))
    group.committed("g", "orders").update({0: 6})
    done = runner.apply_offsets(content.offsets, undo_path=str(tmp_path / "undo"))
    assert [item.status for item in done.items] == ["moved"]
    assert group.committed("g", "orders") == {0: 6}
    assert not (tmp_path / "undo").exists()


def test_clients_that_connected_since_change_nothing(
    admin: Any, runner: Any, kept: Any, group: Any, tmp_path: Path
) -> None:
    content = kept(admin.offset.plan_reset("g", "orders", "2", queue_id=0))
    group.connect("g", "c1", "orders")
    done = runner.apply_offsets(content.offsets, undo_path=str(tmp_path / "undo"))
    assert [item.status for item in done.items] == ["moved"]
    assert "had 0 connected clients in the plan and has 1 now" in done.errors[0].message


def test_a_scope_that_differs_is_named(admin: Any, runner: Any, kept: Any) -> None:
    content = kept(admin.topic.plan_create("fresh"))
    scope = admin.scope(content.addresses)
    assert runner.scope_difference(content, scope) == ""
    first = next(iter(scope.brokers))
    renamed = msgspec.structs.replace(scope, brokers={**scope.brokers, first: "other"})
    assert f"broker broker-a ({first}) of the plan is other" in runner.scope_difference(
        content, renamed
    )
    gone = msgspec.structs.replace(scope, brokers={**scope.brokers, first: first})
    assert "is not registered" in runner.scope_difference(content, gone)
    moved = msgspec.structs.replace(scope, clusters=["Other"])
    assert "cluster DefaultCluster of the plan is Other" in runner.scope_difference(content, moved)
