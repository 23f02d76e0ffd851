"""The roles of all brokers of one name, as the brokers themselves report them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from broker.errors import (
    BrokerError,
    ClientError,
    ConnectError,
    RemotingError,
    RequestTimeoutError,
    RocketMQError,
)
from broker.remoting.protocol.body.role import BrokerRoleInfo, RoleProperties
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.session import AdminSession

SLAVE = "SLAVE"
# A slave waits for its log before it copies consumer offsets: up to 10 s.
SYNCHRONIZE_MS = 15_000


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One broker of the name; ``info`` None for a registered broker that does not answer."""

    address: str
    broker_id: int | None
    info: BrokerRoleInfo | None

    @property
    def is_slave(self) -> bool:
        """True for a slave that answers."""
        return self.info is not None and self.info.role == SLAVE

    @property
    def is_master(self) -> bool:
        """True for a master that answers, fenced or not."""
        return self.info is not None and self.info.role != SLAVE


class RoleClient:
    """Requests about roles; not bounded by the deadline of a command, each has its own."""

    def __init__(self, admin: AdminSession, call_ms: int = 3_000) -> None:
        self.admin = admin.without_deadline(call_ms)
        self._patient = admin.without_deadline(SYNCHRONIZE_MS)

    def close(self) -> None:
        """Close the connections."""
        self.admin.close()
        self._patient.close()

    def role_of(self, address: str) -> BrokerRoleInfo:
        """Return the role of a broker; ClientError for a Java broker."""
        try:
            found: BrokerRoleInfo = self.admin.call(address, RequestCode.GET_BROKER_ROLE).value
            return found
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise ClientError(
                    f"{address} is a Java broker: its role cannot be changed while it runs",
                    "stop it and start it with another brokerRole and brokerId",
                ) from error
            raise

    def alive(self, address: str) -> BrokerRoleInfo | None:
        """Return the role of a broker; None if it does not answer at the moment."""
        try:
            return self.role_of(address)
        except (RemotingError, ConnectError, RequestTimeoutError):
            return None
        except BrokerError as error:
            if error.code in (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE):
                return None
            raise

    def change(
        self,
        address: str,
        action: str,
        properties: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> BrokerRoleInfo:
        """Ask for one step of a switch; return the state after it."""
        code = RequestCode.CHANGE_BROKER_ROLE
        body = RoleProperties(properties=dict(properties)).to_bytes() if properties else b""
        admin = self._patient if action == "synchronize" else self.admin
        command = build_request(code, {"action": action, **fields}, body)
        answer = admin.call_all([(address, command)])[0]
        if isinstance(answer, RocketMQError):
            raise answer
        state: BrokerRoleInfo = answer.value
        return state

    def members(self, name: str, also: str = "") -> list[Member]:
        """Return every known broker of ``name`` by broker id: registered, at ``also``, replaced.

        A fenced master is not registered: the others know its address.
        """
        waiting: dict[str, int | None] = {
            address: broker_id for broker_id, address in self.registered(name).items()
        }
        if also:
            waiting.setdefault(also, None)
        found: dict[str, Member] = {}
        while waiting:
            address, broker_id = waiting.popitem()
            info = self.alive(address)
            if info is not None and info.broker_name != name:
                continue  # another broker has taken this address
            if info is None and broker_id is None:
                continue  # known from others only, and gone
            found[address] = Member(address=address, broker_id=broker_id, info=info)
            for other in (info.master_address, info.replaced_master) if info is not None else ():
                if other and other not in found:
                    waiting.setdefault(other, None)
        return sorted(
            found.values(), key=lambda one: (one.broker_id is None, one.broker_id or 0, one.address)
        )

    def registered(self, name: str) -> dict[int, str]:
        """Return broker id → address of ``name`` at the name server."""
        table = self.admin.ask_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO).value
        data = table.broker_addr_table.get(name)
        if data is None:
            return {}
        return {int(broker_id): address for broker_id, address in data.broker_addrs.items()}
