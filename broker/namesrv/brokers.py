"""What a name server knows of brokers: groups, signs of life, what they say of themselves.

**Source:** RocketMQ BrokerData, BrokerLiveInfo, RegisterBrokerRequestHeader, RegisterBrokerResult.
"""

from collections.abc import Mapping

import msgspec

from broker.common.topic import TopicConfig
from broker.remoting.protocol.body.route import MASTER_ID, BrokerData, TopicQueueMappingInfo
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

    def data(self) -> BrokerData:
        """The group as it travels in routes."""
        return BrokerData(
            cluster=self.cluster,
            broker_name=self.name,
            broker_addrs=dict(sorted(self.addresses.items())),
            enable_acting_master=self.acting_master,
            zone_name=self.zone,
        )


class BrokerLive:
    """Signs of life of one broker address; ``channel`` is the connection it registered on."""

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
    """What a broker says of itself: REGISTER_BROKER's header and body together.

    ``enable_acting_master`` None means the broker is older than 5.0; ``timeout_ms`` None means the
    default; ``filter_servers`` None means nothing was said about them.
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
        """What a live entry is found by."""
        return self.cluster, self.address


class RegisterResult(msgspec.Struct, frozen=True):
    """What a slave learns from its registration: where its master is; empty texts otherwise."""

    master_address: str = ""
    ha_address: str = ""


class MinBrokerIdChange(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest id of a broker group has changed; ``notify`` are the addresses to tell."""

    broker_name: str
    min_broker_id: int
    min_address: str
    offline_address: str | None
    ha_address: str | None
    notify: list[str]
