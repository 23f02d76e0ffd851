"""The name server's settings: every namesrv.conf key it reads, with default and meaning.

``NamesrvConfig`` holds the values, ``SETTINGS`` says for each field its key, unit and meaning, and
whether UPDATE_NAMESRV_CONFIG may change it while the name server runs. Keys nobody here reads are
kept, shown, and named once in a warning.

**Source:** RocketMQ NamesrvConfig, NettyServerConfig (names and defaults).
"""

import os
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from broker.common.settings import Setting, read_settings, write_settings
from broker.errors import ConfigError


class NamesrvConfig(msgspec.Struct, frozen=True, kw_only=True):
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
    allow_remote_admin: bool = False

    @property
    def kv_path(self) -> str:
        """The KV file; ``~/namesrv/kvConfig.json`` when none is set."""
        return self.kv_config_path or os.path.expanduser("~/namesrv/kvConfig.json")

    @property
    def store_path(self) -> str:
        """Where changed settings go; ``~/namesrv/namesrv.properties`` when none is set."""
        return self.config_store_path or os.path.expanduser("~/namesrv/namesrv.properties")


SETTINGS: Final[dict[str, Setting]] = {
    "bind_address": Setting(
        "bindAddress", "", "address to listen on; others than loopback by --listen"
    ),
    "listen_port": Setting("listenPort", "", "port to listen on"),
    "kv_config_path": Setting("kvConfigPath", "", "KV file; empty: ~/namesrv/kvConfig.json"),
    "config_store_path": Setting(
        "configStorePath", "", "where changed settings are written; empty: the -c file"
    ),
    "rocketmq_home": Setting("rocketmqHome", "", "accepted, not used"),
    "scan_not_active_broker_interval": Setting(
        "scanNotActiveBrokerInterval", "ms", "between looks for silent brokers", live=True
    ),
    "support_acting_master": Setting(
        "supportActingMaster",
        "",
        "present the lowest slave as master where there is none",
        live=True,
    ),
    "notify_min_broker_id_changed": Setting(
        "notifyMinBrokerIdChanged", "", "tell a broker group when its lowest id changes", live=True
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
        "waitSecondsForService", "s", "how long starting lasts", live=True
    ),
    "delete_topic_with_broker_registration": Setting(
        "deleteTopicWithBrokerRegistration",
        "",
        "forget topics a registration leaves out",
        live=True,
    ),
    "config_black_list": Setting(
        "configBlackList", "", "keys that cannot be changed from afar, separated by ';'"
    ),
    "client_request_thread_pool_queue_capacity": Setting(
        "clientRequestThreadPoolQueueCapacity", "requests", "route queries in work"
    ),
    "default_thread_pool_queue_capacity": Setting(
        "defaultThreadPoolQueueCapacity", "requests", "other requests in work"
    ),
    "server_channel_max_idle_time_seconds": Setting(
        "serverChannelMaxIdleTimeSeconds", "s", "close connections idle for so long"
    ),
    "max_connections": Setting("maxConnections", "connections", "open connections at most"),
    "allow_remote_admin": Setting(
        "allowRemoteAdmin", "", "let other machines destroy and reconfigure"
    ),
}

FIELD_OF_KEY: Final[dict[str, str]] = {setting.key: name for name, setting in SETTINGS.items()}
DEFAULTS: Final = NamesrvConfig()
ALWAYS_BLACK: Final = frozenset({"rocketmqHome", "configBlackList"})


def from_properties(properties: Mapping[str, str], base: NamesrvConfig = DEFAULTS) -> NamesrvConfig:
    """``base`` with every known key of ``properties``; the rest is ignored here.

    ConfigError when a value does not fit.
    """
    return check(read_settings(SETTINGS, properties, base))


def to_properties(config: NamesrvConfig) -> dict[str, str]:
    """Every setting as key → text, in the order of the table."""
    return write_settings(SETTINGS, config)


def unknown_keys(properties: Mapping[str, str]) -> list[str]:
    """The keys no field reads, sorted."""
    return sorted(key for key in properties if key not in FIELD_OF_KEY)


def check(config: NamesrvConfig) -> NamesrvConfig:
    """``config`` itself, or ConfigError when a value cannot be used."""
    if not 0 <= config.listen_port <= 65535:
        raise ConfigError(f"listenPort={config.listen_port}: not a port")
    if config.scan_not_active_broker_interval < 100:
        raise ConfigError(
            f"scanNotActiveBrokerInterval={config.scan_not_active_broker_interval}: below 100 ms"
        )
    if config.server_channel_max_idle_time_seconds < 1:
        raise ConfigError("serverChannelMaxIdleTimeSeconds: below 1 s")
    return config


def black_list(config: NamesrvConfig) -> frozenset[str]:
    """Keys that no request may change.

    **Source:** RocketMQ DefaultRequestProcessor#updateConfig, #initConfigBlackList
    """
    own = (key.strip() for key in config.config_black_list.split(";"))
    return ALWAYS_BLACK | {"configStorePath", "kvConfigPath"} | {key for key in own if key}


def patch_properties(text: str, changes: Mapping[str, str]) -> str:
    """Properties text with ``changes`` in it; every other line, comments included, stays.

    A changed key's last line gets the new value (that is the one readers take); new keys follow
    at the end.
    """
    from broker.common.properties import format_properties

    lines = text.splitlines()
    for key, value in changes.items():
        line = format_properties({key: value}).rstrip("\n")
        pattern = re.compile(rf"[ \t\f]*{re.escape(key)}[ \t\f]*[=: \t\f]")
        places = [place for place, old in enumerate(lines) if pattern.match(old)]
        if places:
            lines[places[-1]] = line
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"
