"""The name server's settings: every namesrv.conf key it reads, with default and meaning.

``NamesrvConfig`` contains the values; ``SETTINGS`` defines key, unit and meaning of each field and
whether UPDATE_NAMESRV_CONFIG may change it at run time. Unknown keys are kept, listed with the
settings, and reported in one warning.

**Source:** RocketMQ NamesrvConfig, NettyServerConfig (names and defaults).
"""

import os
from collections.abc import Mapping
from typing import Final

from broker.common.config.settings import (
    DAY_MS,
    Setting,
    check_bounds,
    read_settings,
    unserved,
    write_settings,
)
from broker.remoting.process.unserved import UNSERVED_TLS
from broker.remoting.security.access import AccessRules
from broker.remoting.security.tls_settings import TLS_SETTINGS, TlsConfig, check_tls


class NamesrvConfig(TlsConfig, frozen=True, kw_only=True):
    """Effective settings; ``SETTINGS`` documents each field."""

    bind_address: str = "127.0.0.1"
    listen_port: int = 9876
    kv_config_path: str = ""
    config_store_path: str = ""
    rocketmq_home: str = ""
    scan_not_active_broker_interval: int = 5_000
    support_acting_master: bool = False
    notify_min_broker_id_changed: bool = False
    order_message_enable: bool = False
    return_order_topic_config_to_broker: bool = True
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45
    delete_topic_with_broker_registration: bool = False
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    client_request_thread_pool_queue_capacity: int = 50_000
    default_thread_pool_queue_capacity: int = 10_000
    server_channel_max_idle_time_seconds: int = 120
    max_connections: int = 20_000
    admin_hosts: str = ""
    cluster_members: str = ""
    allow_remote_admin: bool = False

    @property
    def kv_path(self) -> str:
        """Path of the KV file; default ``~/namesrv/kvConfig.json``."""
        return self.kv_config_path or os.path.expanduser("~/namesrv/kvConfig.json")

    @property
    def store_path(self) -> str:
        """Path for changed settings; default ``~/namesrv/namesrv.properties``."""
        return self.config_store_path or os.path.expanduser("~/namesrv/namesrv.properties")


SETTINGS: Final[dict[str, Setting]] = {
    "bind_address": Setting(
        "bindAddress", "", "address to listen on; others than loopback by --listen"
    ),
    "listen_port": Setting("listenPort", "", "port to listen on", bounds=(0, 65_535)),
    "kv_config_path": Setting("kvConfigPath", "", "KV file; empty: ~/namesrv/kvConfig.json"),
    "config_store_path": Setting(
        "configStorePath", "", "where changed settings are written; empty: the -c file"
    ),
    "rocketmq_home": Setting("rocketmqHome", "", "accepted, not used"),
    "scan_not_active_broker_interval": Setting(
        "scanNotActiveBrokerInterval",
        "ms",
        "interval of the scan for expired brokers",
        live=True,
        bounds=(100, DAY_MS),
    ),
    "support_acting_master": Setting(
        "supportActingMaster",
        "",
        "present the lowest slave as master of a group without one",
        live=True,
    ),
    "notify_min_broker_id_changed": Setting(
        "notifyMinBrokerIdChanged",
        "",
        "notify a broker group of changes of its lowest id",
        live=True,
    ),
    "order_message_enable": Setting(
        "orderMessageEnable", "", "add the order configuration of a topic to its route", live=True
    ),
    "return_order_topic_config_to_broker": Setting(
        "returnOrderTopicConfigToBroker", "", "answer registrations with the order table", live=True
    ),
    "enable_all_topic_list": Setting(
        "enableAllTopicList", "", "answer the list of all topics", live=True
    ),
    "enable_topic_list": Setting(
        "enableTopicList", "", "answer topic lists by cluster and by unit", live=True
    ),
    "need_wait_for_service": Setting(
        "needWaitForService", "", "refuse route queries while starting", live=True
    ),
    "wait_seconds_for_service": Setting(
        "waitSecondsForService", "s", "duration of the start phase", live=True, bounds=(0, 86_400)
    ),
    "delete_topic_with_broker_registration": Setting(
        "deleteTopicWithBrokerRegistration",
        "",
        "remove topics that a registration does not contain",
        live=True,
    ),
    "config_black_list": Setting(
        "configBlackList", "", "keys that requests cannot change, separated by ';'"
    ),
    "client_request_thread_pool_queue_capacity": Setting(
        "clientRequestThreadPoolQueueCapacity",
        "requests",
        "limit of queued route queries",
        bounds=(1, 10_000_000),
    ),
    "default_thread_pool_queue_capacity": Setting(
        "defaultThreadPoolQueueCapacity",
        "requests",
        "limit of other queued requests",
        bounds=(1, 10_000_000),
    ),
    "server_channel_max_idle_time_seconds": Setting(
        "serverChannelMaxIdleTimeSeconds",
        "s",
        "close connections after this idle time",
        bounds=(1, 86_400),
    ),
    "max_connections": Setting(
        "maxConnections", "connections", "maximum of open connections", bounds=(1, 10_000_000)
    ),
    "admin_hosts": Setting(
        "adminHosts",
        "",
        "hosts besides loopback that may administer: IP addresses or networks separated by ';'",
    ),
    "cluster_members": Setting(
        "clusterMembers",
        "",
        "hosts that may register brokers (form as adminHosts); empty: any host, for brokers "
        "at its own address",
    ),
    "allow_remote_admin": Setting("allowRemoteAdmin", "", "every host may administer"),
    **TLS_SETTINGS,
}

FIELD_OF_KEY: Final[dict[str, str]] = {setting.key: name for name, setting in SETTINGS.items()}
DEFAULTS: Final = NamesrvConfig()
ALWAYS_BLACK: Final = frozenset({"rocketmqHome", "configBlackList"})

UNSERVED_KEYS: Final = (
    *UNSERVED_TLS,
    unserved("enableControllerInNamesrv", ["false"], "no controller is served: no failover"),
)
"""Keys with which this name server refuses to start, because it does not implement them."""


def from_properties(properties: Mapping[str, str], base: NamesrvConfig = DEFAULTS) -> NamesrvConfig:
    """Return ``base`` with the known keys of ``properties``; other keys are ignored.

    Raises ConfigError for an invalid value.
    """
    return check(read_settings(SETTINGS, properties, base))


def to_properties(config: NamesrvConfig) -> dict[str, str]:
    """Return every setting as key → text, in the order of the table."""
    return write_settings(SETTINGS, config)


def unknown_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the keys without a setting, sorted."""
    return sorted(key for key in properties if key not in FIELD_OF_KEY)


def check(config: NamesrvConfig) -> NamesrvConfig:
    """Return ``config``; raise ConfigError for an invalid value."""
    access_rules(config)
    check_tls(config)
    return check_bounds(SETTINGS, config)


def access_rules(config: NamesrvConfig) -> AccessRules:
    """Return the access rules; raise ConfigError for an invalid address list."""
    return AccessRules(
        admin_hosts=config.admin_hosts,
        cluster_members=config.cluster_members,
        allow_remote_admin=config.allow_remote_admin,
    )


def black_list(config: NamesrvConfig) -> frozenset[str]:
    """Return the keys that no request may change.

    **Source:** RocketMQ DefaultRequestProcessor#updateConfig, #initConfigBlackList
    """
    own = (key.strip() for key in config.config_black_list.split(";"))
    return ALWAYS_BLACK | {"configStorePath", "kvConfigPath"} | {key for key in own if key}
