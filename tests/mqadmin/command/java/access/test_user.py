"""Java's commands about users, without passwords in the output."""

from collections.abc import Callable
from typing import Any

from mqadmin.command.java.access.user import split_words
from tests.support.access_broker import AccessTable

Run = Callable[..., Any]

HEADER = "#UserName         #Password               #UserType               #UserStatus           "


def test_a_user_is_created_on_every_broker(secured: Run, tables: list[AccessTable]) -> None:
    done = secured("createUser -c DefaultCluster -u alice -p secret -t Super")
    assert done.status == 0, done.err
    assert len(done.out.splitlines()) == 2
    for line in done.out.splitlines():
        assert line.startswith("create user to ")
        assert line.endswith(" success.")
    assert [table.users["alice"].password for table in tables] == ["secret", "secret"]
    assert "can see a password" in done.err


def test_the_password_is_read_from_stdin(secured: Run, tables: list[AccessTable]) -> None:
    done = secured("createUser -b $A -u alice -p -", stdin="from stdin\n")
    assert done.status == 0, done.err
    assert tables[0].users["alice"].password == "from stdin"
    assert "warning" not in done.err


def test_passwords_are_hidden(secured: Run) -> None:
    secured("createUser -c DefaultCluster -u alice -p topsecret")
    for line in ("listUser -c DefaultCluster", "getUser -b $A -u alice"):
        done = secured(line)
        header, row = done.out.splitlines()
        assert header == HEADER
        assert row.split() == ["alice", "******", "Normal", "enable"]
        assert "topsecret" not in done.err


def test_a_user_is_changed_copied_and_deleted(secured: Run, tables: list[AccessTable]) -> None:
    secured("createUser -b $A -u alice -p secret")
    assert secured("updateUser -b $A -u alice -s disable").status == 0
    assert tables[0].users["alice"].user_status == "disable"
    done = secured("copyUser -f $A -t $B")
    assert done.out.startswith("copy user of alice from ")
    assert tables[1].users["alice"].password == "secret"
    assert secured("deleteUser -c DefaultCluster -u alice").status == 0
    assert [table.users for table in tables] == [{}, {}]


def test_missing_users_and_options_have_their_statuses(secured: Run) -> None:
    assert secured("getUser -b $A").status == 2
    assert secured("getUser -b $A -u none").status == 1
    assert secured("updateUser -b $A -u none -s disable").status == 1
    assert secured("createUser -b $A -u alice -p secret -t Root").status == 2


def test_a_list_is_split_at_commas() -> None:
    assert split_words(" a, b,,") == ["a", "b"]
    assert split_words(None) == []
