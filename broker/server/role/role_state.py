"""RoleState: the role, the epoch and the votes of a broker, in ``config/brokerRole.json``.

The file exists once the broker has had a slave or has taken part in a role change. With ``role``
it overrides brokerRole, brokerId and the replication settings of broker.conf: a promoted broker
remains the master after a restart, regardless of broker.conf; a warning names the difference.
Remove the file (broker stopped) to let broker.conf decide again.
"""

import json
import logging
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from broker.errors import StoreError
from broker.store.config_file import ConfigFile
from broker.store.logfile.disk import Disk

log = logging.getLogger("broker.server")

ROLE_FILE: Final = "brokerRole.json"

ROLES: Final = ("", "MASTER", "SLAVE")

# Settings that define the acknowledgement of a master: a promoted broker takes them over.
REPLICATION_KEYS: Final = (
    "inSyncReplicas",
    "minInSyncReplicas",
    "allAckInSyncStateSet",
    "enableAutoInSyncReplicas",
)


class EpochStart(msgspec.Struct, frozen=True, rename="camel"):
    """A term of mastership of this broker name, and the physical offset at which it started."""

    epoch: int
    start_offset: int


class RoleState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of the file.

    ``role``: MASTER or SLAVE, "" while broker.conf decides. ``master_role``: brokerRole as a
    master. ``epoch``: the highest one in which this broker has had a role; ``voted_epoch`` and
    ``voted_for`` (address): the last switch it has agreed to. ``had_slaves``: another broker may
    have replaced this master while it was down. ``replaced_master``: the address of the master
    before this one.
    """

    role: str = ""
    broker_id: int = 0
    master_role: str = "ASYNC_MASTER"
    epoch: int = 0
    voted_epoch: int = 0
    voted_for: str = ""
    had_slaves: bool = False
    replaced_master: str = ""
    replication_properties: Mapping[str, str] = {}
    epochs: tuple[EpochStart, ...] = ()

    def overlay(self) -> dict[str, str]:
        """Return the broker.conf keys that this state overrides."""
        if self.role == "MASTER":
            return {
                "brokerRole": self.master_role,
                "brokerId": "0",
                **self.replication_properties,
            }
        if self.role == "SLAVE":
            own = {"brokerRole": "SLAVE", "brokerId": str(self.broker_id), "haMasterAddress": ""}
            return {**own, "inSyncReplicas": "1"}
        return {}


class RoleFile:
    """The file below the store directory ``root``; its methods block on the disk."""

    def __init__(self, root: str, disk: Disk) -> None:
        self.path = os.path.join(root, "config", ROLE_FILE)
        self._file = ConfigFile(self.path, disk)

    def load(self) -> RoleState:
        """Return the state; the default without a file. StoreError for an invalid one.

        An invalid file stops the start: an older role could bring a replaced master back.
        """
        try:
            text = self._file.load()
            state = msgspec.json.decode(text, type=RoleState) if text.strip() else RoleState()
            if state.role not in ROLES:
                raise ValueError(f"role {state.role!r:.40} is unknown")
            return state
        except OSError as error:
            raise StoreError(
                f"{self.path}: {error.strerror or error}",
                "check the disk; nothing was changed",
                path=self.path,
            ) from error
        except ValueError as error:
            raise StoreError(
                f"{self.path}: not a broker role: {error}",
                "restore it from its backup (.bak), or remove both to let broker.conf decide",
                path=self.path,
            ) from error

    def persist(self, state: RoleState) -> None:
        """Replace the file; it is on the disk on return. StoreError leaves the old one."""
        text = json.dumps(json.loads(msgspec.json.encode(state)), indent=2)
        try:
            self._file.persist(text + "\n")
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be written: {error.strerror or error}",
                "the role has not changed",
                path=self.path,
            ) from error
