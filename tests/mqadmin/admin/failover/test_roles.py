"""Members of a broker name: registered ones, and those only the others know."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import BrokerError, ClientError, ConnectError
from broker.remoting.protocol.body.role import BrokerRoleInfo
from mqadmin.admin.failover.roles import RoleClient


class FakeSession:
    """Roles by address; an address without one does not answer."""

    def __init__(self, roles: dict[str, Any], registered: dict[int, str]) -> None:
        self.roles = roles
        self._registered = registered

    def without_deadline(self, call_ms: int | None = None) -> "FakeSession":
        return self

    def close(self) -> None:
        pass

    def call(self, address: str, code: int, **fields: Any) -> Any:
        found = self.roles.get(address)
        if found is None:
            raise ConnectError("refused", address=address)
        if isinstance(found, Exception):
            raise found
        return SimpleNamespace(value=found)

    def ask_namesrv(self, code: int) -> Any:
        data = SimpleNamespace(broker_addrs=self._registered)
        return SimpleNamespace(value=SimpleNamespace(broker_addr_table={"b": data}))


def client(roles: dict[str, Any], registered: dict[int, str]) -> RoleClient:
    return RoleClient(FakeSession(roles, registered))  # type: ignore[arg-type]


def test_a_fenced_master_that_is_not_registered_is_found_through_the_others() -> None:
    roles = {
        "new:1": BrokerRoleInfo(broker_name="b", address="new:1", replaced_master="old:1"),
        "old:1": BrokerRoleInfo(broker_name="b", address="old:1", fenced_reason="replaced"),
    }
    members = client(roles, {0: "new:1", 1: "silent:1"}).members("b")
    assert [(one.address, one.broker_id, one.info is not None) for one in members] == [
        ("new:1", 0, True),
        ("silent:1", 1, False),
        ("old:1", None, True),
    ]


def test_an_address_that_another_broker_uses_now_is_not_a_member() -> None:
    roles = {
        "new:1": BrokerRoleInfo(broker_name="b", replaced_master="old:1"),
        "old:1": BrokerRoleInfo(broker_name="other"),
    }
    assert [one.address for one in client(roles, {0: "new:1"}).members("b")] == ["new:1"]


def test_a_java_broker_is_refused_with_the_next_step() -> None:
    roles = {"java:1": BrokerError(3, "request type 20001 not supported", "java:1")}
    with pytest.raises(ClientError, match="java:1 is a Java broker"):
        client(roles, {0: "java:1"}).members("b")
