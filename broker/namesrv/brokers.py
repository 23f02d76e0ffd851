"""The broker records of a name server: groups, liveness, registrations.

**Source:** RocketMQ BrokerData, BrokerLiveInfo, RegisterBrokerRequestHeader, RegisterBrokerResult.
"""

from collections.abc import Mapping

import msgspec

from broker.common.topic import TopicConfig
from broker.remoting.protocol.body.namesrv.route import MASTER_ID, BrokerData, TopicQueueMappingInfo
from broker.remoting.protocol.body.version import DataVersion

__all__ = [
    "MASTER_ID",
    "BrokerGroup",
    "BrokerLive",
    "MinBrokerIdChange",
    "RegisterResult",
    "Registration",
]


class BrokerGroup:
    """The brokers of one name: one master (id 0) and its slaves."""

    __slots__ = ("acting_master", "addresses", "cluster", "name", "zone")

    def __init__(self, cluster: str, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.addresses: dict[int, str] = {}
        self.acting_master = False
        self.zone: str | None = None

    @property
    def has_master(self) -> bool:
        """Whether id 0 is registered."""
        return MASTER_ID in self.addresses

    def serves(self, zone: str) -> bool:
        """Whether clients of a zone use the group: it has the zone, or no master."""
        return not self.has_master or (self.zone or "").lower() == zone.lower()

    def data(self) -> BrokerData:
        """Return the group as the BrokerData of a route."""
        return BrokerData(
            cluster=self.cluster,
            broker_name=self.name,
            broker_addrs=dict(sorted(self.addresses.items())),
            enable_acting_master=self.acting_master,
            zone_name=self.zone,
        )


class BrokerLive:
    """The liveness of one broker address; ``channel`` is the connection of its registration."""

    __slots__ = ("channel", "data_version", "ha_address", "timeout_ms", "updated_ms")

    def __init__(
        self,
        updated_ms: int,
        timeout_ms: int,
        data_version: DataVersion,
        channel: object,
        ha_address: str,
    ) -> None:
        self.updated_ms = updated_ms
        self.timeout_ms = timeout_ms
        self.data_version = data_version
        self.channel = channel
        self.ha_address = ha_address


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The registration of a broker: header and body of REGISTER_BROKER.

    ``enable_acting_master`` None: the broker is older than 5.0; ``timeout_ms`` None: default;
    ``filter_servers`` None: not included in the registration.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str = ""
    timeout_ms: int | None = None
    enable_acting_master: bool | None = None
    zone: str | None = None
    topics: Mapping[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    mappings: Mapping[str, TopicQueueMappingInfo] = {}
    filter_servers: list[str] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The key of the broker's entry in ``RouteInfoManager.live``."""
        return self.cluster, self.address


class RegisterResult(msgspec.Struct, frozen=True):
    """The result of a registration: the addresses of a slave's master, "" if not applicable."""

    master_address: str = ""
    ha_address: str = ""


class MinBrokerIdChange(msgspec.Struct, frozen=True, kw_only=True):
    """A changed lowest id of a broker group; ``notify`` contains the addresses to notify."""

    broker_name: str
    min_broker_id: int
    min_address: str
    offline_address: str | None
    ha_address: str | None
    notify: list[str]
