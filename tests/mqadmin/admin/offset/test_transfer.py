"""Offsets from a file and from another group; offsets by time."""

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.errors import ClientError, ConfigError
from mqadmin.admin.offset.transfer import OffsetTransfer


@pytest.fixture
def filled(broker_a):
    """Two topics; the group g is at 5 and 1 in orders, at 2 in bills; h has no offset."""
    for _ in range(10):
        broker_a.store("orders", 0)
    for _ in range(3):
        broker_a.store("orders", 1)
        broker_a.store("bills", 0)
    for group in ("g", "h"):
        broker_a.groups[group] = SubscriptionGroupConfig(group_name=group)
    broker_a.committed("g", "orders").update({0: 5, 1: 1})
    broker_a.committed("g", "bills").update({0: 2})
    return broker_a


@pytest.fixture
def transfer(admin):
    return OffsetTransfer(admin)


@pytest.fixture
def undo(tmp_path):
    return str(tmp_path / "undo.json")


def test_a_clone_copies_all_topics_and_is_undone_to_no_offset(admin, filled, transfer, undo):
    plan = transfer.plan_clone("g", "h")
    assert (plan.group, plan.topic, plan.to) == ("h", "bills,orders", "group:g")
    done = admin.offset.apply_reset(plan, undo_path=undo)
    assert done.ok
    assert filled.committed("h", "orders") == {0: 5, 1: 1}
    assert filled.committed("h", "bills") == {0: 2}
    back = transfer.plan_undo(undo)
    assert back.group == "h"
    assert admin.offset.apply_reset(back, undo_path=undo + "2").ok
    assert filled.committed("h", "orders") == {}
    assert filled.committed("h", "bills") == {}


def test_a_clone_of_one_topic_leaves_the_others(filled, transfer):
    plan = transfer.plan_clone("g", "h", topic="bills")
    assert {item.topic for item in plan.items} == {"bills"}


def test_a_clone_needs_two_groups_and_an_offset(filled, transfer):
    with pytest.raises(ClientError, match="both source and target"):
        transfer.plan_clone("g", "g")
    with pytest.raises(ClientError, match="has no offset to clone"):
        transfer.plan_clone("h", "g")


def test_a_broker_that_does_not_respond_is_an_error_of_the_clone(filled, broker_b, transfer):
    broker_b.down = True
    plan = transfer.plan_clone("g", "h")
    assert plan.items
    assert [error.kind for error in plan.errors][:1] == ["unreachable"]


def test_without_any_response_it_is_not_known_whether_there_is_an_offset(
    filled, broker_b, transfer
):
    filled.down = broker_b.down = True
    plan = transfer.plan_clone("g", "h")
    assert plan.items == []
    assert {error.kind for error in plan.errors} == {"unreachable"}


def test_a_file_sets_the_queues_it_names(admin, filled, transfer, undo, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("orders,0,7,broker-a\norders,1,,broker-a\n")
    plan = transfer.plan_import("g", str(path))
    assert admin.offset.apply_reset(plan, undo_path=undo).ok
    assert filled.committed("g", "orders") == {0: 7}
    assert filled.committed("g", "bills") == {0: 2}
    assert admin.offset.apply_reset(transfer.plan_undo(undo), undo_path=undo + "2").ok
    assert filled.committed("g", "orders") == {0: 5, 1: 1}


def test_a_queue_that_does_not_exist_is_an_error_of_the_plan(filled, transfer, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("orders,0,7,broker-a\norders,99,7,broker-a\nnone,0,1,broker-a\n")
    plan = transfer.plan_import("g", str(path))
    assert [item.queue_id for item in plan.items] == [0]
    assert [error.target for error in plan.errors] == ["none broker-a/0", "orders broker-a/99"]
    path.write_text("none,0,1,broker-a\n")
    with pytest.raises(ClientError, match="no such queue"):
        transfer.plan_import("g", str(path))


def test_a_line_without_a_broker_is_of_the_only_broker(filled, transfer, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("orders,0,7\n")
    names = {item.broker_name for item in transfer.plan_import("g", str(path)).items}
    assert names == {"broker-a"}


def test_a_line_without_a_broker_is_refused_for_several(filled, broker_b, transfer, tmp_path):
    broker_b.store("orders", 0)
    path = tmp_path / "f.csv"
    path.write_text("orders,0,7\n")
    with pytest.raises(ConfigError, match="no broker is named"):
        transfer.plan_import("g", str(path))


def test_an_undo_file_names_its_group(transfer, filled, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("orders,0,7\n")
    with pytest.raises(ConfigError, match="names no group"):
        transfer.plan_undo(str(path))


def test_the_offset_at_a_time_is_of_the_first_message_stored_then(cluster, filled, transfer):
    cluster.clock.advance(3_600_000)
    filled.store("orders", 0)
    now = cluster.clock.now_ms()
    items = transfer.at("orders", now).items
    assert [(one.queue_id, one.offset, one.messages) for one in items][:2] == [
        (0, 10, 1),
        (1, 3, 0),
    ]
    assert [one.offset for one in transfer.at("orders", 1).items][:2] == [0, 0]


def test_a_dead_broker_is_an_error_of_the_offsets_at_a_time(filled, broker_b, transfer):
    broker_b.store("orders", 0)
    broker_b.down = True
    listing = transfer.at("orders", 1)
    assert {one.broker_name for one in listing.items} == {"broker-a"}
    assert {error.kind for error in listing.errors} == {"unreachable"}
