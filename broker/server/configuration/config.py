"""Settings of the broker role: every broker.conf key it reads, with default and meaning.

``BrokerConfig`` holds the values. ``SETTINGS`` defines for each field its key in broker.conf, its
unit and meaning, and whether UPDATE_BROKER_CONFIG may change it while the broker runs. Settings of
the store are defined in ``broker.store.config``. Unknown keys are kept and listed once in a
warning, because real broker.conf files contain hundreds of them.

**Source:** RocketMQ BrokerConfig, NettyServerConfig (names and defaults).
"""

from collections.abc import Mapping
from typing import Final

from broker.common.address import parse_address
from broker.common.config.settings import (
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
from broker.remoting.security.access import AccessRules
from broker.remoting.security.tls_settings import TLS_SETTINGS, TlsConfig, check_tls
from broker.server.flow_control.settings import FLOW_CONTROL_SETTINGS
from broker.server.metrics.settings import METRICS_SETTINGS, check_metrics
from broker.server.pop.settings import POP_SETTINGS


class BrokerConfig(TlsConfig, frozen=True, kw_only=True):
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
    metrics_exporter_type: str = "DISABLE"
    metrics_prom_exporter_host: str = ""
    metrics_prom_exporter_port: int = 5557
    metrics_label: str = ""
    trace_on: bool = True
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1000
    lite_pull_message_enable: bool = True
    enable_property_filter: bool = False
    filter_support_retry: bool = False
    enable_calc_filter_bit_map: bool = False
    max_error_rate_of_bloom_filter: int = 20
    expect_consumer_num_use_filter: int = 32
    filter_data_clean_time_span: int = DAY_MS
    notify_consumer_ids_changed_enable: bool = True
    use_server_side_reset_offset: bool = True
    store_reply_message_enable: bool = True
    reject_transaction_message: bool = False
    transaction_time_out: int = 6_000
    transaction_check_max: int = 15
    transaction_check_interval: int = 30_000
    transaction_op_msg_max_size: int = 4_096
    transaction_op_batch_interval: int = 3_000
    transaction_metric_flush_interval: int = 3_000
    start_accept_send_request_time_stamp: int = 0
    vectorized_ingest_enable: bool = True
    recall_message_enable: bool = False
    allow_recall_when_broker_not_writeable: bool = True
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
    broker_fast_failure_enable: bool = True
    wait_time_mills_in_send_queue: int = 200
    wait_time_mills_in_pull_queue: int = 5_000
    wait_time_mills_in_lite_pull_queue: int = 5_000
    wait_time_mills_in_heartbeat_queue: int = 31_000
    wait_time_mills_in_transaction_queue: int = 3_000
    wait_time_mills_in_ack_queue: int = 3_000
    wait_time_mills_in_admin_broker_queue: int = 5_000
    lite_pull_thread_pool_queue_capacity: int = 100_000
    reply_thread_pool_queue_capacity: int = 10_000
    ack_thread_pool_queue_capacity: int = 100_000
    end_transaction_pool_queue_capacity: int = 100_000
    query_thread_pool_queue_capacity: int = 20_000
    heartbeat_thread_pool_queue_capacity: int = 50_000
    admin_broker_thread_pool_queue_capacity: int = 10_000
    slave_read_enable: bool = False
    disable_consume_if_consumer_read_slowly: bool = False
    consumer_fallbehind_threshold: int = 16 * 1024 * 1024 * 1024
    cold_data_flow_control_enable: bool = False
    cg_cold_read_threshold: int = 3 * 1024 * 1024
    global_cold_read_threshold: int = 100 * 1024 * 1024
    config_black_list: str = "configBlackList;brokerConfigPath"
    default_query_max_num: int = 32
    default_message_request_mode: str = "PULL"
    default_pop_share_queue_num: int = -1
    server_load_balancer_enable: bool = True
    enable_pop_buffer_merge: bool = False
    enable_pop_batch_ack: bool = False
    pop_ck_stay_buffer_time: int = 10_000
    pop_ck_stay_buffer_time_out: int = 3_000
    pop_ck_max_buffer_size: int = 200_000
    pop_ck_offset_max_queue_size: int = 20_000
    pop_polling_size: int = 1024
    max_pop_polling_size: int = 100_000
    pop_from_retry_probability: int = 20
    enable_retry_topic_v2: bool = False
    retrieve_message_from_pop_retry_topic_v1: bool = True
    pop_response_return_actual_retry_topic: bool = False
    enable_pop_message_threshold: bool = False
    pop_inflight_message_threshold: int = 10_000
    init_pop_offset_by_check_msg_in_mem: bool = True
    revive_queue_num: int = 8
    skip_when_ck_re_put_reach_max_times: bool = False
    max_held_pulls: int = 100_000
    max_connections: int = 20_000
    admin_hosts: str = ""
    allow_remote_admin: bool = False

    @property
    def is_slave(self) -> bool:
        """True with brokerRole=SLAVE."""
        return self.broker_role == "SLAVE"


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
    "broker_role": Setting("brokerRole", "", "ASYNC_MASTER, SYNC_MASTER or SLAVE"),
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
        "longPollingEnable", "", "suspend a pull for the time that the client requests", live=True
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
    "enable_calc_filter_bit_map": Setting(
        "enableCalcFilterBitMap",
        "",
        "write the Bloom bits of SQL92 filters into extension units (enableConsumeQueueExt)",
        live=True,
    ),
    "max_error_rate_of_bloom_filter": Setting(
        "maxErrorRateOfBloomFilter", "%", "wrong matches of the Bloom bits", bounds=(1, 99)
    ),
    "expect_consumer_num_use_filter": Setting(
        "expectConsumerNumUseFilter",
        "groups",
        "groups with an SQL92 filter per topic that the Bloom bits are made for",
        bounds=(1, 10_000),
    ),
    "filter_data_clean_time_span": Setting(
        "filterDataCleanTimeSpan",
        "ms",
        "keep the SQL92 filter of a group that is off-line",
        bounds=(0, INT_MAX),
    ),
    "notify_consumer_ids_changed_enable": Setting(
        "notifyConsumerIdsChangedEnable", "", "notify consumers when their group changes", live=True
    ),
    "use_server_side_reset_offset": Setting(
        "useServerSideResetOffset",
        "",
        "reset offsets on the broker, group on-line or not",
        live=True,
    ),
    "store_reply_message_enable": Setting(
        "storeReplyMessageEnable", "", "store replies in the reply topic too", live=True
    ),
    "reject_transaction_message": Setting(
        "rejectTransactionMessage", "", "refuse half messages", live=True
    ),
    "transaction_time_out": Setting(
        "transactionTimeOut",
        "ms",
        "age of a half message before its first check",
        live=True,
        bounds=(0, DAY_MS),
    ),
    "transaction_check_max": Setting(
        "transactionCheckMax",
        "checks",
        "checks before a half message is moved to TRANS_CHECK_MAX_TIME_TOPIC",
        live=True,
        bounds=(0, INT_MAX),
    ),
    "transaction_check_interval": Setting(
        "transactionCheckInterval",
        "ms",
        "between two checks of undecided half messages",
        live=True,
        bounds=(100, DAY_MS),
    ),
    "transaction_op_msg_max_size": Setting(
        "transactionOpMsgMaxSize",
        "bytes",
        "size of a full op message; 0: one per half message, as RocketMQ 4.9 reads it",
        live=True,
        bounds=(0, 1_000_000),
    ),
    "transaction_op_batch_interval": Setting(
        "transactionOpBatchInterval",
        "ms",
        "wait before an op message that is not full is written",
        live=True,
        bounds=(0, HOUR_MS),
    ),
    "transaction_metric_flush_interval": Setting(
        "transactionMetricFlushInterval",
        "ms",
        "between two writes of transactionMetrics, the half messages of each topic",
        live=True,
        bounds=(100, DAY_MS),
    ),
    "start_accept_send_request_time_stamp": Setting(
        "startAcceptSendRequestTimeStamp",
        "epoch ms",
        "refuse sends before this time",
        live=True,
        bounds=(0, LONG_MAX),
    ),
    "vectorized_ingest_enable": Setting(
        "vectorizedIngestEnable",
        "",
        "serve ordinary sends of pipelining producers with compiled loops, if the extra fast is"
        " installed; they are loaded after 10,000 such sends within ten seconds",
    ),
    "recall_message_enable": Setting(
        "recallMessageEnable", "", "let producers recall timer messages that are not due", live=True
    ),
    "allow_recall_when_broker_not_writeable": Setting(
        "allowRecallWhenBrokerNotWriteable",
        "",
        "recall messages even without write permission (brokerPermission)",
        live=True,
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
        "sends that wait before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
    "pull_thread_pool_queue_capacity": Setting(
        "pullThreadPoolQueueCapacity",
        "requests",
        "pulls that wait before SYSTEM_BUSY",
        bounds=(1, 10_000_000),
    ),
    **FLOW_CONTROL_SETTINGS,
    "slave_read_enable": Setting(
        "slaveReadEnable",
        "",
        "master: suggest a slave to consumers that read old messages; slave: serve pulls",
        live=True,
    ),
    "disable_consume_if_consumer_read_slowly": Setting(
        "disableConsumeIfConsumerReadSlowly",
        "",
        "disable groups that are too far from the end of the log",
        live=True,
    ),
    "consumer_fallbehind_threshold": Setting(
        "consumerFallbehindThreshold",
        "bytes",
        "distance at which such a group is disabled",
        live=True,
        bounds=(0, LONG_MAX),
    ),
    "cold_data_flow_control_enable": Setting(
        "coldDataFlowControlEnable", "", "limit how much old data groups read", live=True
    ),
    "cg_cold_read_threshold": Setting(
        "cgColdReadThreshold",
        "bytes",
        "old data that one group may read in 5 s",
        live=True,
        bounds=(0, LONG_MAX),
    ),
    "global_cold_read_threshold": Setting(
        "globalColdReadThreshold",
        "bytes",
        "old data that all groups together may read in 5 s",
        live=True,
        bounds=(0, LONG_MAX),
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
    **POP_SETTINGS,
    **METRICS_SETTINGS,
    **TLS_SETTINGS,
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
ROLES: Final = ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")


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
    if config.broker_role not in ROLES:
        raise ConfigError(
            f"brokerRole={config.broker_role}: unknown role", f"use one of {', '.join(ROLES)}"
        )
    if config.is_slave and not config.broker_id:
        raise ConfigError(
            "brokerRole=SLAVE: brokerId is 0",
            "set brokerId=1 or higher, or brokerRole=ASYNC_MASTER",
        )
    if config.broker_id and not config.is_slave:
        raise ConfigError(
            f"brokerId={config.broker_id}: a master has brokerId 0",
            "set brokerId=0, or brokerRole=SLAVE",
        )
    if not config.broker_name or not config.broker_cluster_name:
        raise ConfigError("brokerName and brokerClusterName must not be empty")
    for address in name_servers(config):
        try:
            parse_address(address)
        except LocalProtocolError as error:
            raise ConfigError(f"namesrvAddr: {error.message}", error.hint) from None
    if config.default_message_request_mode not in ("PULL", "POP"):
        mode = config.default_message_request_mode
        raise ConfigError(f"defaultMessageRequestMode={mode}: unknown mode", "use PULL or POP")
    access_rules(config)
    check_metrics(config.metrics_exporter_type, config.metrics_label)
    check_tls(config)
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
