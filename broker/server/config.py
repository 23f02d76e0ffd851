"""Settings of the broker role: every broker.conf key it reads, with default and meaning.

``BrokerConfig`` holds the values. ``SETTINGS`` defines for each field its key in broker.conf, its
unit and meaning, and whether UPDATE_BROKER_CONFIG may change it while the broker runs. Settings of
the store are defined in ``broker.store.config``. Unknown keys are kept and listed once in a
warning, because real broker.conf files contain hundreds of them.

**Source:** RocketMQ BrokerConfig, NettyServerConfig (names and defaults).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from broker.common.address import parse_address
from broker.common.settings import (
    DAY_MS,
    HOUR_MS,
    INT_MAX,
    LONG_MAX,
    Setting,
    check_bounds,
    read_settings,
    write_settings,
)
from broker.errors import ConfigError, LocalProtocolError
from broker.remoting.access import AccessRules


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Effective settings of the broker role; ``SETTINGS`` documents each field."""

    broker_name: str = "broker-a"
    broker_cluster_name: str = "DefaultCluster"
    broker_id: int = 0
    broker_ip1: str = ""
    bind_address: str = "127.0.0.1"
    listen_port: int = 10911
    namesrv_addr: str = ""
    broker_role: str = "ASYNC_MASTER"
    broker_permission: int = 6
    default_topic_queue_nums: int = 8
    auto_create_topic_enable: bool = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1000
    lite_pull_message_enable: bool = True
    enable_property_filter: bool = False
    filter_support_retry: bool = False
    notify_consumer_ids_changed_enable: bool = True
    use_server_side_reset_offset: bool = True
    reject_transaction_message: bool = False
    start_accept_send_request_time_stamp: int = 0
    validate_system_topic_when_update_topic: bool = True
    enable_mixed_message_type: bool = False
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000
    force_register: bool = True
    flush_consumer_offset_interval: int = 5_000
    channel_expired_timeout: int = 120_000
    server_channel_max_idle_time_seconds: int = 120
    send_thread_pool_queue_capacity: int = 10_000
    pull_thread_pool_queue_capacity: int = 100_000
    config_black_list: str = "configBlackList;brokerConfigPath"
    default_query_max_num: int = 32
    max_held_pulls: int = 100_000
    max_connections: int = 20_000
    admin_hosts: str = ""
    allow_remote_admin: bool = False


