"""Users on every broker: states without passwords, changes that are read back."""

import msgspec
import pytest

from broker.errors import ClientError, ConfigError
from mqadmin.admin.facade import MQAdmin
from tests.support.access_broker import AccessTable
from tests.support.fake_brokers import FakeBroker


def test_a_user_is_created_on_every_broker(admin: MQAdmin, tables: list[AccessTable]) -> None:
    plan = admin.user.plan_create("alice", "secret", user_type="Super")
    assert admin.user.apply(plan).ok
    assert [table.users["alice"].password for table in tables] == ["secret", "secret"]
    rows = admin.user.list().items
    assert [(row.username, row.user_type, row.broker_name) for row in rows] == [
        ("alice", "Super", "broker-a"),
        ("alice", "Super", "broker-b"),
    ]


def test_no_password_is_in_any_state_or_record(admin: MQAdmin, tables: list[AccessTable]) -> None:
    plan = admin.user.plan_create("alice", "secret")
    outcome = admin.user.apply(plan)
    shown = [
        *(change for item in plan.changes for change in (item.before, item.after)),
        *(state for item in outcome.items for state in (item.before, item.after, item.read_back)),
        admin.user.list().items,
        admin.user.get("alice").items,
    ]
    assert b"secret" not in msgspec.json.encode(shown)
    assert outcome.items[0].read_back == {
        "userType": "Normal",
        "userStatus": "enable",
        "password": "as given",
    }


def test_an_existing_user_is_refused_or_accepted(admin: MQAdmin, tables: list[AccessTable]) -> None:
    admin.user.apply(admin.user.plan_create("alice", "secret"))
    with pytest.raises(ClientError, match="user alice exists already on broker-a, broker-b"):
        admin.user.plan_create("alice", "other")
    plan = admin.user.plan_create("alice", "other", user_type="Super", if_not_exists=True)
    assert plan.empty
    assert [text.partition(": ")[2] for text in plan.warnings] == [
        "userType is 'Normal' instead of 'Super'"
    ] * 2


def test_an_update_keeps_the_other_fields(admin: MQAdmin, tables: list[AccessTable]) -> None:
    admin.user.apply(admin.user.plan_create("alice", "secret", user_type="Super"))
    assert admin.user.apply(admin.user.plan_update("alice", user_status="disable")).ok
    user = tables[0].users["alice"]
    assert (user.password, user.user_type, user.user_status) == ("secret", "Super", "disable")
    plan = admin.user.plan_update("alice", password="new")
    assert plan.changes[0].before == {
        "userType": "Super",
        "userStatus": "disable",
        "password": "another",
    }
    assert admin.user.apply(plan).ok
    assert admin.user.plan_update("alice", password="new").empty


def test_an_update_needs_a_change_and_a_user(admin: MQAdmin, tables: list[AccessTable]) -> None:
    with pytest.raises(ConfigError, match="nothing to change"):
        admin.user.plan_update("alice")
    with pytest.raises(ClientError, match="user alice does not exist"):
        admin.user.plan_update("alice", user_type="Super")
    with pytest.raises(ConfigError, match="blank"):
        admin.user.plan_create(" ", "secret")
    with pytest.raises(ConfigError, match="empty"):
        admin.user.plan_create("alice", "")


def test_a_user_is_deleted(admin: MQAdmin, tables: list[AccessTable]) -> None:
    admin.user.apply(admin.user.plan_create("alice", "secret"))
    assert admin.user.apply(admin.user.plan_delete("alice", broker="broker-a")).ok
    assert [list(table.users) for table in tables] == [[], ["alice"]]


def test_users_are_copied_with_their_passwords(admin: MQAdmin, tables: list[AccessTable]) -> None:
    for name in ("alice", "bob"):
        admin.user.apply(admin.user.plan_create(name, f"of {name}", broker="broker-a"))
    for plan in admin.user.copy_plans("broker-a", "broker-b", ["bob"]):
        assert admin.user.apply(plan).ok
    assert list(tables[1].users) == ["bob"]
    assert tables[1].users["bob"].password == "of bob"
    for plan in admin.user.copy_plans("broker-a", "broker-b"):
        assert admin.user.apply(plan).ok
    assert sorted(tables[1].users) == ["alice", "bob"]
    with pytest.raises(ClientError, match="user none does not exist"):
        list(admin.user.copy_plans("broker-a", "broker-b", ["none"]))


def test_a_broker_without_acl_is_an_error_of_that_broker(
    admin: MQAdmin, broker_b: FakeBroker, broker_a: FakeBroker
) -> None:
    AccessTable().serve(broker_a)
    listing = admin.user.list()
    assert listing.items == []
    (error,) = listing.errors
    assert (error.kind, error.response_code, error.target) == ("refused", 3, "broker-b")
