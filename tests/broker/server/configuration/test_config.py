"""The broker's settings: table, types, checks."""

import pytest

from broker.errors import ConfigError
from broker.remoting.security.tls_settings import TLS_SETTINGS
from broker.server.configuration import config as role
from broker.server.configuration.config import SETTINGS, BrokerConfig

# One value per setting that is not its default: none may be untested.
EXAMPLES = {
    "metricsExporterType": "PROM",
    "metricsPromExporterHost": "127.0.0.9",
    "metricsPromExporterPort": "5558",
    "metricsLabel": "zone:a",
    "defaultMessageRequestMode": "POP",
    "defaultPopShareQueueNum": "0",
    "serverLoadBalancerEnable": "false",
    "enablePopBufferMerge": "true",
    "enablePopBatchAck": "true",
    "popCkStayBufferTime": "10001",
    "popCkStayBufferTimeOut": "3001",
    "popCkMaxBufferSize": "200001",
    "popCkOffsetMaxQueueSize": "20001",
    "popPollingSize": "1025",
    "maxPopPollingSize": "100001",
    "popFromRetryProbability": "21",
    "enableRetryTopicV2": "true",
    "popResponseReturnActualRetryTopic": "true",
    "popInflightMessageThreshold": "10001",
    "initPopOffsetByCheckMsgInMem": "false",
    "reviveQueueNum": "9",
    "skipWhenCKRePutReachMaxTimes": "true",
    "brokerName": "b-1",
    "brokerClusterName": "C",
    "brokerIP1": "10.0.0.1",
    "bindAddress": "0.0.0.0",
    "listenPort": "20911",
    "namesrvAddr": "a:1;b:2",
    "brokerRole": "SYNC_MASTER",
    "brokerPermission": "4",
    "defaultTopicQueueNums": "16",
    "autoCreateTopicEnable": "false",
    "clusterTopicEnable": "false",
    "brokerTopicEnable": "false",
    "autoCreateSubscriptionGroup": "false",
    "traceTopicEnable": "true",
    "msgTraceTopicName": "Trace",
    "regionId": "eu",
    "traceOn": "false",
    "longPollingEnable": "false",
    "shortPollingTimeMills": "500",
    "litePullMessageEnable": "false",
    "enablePropertyFilter": "true",
    "filterSupportRetry": "true",
    "notifyConsumerIdsChangedEnable": "false",
    "useServerSideResetOffset": "false",
    "rejectTransactionMessage": "true",
    "transactionTimeOut": "1000",
    "transactionCheckMax": "3",
    "transactionCheckInterval": "3000",
    "transactionOpMsgMaxSize": "0",
    "transactionOpBatchInterval": "100",
    "transactionMetricFlushInterval": "1000",
    "storeReplyMessageEnable": "false",
    "startAcceptSendRequestTimeStamp": "5",
    "vectorizedIngestEnable": "false",
    "recallMessageEnable": "true",
    "allowRecallWhenBrokerNotWriteable": "false",
    "validateSystemTopicWhenUpdateTopic": "false",
    "enableMixedMessageType": "true",
    "registerNameServerPeriod": "20000",
    "registerBrokerTimeoutMills": "6000",
    "forceRegister": "false",
    "flushConsumerOffsetInterval": "1000",
    "channelExpiredTimeout": "60000",
    "serverChannelMaxIdleTimeSeconds": "60",
    "sendThreadPoolQueueCapacity": "5",
    "pullThreadPoolQueueCapacity": "5",
    "brokerFastFailureEnable": "false",
    "waitTimeMillsInSendQueue": "700",
    "waitTimeMillsInPullQueue": "700",
    "waitTimeMillsInLitePullQueue": "700",
    "waitTimeMillsInHeartbeatQueue": "700",
    "waitTimeMillsInTransactionQueue": "700",
    "waitTimeMillsInAckQueue": "700",
    "waitTimeMillsInAdminBrokerQueue": "700",
    "litePullThreadPoolQueueCapacity": "7",
    "replyThreadPoolQueueCapacity": "7",
    "ackThreadPoolQueueCapacity": "7",
    "endTransactionPoolQueueCapacity": "7",
    "queryThreadPoolQueueCapacity": "7",
    "heartbeatThreadPoolQueueCapacity": "7",
    "adminBrokerThreadPoolQueueCapacity": "7",
    "enableCalcFilterBitMap": "true",
    "maxErrorRateOfBloomFilter": "5",
    "expectConsumerNumUseFilter": "7",
    "filterDataCleanTimeSpan": "9",
    "slaveReadEnable": "true",
    "disableConsumeIfConsumerReadSlowly": "true",
    "consumerFallbehindThreshold": "7",
    "coldDataFlowControlEnable": "true",
    "cgColdReadThreshold": "5",
    "globalColdReadThreshold": "6",
    "enablePopMessageThreshold": "true",
    "retrieveMessageFromPopRetryTopicV1": "false",
    "configBlackList": "a;b",
    "defaultQueryMaxNum": "64",
    "maxHeldPulls": "10",
    "maxConnections": "10",
    "adminHosts": "192.0.2.7",
    "allowRemoteAdmin": "true",
}
ONE_VALUE = {"brokerId"}  # 0 is the only value a master may have


