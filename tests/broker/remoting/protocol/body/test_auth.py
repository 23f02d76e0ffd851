"""Bodies of users and access rules: single objects, and lists that are bare arrays."""

import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.auth import (
    AclInfo,
    AclList,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    UserList,
)

USER = b'{"password":"pw","userStatus":"enable","userType":"Normal","username":"alice"}'
ACL = (
    b'{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:T1",'
    b'"sourceIps":["10.0.0.0/8"]}],"policyType":"Custom"}],"subject":"User:alice"}'
)


def test_a_user_has_name_password_type_and_status() -> None:
    user = UserInfo(username="alice", password="pw", user_type="Normal", user_status="enable")
    assert UserInfo.from_bytes(USER) == user
    assert user.to_bytes() == USER


def test_absent_fields_of_an_update_are_not_sent() -> None:
    """A broker changes only the fields of an update that are present."""
    assert UserInfo(username="alice", user_status="disable").to_bytes() == (
        b'{"userStatus":"disable","username":"alice"}'
    )


def test_a_rule_names_resource_actions_sources_and_decision() -> None:
    entry = PolicyEntryInfo(
        resource="Topic:T1", actions=["Pub", "Sub"], source_ips=["10.0.0.0/8"], decision="Allow"
    )
    acl = AclInfo(
        subject="User:alice", policies=[PolicyInfo(policy_type="Custom", entries=[entry])]
    )
    assert AclInfo.from_bytes(ACL) == acl
    assert acl.to_bytes() == ACL


def test_lists_are_bare_arrays() -> None:
    users = UserList.from_bytes(b"[" + USER + b"," + USER + b"]")
    assert [user.username for user in users.items] == ["alice", "alice"]
    assert users.to_bytes() == b"[" + USER + b"," + USER + b"]"
    assert AclList.from_bytes(b"[" + ACL + b"]").items[0].subject == "User:alice"


@pytest.mark.parametrize("cls", [UserList, AclList])
def test_an_empty_body_is_an_empty_list_and_an_object_is_refused(cls) -> None:
    assert cls.from_bytes(b"").items == []
    with pytest.raises(RemoteProtocolError):
        cls.from_bytes(b"{}")