SETTINGS: Final[dict[str, Setting]] = {
    "broker_name": Setting("brokerName", "", "name of this broker in routes; also a topic"),
    "broker_cluster_name": Setting("brokerClusterName", "", "cluster this broker belongs to"),
    "broker_id": Setting(
        "brokerId", "", "0 for a master, above 0 for a slave", bounds=(0, INT_MAX)
    ),
    "broker_ip1": Setting("brokerIP1", "", "address announced to clients; empty: the one bound"),
    "bind_address": Setting("bindAddress", "", "address to listen on"),
    "listen_port": Setting(
        "listenPort", "", "port to listen on; the port two below serves too", bounds=(0, 65_535)
    ),
    "namesrv_addr": Setting("namesrvAddr", "", "name servers, host:port separated by ';'"),
    "broker_role": Setting("brokerRole", "", "ASYNC_MASTER or SYNC_MASTER; slaves are not served"),
    "broker_permission": Setting(
        "brokerPermission", "", "4 read, 2 write, 6 both", live=True, bounds=(0, 7)
    ),
    "default_topic_queue_nums": Setting(
        "defaultTopicQueueNums",
        "queues",
        "queues of the template topic TBW102",
        live=True,
        bounds=(1, 65_536),
    ),
    "auto_create_topic_enable": Setting(
        "autoCreateTopicEnable", "", "create unknown topics at their first send", live=True
    ),
    "cluster_topic_enable": Setting(
        "clusterTopicEnable", "", "cluster topic is readable, writable"
    ),
    "broker_topic_enable": Setting("brokerTopicEnable", "", "broker topic is readable, writable"),
    "auto_create_subscription_group": Setting(
        "autoCreateSubscriptionGroup", "", "create unknown consumer groups on use", live=True
    ),
    "trace_topic_enable": Setting("traceTopicEnable", "", "create the message trace topic"),
    "msg_trace_topic_name": Setting("msgTraceTopicName", "", "name of the message trace topic"),
    "region_id": Setting("regionId", "", "value of the MSG_REGION property"),
    "trace_on": Setting("traceOn", "", "value of the TRACE_ON property"),
    "long_polling_enable": Setting(
        "longPollingEnable", "", "hold a pull as long as the client asks", live=True
    ),
    "short_polling_time_mills": Setting(
        "shortPollingTimeMills",
        "ms",
        "hold time when long polling is off",
        live=True,
        bounds=(0, HOUR_MS),
    ),
    "lite_pull_message_enable": Setting(
        "litePullMessageEnable", "", "serve request 361", live=True
    ),
    "enable_property_filter": Setting(
        "enablePropertyFilter", "", "allow SQL92 subscriptions", live=True
    ),
    "filter_support_retry": Setting(
        "filterSupportRetry", "", "apply SQL92 filters to retried messages", live=True
    ),
    "notify_consumer_ids_changed_enable": Setting(
        "notifyConsumerIdsChangedEnable", "", "tell consumers when their group changes", live=True
    ),
    "use_server_side_reset_offset": Setting(
        "useServerSideResetOffset",
        "",
        "reset offsets on the broker, group on-line or not",
        live=True,
    ),
    "reject_transaction_message": Setting(
        "rejectTransactionMessage", "", "refuse half messages (this broker always does)"
    ),
    "start_accept_send_request_time_stamp": Setting(
        "startAcceptSendRequestTimeStamp",
        "epoch ms",
        "refuse sends before this time",
        live=True,
        bounds=(0, LONG_MAX),
    ),
    "validate_system_topic_when_update_topic": Setting(
        "validateSystemTopicWhenUpdateTopic", "", "refuse changes of system topics", live=True
    ),
    "enable_mixed_message_type": Setting(
        "enableMixedMessageType", "", "allow the topic attribute message.type=MIXED", live=True
    ),
    "register_name_server_period": Setting(
        "registerNameServerPeriod", "ms", "between registrations, 10 s to 60 s", bounds=(1, DAY_MS)
    ),
    "register_broker_timeout_mills": Setting(
        "registerBrokerTimeoutMills", "ms", "wait for a name server's answer", bounds=(1, HOUR_MS)
    ),
    "force_register": Setting("forceRegister", "", "register even when nothing has changed"),
    "flush_consumer_offset_interval": Setting(
        "flushConsumerOffsetInterval",
        "ms",
        "between writes of consumerOffset.json",
        bounds=(1, DAY_MS),
    ),
    "channel_expired_timeout": Setting(
        "channelExpiredTimeout", "ms", "a client silent for so long is off-line", bounds=(1, DAY_MS)
    ),
    "server_channel_max_idle_time_seconds": Setting(
        "serverChannelMaxIdleTimeSeconds",
        "s",
        "close connections idle for so long",
        bounds=(1, 86_400),
    ),
    "send_thread_pool_queue_capacity": Setting(
        "sendThreadPoolQueueCapacity",
        "requests",
        "sends in work before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
    "pull_thread_pool_queue_capacity": Setting(
        "pullThreadPoolQueueCapacity",
        "requests",
        "pulls in work before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
    "config_black_list": Setting(
        "configBlackList", "", "keys that UPDATE_BROKER_CONFIG must not touch, separated by ';'"
    ),
    "default_query_max_num": Setting(
        "defaultQueryMaxNum",
        "messages",
        "most answers of a query by unique key",
        live=True,
        bounds=(1, 100_000),
    ),
    "max_held_pulls": Setting(
        "maxHeldPulls",
        "requests",
        "pulls suspended at once; further ones are answered at once",
        bounds=(0, 10_000_000),
    ),
    "max_connections": Setting(
        "maxConnections", "connections", "open connections at most", bounds=(1, 10_000_000)
    ),
    "admin_hosts": Setting(
        "adminHosts",
        "",
        "hosts besides loopback that may administer: IP addresses or networks separated by ';'",
    ),
    "allow_remote_admin": Setting("allowRemoteAdmin", "", "every host may administer"),
}

FIELD_OF_KEY: Final[dict[str, str]] = {setting.key: name for name, setting in SETTINGS.items()}
DEFAULTS: Final = BrokerConfig()

REGISTER_PERIOD_BOUNDS_MS: Final = (10_000, 60_000)
FOREIGN_ROLES: Final = {"SLAVE"}


def from_properties(properties: Mapping[str, str], base: BrokerConfig = DEFAULTS) -> BrokerConfig:
    """Return ``base`` updated with the broker's keys of ``properties``; other keys are ignored.

    ConfigError when the result is invalid.
    """
    return check(read_settings(SETTINGS, properties, base))


def to_properties(config: BrokerConfig) -> dict[str, str]:
    """Return every setting as key → text, in the order of the table."""
    return write_settings(SETTINGS, config)


def check(config: BrokerConfig) -> BrokerConfig:
    """Return ``config``; ConfigError when a value is invalid or not supported by this broker."""
    check_bounds(SETTINGS, config)
    if config.broker_role in FOREIGN_ROLES:
        raise ConfigError(
            f"brokerRole={config.broker_role}: this broker cannot be a slave",
            "set brokerRole=ASYNC_MASTER, or run the slave with Java RocketMQ",
        )
    if config.broker_role not in ("ASYNC_MASTER", "SYNC_MASTER"):
        raise ConfigError(f"brokerRole={config.broker_role}: unknown role", "use ASYNC_MASTER")
    if config.broker_id != 0:
        raise ConfigError(f"brokerId={config.broker_id}: a master has brokerId 0", "set brokerId=0")
    if not config.broker_name or not config.broker_cluster_name:
        raise ConfigError("brokerName and brokerClusterName must not be empty")
    for address in name_servers(config):
        try:
            parse_address(address)
        except LocalProtocolError as error:
            raise ConfigError(f"namesrvAddr: {error.message}", error.hint) from None
    access_rules(config)
    return config


def access_rules(config: BrokerConfig) -> AccessRules:
    """Return the access rules; ConfigError if ``adminHosts`` is not a list of addresses."""
    return AccessRules(admin_hosts=config.admin_hosts, allow_remote_admin=config.allow_remote_admin)


def register_period_ms(config: BrokerConfig) -> int:
    """Return the time between registrations, clamped as in Java."""
    low, high = REGISTER_PERIOD_BOUNDS_MS
    return max(low, min(high, config.register_name_server_period))


def name_servers(config: BrokerConfig) -> list[str]:
    """Return the configured name server addresses, in order, without blanks and duplicates."""
    parts = (part.strip() for part in config.namesrv_addr.replace(",", ";").split(";"))
    return list(dict.fromkeys(part for part in parts if part))
