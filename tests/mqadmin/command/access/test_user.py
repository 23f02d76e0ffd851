"""``mqadmin user``: its options and its output; no password is in either."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.admin.access.users import UserRecord
from mqadmin.admin.result import Change, ChangeResult, Listing, Outcome, Plan, Request

Run = Callable[..., Any]

ROW = UserRecord(
    username="alice",
    user_type="Normal",
    user_status="enable",
    cluster_name="DefaultCluster",
    broker_name="broker-a",
    address="a:1",
)
AFTER = {"userType": "Normal", "userStatus": "enable", "password": "as given"}


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "key"
    path.write_text("topsecret\n")
    return str(path)


@pytest.fixture(autouse=True)
def answers(admin: Any) -> None:
    change = Change(
        target="broker-a",
        address="a:1",
        action="create",
        after=AFTER,
        request=Request(address="a:1", code=3001, body=b"topsecret"),
    )
    plan = Plan(kind="user.create", subject="alice", changes=[change])
    for verb in ("create", "update", "delete"):
        admin.answers[f"user.plan_{verb}"] = plan
    result = ChangeResult(
        target="broker-a", address="a:1", action="create", status="done", after=AFTER
    )
    admin.answers["apply"] = Outcome(kind="user.create", subject="alice", items=[result])
    admin.answers["user.list"] = admin.answers["user.get"] = Listing(items=[ROW])


def test_users_are_listed_without_passwords(mqadmin: Run, admin: Any) -> None:
    done = mqadmin("user", "list", "-o", "json")
    (item,) = json.loads(done.out)["items"]
    assert (item["username"], item["brokerName"]) == ("alice", "broker-a")
    assert "password" not in item


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_the_password_of_a_new_user_is_not_shown(mqadmin: Run, key: str, form: str) -> None:
    words = ("user", "create", "alice", "--password-file", key, "--yes", "-o", form)
    done = mqadmin(*words)
    assert done.status == 0, done.err
    assert "topsecret" not in done.out + done.err


def test_the_password_is_read_from_the_file(mqadmin: Run, admin: Any, key: str) -> None:
    mqadmin("user", "create", "alice", "--password-file", key, "--type", "Super", "--yes")
    (call,) = [call for call in admin.calls if call[0] == "user.plan_create"]
    assert call[1] == ("alice", "topsecret")
    assert call[2]["user_type"] == "Super"


def test_an_update_without_a_password_reads_none(mqadmin: Run, admin: Any) -> None:
    assert mqadmin("user", "update", "alice", "--disable", "--yes").status == 0
    (call,) = [call for call in admin.calls if call[0] == "user.plan_update"]
    assert (call[2]["password"], call[2]["user_status"]) == (None, "disable")


def test_incomplete_changes_are_usage_errors(mqadmin: Run, admin: Any) -> None:
    assert mqadmin("user", "update", "alice", "--yes").status == 2
    assert mqadmin("user", "create", "alice", "--yes").status == 2
    assert mqadmin("user", "create", "alice").status == 2
    assert mqadmin("user", "create", "alice", "--password-file", "/nowhere", "--yes").status == 2
    assert admin.calls == []


def test_an_unknown_user_has_status_1(mqadmin: Run, admin: Any) -> None:
    admin.answers["user.get"] = Listing(items=[])
    done = mqadmin("user", "get", "bob")
    assert done.status == 1
    assert "no broker has user bob" in done.err


def test_a_user_is_deleted(mqadmin: Run, admin: Any) -> None:
    assert mqadmin("user", "delete", "alice", "--broker", "broker-a", "--yes").status == 0
    (call,) = [call for call in admin.calls if call[0] == "user.plan_delete"]
    assert call[2] == {"cluster": None, "broker": "broker-a"}