def test_every_field_has_a_row_and_every_row_a_field() -> None:
    assert set(SETTINGS) == set(BrokerConfig.__struct_fields__)
    keys = [setting.key for setting in SETTINGS.values()]
    assert len(keys) == len(set(keys))
    assert all(setting.meaning for setting in SETTINGS.values())


def test_every_setting_has_an_example() -> None:
    own = {setting.key for field, setting in SETTINGS.items() if field not in TLS_SETTINGS}
    assert own == set(EXAMPLES) | ONE_VALUE  # those of TLS: test_tls_settings


@pytest.mark.parametrize("key", sorted(EXAMPLES))
def test_setting_is_read_and_written(key) -> None:
    config = role.from_properties({key: EXAMPLES[key]})
    assert role.to_properties(config)[key] == EXAMPLES[key]
    assert role.to_properties(BrokerConfig())[key] != EXAMPLES[key]
    others = {k: v for k, v in role.to_properties(config).items() if k != key}
    assert others.items() <= role.to_properties(BrokerConfig()).items()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("listenPort", "port"),
        ("listenPort", "70000"),
        ("listenPort", "-1"),
        ("autoCreateTopicEnable", "maybe"),
        ("brokerRole", "SLAVE"),
        ("brokerRole", "KING"),
        ("brokerId", "1"),
        ("brokerPermission", "9"),
        ("brokerName", ""),
    ],
)
def test_value_that_cannot_be_used_is_named(key, value) -> None:
    with pytest.raises(ConfigError, match=key):
        role.from_properties({key: value})


@pytest.mark.parametrize("field", sorted(role.SETTINGS))
def test_every_number_has_bounds_that_are_checked(field: str) -> None:
    setting, default = role.SETTINGS[field], getattr(role.DEFAULTS, field)
    if isinstance(default, bool) or not isinstance(default, int):
        assert setting.bounds is None
        return
    low, high = setting.bounds
    assert low <= default <= high
    for value in (low - 1, high + 1, -(1 << 70), 1 << 70):
        with pytest.raises(ConfigError) as caught:
            role.from_properties({setting.key: str(value)})
        assert f"{setting.key}={value}: must be between {low} and {high}" in caught.value.message


def test_blanks_around_values_do_not_count() -> None:
    config = role.from_properties({"listenPort": " 20911 ", "traceOn": "FALSE"})
    assert (config.listen_port, config.trace_on) == (20911, False)


def test_keys_of_others_are_left_alone() -> None:
    assert role.from_properties({"flushDiskType": "SYNC_FLUSH", "x": "y"}) == BrokerConfig()


@pytest.mark.parametrize(
    ("text", "addresses"),
    [("", []), ("a:1", ["a:1"]), (" a:1 ; b:2,a:1;", ["a:1", "b:2"])],
)
def test_name_servers(text, addresses) -> None:
    assert role.name_servers(BrokerConfig(namesrv_addr=text)) == addresses


@pytest.mark.parametrize(("period", "used"), [(1, 10_000), (30_000, 30_000), (10**9, 60_000)])
def test_registration_period_is_clamped(period, used) -> None:
    config = BrokerConfig(register_name_server_period=period)
    assert role.register_period_ms(config) == used
