"""The role of a broker: GET_BROKER_ROLE and CHANGE_BROKER_ROLE, requests of this project."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from broker.remoting.protocol.body.base import Body
from broker.remoting.protocol.body.ha import EpochEntry


class RoleProperties(Body, frozen=True, kw_only=True):
    """CHANGE_BROKER_ROLE, request: broker.conf keys that a promoted broker takes over."""

    properties: dict[str, str] = {}


class BrokerRoleInfo(Body, frozen=True, kw_only=True):
    """GET_BROKER_ROLE (20001), and the response to CHANGE_BROKER_ROLE; offsets are physical.

    ``promised_epoch`` and ``promised_to``: the last switch that this broker has agreed to; a
    master with a promised epoch above its own is fenced. ``fenced_reason`` is empty without a
    fence; ``replaced_master`` the address of the master before this one. Of a slave:
    ``master_address``, the end of the master's log as far as it is known
    (``master_end_offset``, 0 unknown), ``problem`` why it does not follow (empty while it does),
    ``diverged_at`` the first offset that differs from the master's log (-1 without one).
    ``replication_properties``: the durability settings of a master of this broker name.
    """

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: int = 0
    address: str = ""
    role: str = ""
    epoch: int = 0
    promised_epoch: int = 0
    promised_to: str = ""
    fenced_reason: str = ""
    replaced_master: str = ""
    writable: bool = False
    min_offset: int = 0
    max_offset: int = 0
    flushed_offset: int = 0
    master_address: str = ""
    master_end_offset: int = 0
    connected: bool = False
    problem: str = ""
    diverged_at: int = -1
    changing: bool = False
    replication_properties: dict[str, str] = {}
    epochs: list[EpochEntry] = []
