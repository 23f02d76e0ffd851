"""Consumer groups: configuration, preset and reserved names, name validity.

**Source:** RocketMQ SubscriptionGroupConfig, MixAll, Validators, MessageModel, ConsumeType.
"""

from collections.abc import Mapping

import msgspec

from broker.common.topic import config_from_wire, illegal_name_character

MODEL_CLUSTERING = "CLUSTERING"
MODEL_BROADCASTING = "BROADCASTING"
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"  # pull, lite pull
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"  # push
CONSUME_POP = "CONSUME_POP"  # 5.x
CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"

TOOLS_CONSUMER_GROUP = "TOOLS_CONSUMER"
FILTERSRV_CONSUMER_GROUP = "FILTERSRV_CONSUMER"
SELF_TEST_CONSUMER_GROUP = "SELF_TEST_C_GROUP"
ONS_HTTP_PROXY_GROUP = "CID_ONS-HTTP-PROXY"
ONSAPI_PULL_GROUP = "CID_ONSAPI_PULL"
ONSAPI_PERMISSION_GROUP = "CID_ONSAPI_PERMISSION"
ONSAPI_OWNER_GROUP = "CID_ONSAPI_OWNER"
SYS_TRANS_GROUP = "CID_RMQ_SYS_TRANS"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

PRESET_GROUPS = (
    TOOLS_CONSUMER_GROUP,
    FILTERSRV_CONSUMER_GROUP,
    SELF_TEST_CONSUMER_GROUP,
    ONS_HTTP_PROXY_GROUP,
    ONSAPI_PULL_GROUP,
    ONSAPI_PERMISSION_GROUP,
    ONSAPI_OWNER_GROUP,
    SYS_TRANS_GROUP,
)
"""Groups that exist on every broker from the first start on."""

DEFAULT_PRODUCER_GROUP = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP = "DEFAULT_CONSUMER"
CLIENT_INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
SELF_TEST_PRODUCER_GROUP = "SELF_TEST_P_GROUP"
MONITOR_CONSUMER_GROUP = "__MONITOR_CONSUMER"
SCHEDULE_CONSUMER_GROUP = "SCHEDULE_CONSUMER"

RETRY_POLICIES = ("EXPONENTIAL", "CUSTOMIZED")

GROUP_MAX_LENGTH = 120  # so that %RETRY%group has at most 127 characters
GROUP_MAX_LENGTH_OLD = 255  # the limit of clients up to 5.3.3


def is_system_group(group: str) -> bool:
    """Whether the group belongs to RocketMQ itself (preset, or prefix ``CID_RMQ_SYS_``)."""
    return group in PRESET_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def check_group_name(group: str, *, max_length: int = GROUP_MAX_LENGTH_OLD) -> str | None:
    """Return why ``group`` is not a valid group name, None if it is valid.

    Letters, digits and ``% | - _``, length 1..``max_length``.

    **Source:** RocketMQ Validators#checkGroup, TopicValidator#isTopicOrGroupIllegal.
    """
    if not group.strip():
        return "the specified group is blank"
    if len(group) > max_length:
        return f"the specified group is longer than group max length {max_length}."
    bad = illegal_name_character(group)
    if bad is not None:
        return (
            f"the specified group contains the illegal character {bad!r},"
            " allowing only ^[%|a-zA-Z0-9_-]+$"
        )
    return None


class SubscriptionGroupConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Configuration of a consumer group on one broker; the defaults are Java's.

    ``group_retry_policy`` and ``subscription_data_set`` keep their wire form. ``extra`` keeps
    unknown fields, so that they survive a round trip. Fields
    since 5.x: consume_message_orderly, group_retry_policy, group_sys_flag,
    consume_timeout_minute, subscription_data_set, attributes.

    **Source:** RocketMQ SubscriptionGroupConfig.
    """

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: dict[str, object] = msgspec.field(
        default_factory=lambda: {"type": "CUSTOMIZED"}
    )
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[dict[str, object]] | None = None
    attributes: dict[str, str] = {}
    extra: dict[str, object] = {}


_FIELDS_SINCE_5 = (
    "attributes",
    "consumeMessageOrderly",
    "consumeTimeoutMinute",
    "groupRetryPolicy",
    "groupSysFlag",
    "subscriptionDataSet",
)


def group_config_to_wire(
    config: SubscriptionGroupConfig, *, version_4: bool = False
) -> dict[str, object]:
    """Return the JSON object of a group configuration, fields in Java's (alphabetical) order.

    ``version_4`` omits the fields unknown to 4.9. An absent subscriptionDataSet is not written.
    """
    wire: dict[str, object] = {
        "attributes": dict(config.attributes),
        "brokerId": config.broker_id,
        "consumeBroadcastEnable": config.consume_broadcast_enable,
        "consumeEnable": config.consume_enable,
        "consumeFromMinEnable": config.consume_from_min_enable,
        "consumeMessageOrderly": config.consume_message_orderly,
        "consumeTimeoutMinute": config.consume_timeout_minute,
        "groupName": config.group_name,
        "groupRetryPolicy": config.group_retry_policy,
        "groupSysFlag": config.group_sys_flag,
        "notifyConsumerIdsChangedEnable": config.notify_consumer_ids_changed_enable,
        "retryMaxTimes": config.retry_max_times,
        "retryQueueNums": config.retry_queue_nums,
    }
    if config.subscription_data_set is not None:
        wire["subscriptionDataSet"] = config.subscription_data_set
    wire["whichBrokerWhenConsumeSlowly"] = config.which_broker_when_consume_slowly
    if version_4:
        for name in _FIELDS_SINCE_5:
            wire.pop(name, None)
    if config.extra:
        wire.update(config.extra)
        wire = dict(sorted(wire.items()))
    return wire


def _retry_policy(wire: Mapping[object, object]) -> dict[str, object]:
    """Return a retry policy with its fields in Java's order; an unknown type is left out.

    The broker only stores it: clients and the proxy read it.

    **Source:** RocketMQ GroupRetryPolicy (fastjson reads an unknown enum constant as null).
    """
    return {
        str(name): value
        for name, value in sorted(wire.items(), key=lambda item: str(item[0]))
        if name != "type" or value in RETRY_POLICIES
    }


def group_config_from_wire(wire: Mapping[str, object]) -> SubscriptionGroupConfig:
    """Read a group configuration; absent or null fields get Java's defaults.

    Numbers and booleans may be given as text, as fastjson allows. Raises RemoteProtocolError
    naming the invalid field.
    """
    policy = wire.get("groupRetryPolicy")
    if isinstance(policy, Mapping):
        wire = {**wire, "groupRetryPolicy": _retry_policy(policy)}
    return config_from_wire(wire, SubscriptionGroupConfig, "group", "groupName")
