"""BrokerRole: the part of RoleControl that requests use, without its imports."""

from collections.abc import Mapping
from typing import Protocol

from broker.remoting.protocol.body.role import BrokerRoleInfo
from broker.server.role.role_state import RoleState


class BrokerRole(Protocol):
    """The steps of a role change; see :class:`broker.server.role.role_control.RoleControl`."""

    state: RoleState
    changing: bool

    async def fence(self, epoch: int, target: str) -> None:
        """Promise an epoch to the broker at ``target``; a master stops its writes."""
        ...

    async def synchronize(self) -> None:
        """Copy the master's tables to this slave."""
        ...

    async def promote(
        self, epoch: int, expected_offset: int, properties: Mapping[str, str]
    ) -> None:
        """Become the master of ``epoch``."""
        ...

    async def demote(self, epoch: int, broker_id: int) -> None:
        """Become the slave ``broker_id``."""
        ...

    def info(self) -> BrokerRoleInfo:
        """Return the state as GET_BROKER_ROLE answers it."""
        ...
