"""The protocol that requests use is the one that RoleControl has."""

from pathlib import Path

from broker.server.configuration.settings import Settings
from broker.server.role.broker_role import BrokerRole
from broker.server.role.role_control import RoleControl
from broker.server.role.role_state import RoleFile, RoleState
from broker.store.logfile.disk import Disk


def test_role_control_has_every_step_of_the_protocol(tmp_path: Path) -> None:
    role: BrokerRole = RoleControl(Settings(), RoleFile(str(tmp_path), Disk()), lambda: None)
    assert role.state == RoleState()
    assert not role.changing
    steps = [name for name in vars(BrokerRole) if not name.startswith("_")]
    assert set(steps) == {"fence", "synchronize", "promote", "demote", "info"}
    assert all(callable(getattr(role, step)) for step in steps)
