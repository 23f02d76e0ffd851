"""Members of a broker name: registered ones, and those only the others know."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import BrokerError, ClientError, ConnectError, RequestTimeoutError
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


@pytest.mark.parametrize(
    "problem",
    [
        BrokerError(2, "busy", "slow:1"),
        BrokerError(14, "shutting down", "slow:1"),
        RequestTimeoutError("no answer", address="slow:1"),
        ConnectError("refused", address="slow:1"),
    ],
)
def test_a_broker_that_cannot_answer_now_is_not_alive(problem: Exception) -> None:
    assert client({"slow:1": problem}, {}).alive("slow:1") is None


def test_a_refusal_is_not_taken_for_a_dead_broker() -> None:
    """A switch that counts such a broker as dead would leave two masters."""
    roles = {"h:1": BrokerError(16, "no permission", "h:1")}
    with pytest.raises(BrokerError, match="no permission"):
        client(roles, {0: "h:1"}).members("b")


def test_an_address_given_by_the_user_is_a_member_only_if_it_answers() -> None:
    roles = {
        "m:1": BrokerRoleInfo(broker_name="b", role="SYNC_MASTER"),
        "extra:1": BrokerRoleInfo(broker_name="b", role="SLAVE", master_address="m:1"),
    }
    found = client(roles, {0: "m:1"}).members("b", also="extra:1")
    assert [(one.address, one.is_master, one.is_slave) for one in found] == [
        ("m:1", True, False),
        ("extra:1", False, True),
    ]
    assert [one.address for one in client(roles, {0: "m:1"}).members("b", also="gone:1")] == ["m:1"]


def test_a_registered_broker_keeps_its_id_when_the_user_names_it_too() -> None:
    roles = {"m:1": BrokerRoleInfo(broker_name="b", role="ASYNC_MASTER")}
    (member,) = client(roles, {0: "m:1"}).members("b", also="m:1")
    assert (member.broker_id, member.is_master) == (0, True)


def test_members_that_name_each_other_are_found_once() -> None:
    ring = {f"h:{number}": f"h:{(number + 1) % 4}" for number in range(4)}
    roles = {
        address: BrokerRoleInfo(broker_name="b", role="SLAVE", master_address=other)
        for address, other in ring.items()
    }
    found = client(roles, {3: "h:3"}).members("b")
    assert [one.address for one in found] == ["h:3", "h:0", "h:1", "h:2"]


def test_a_name_without_registered_brokers_has_no_members() -> None:
    assert client({}, {}).members("other") == []
    assert client({}, {0: "m:1"}).registered("other") == {}
