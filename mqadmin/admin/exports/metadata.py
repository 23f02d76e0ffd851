"""Topics and groups of brokers, without those of RocketMQ itself.

**Source:** RocketMQ ``ExportMetadataCommand``, ``DefaultMQAdminExtImpl#getUserTopicConfig`` and
``#getUserSubscriptionGroup``.
"""

from collections.abc import Iterable, Sequence

import msgspec

from broker.common.group import SubscriptionGroupConfig, group_config_to_wire, is_system_group
from broker.common.topic import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    TopicConfig,
    is_system_topic,
    topic_config_to_wire,
)
from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.failure import describe
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

Wire = dict[str, object]


class BrokerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of one broker, with their data versions as JSON objects."""

    target: Target
    topics: dict[str, TopicConfig]
    groups: dict[str, SubscriptionGroupConfig]
    topic_version: Wire
    group_version: Wire


def broker_metadata(
    admin: AdminSession, targets: Sequence[Target], *, special: bool = False
) -> Listing[BrokerMetadata]:
    """Return the tables of each broker; a broker that fails any request is an error.

    ``special`` includes the retry and dead-letter topics.
    """
    codes = (
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    )
    answers = admin.call_all(
        [(one.address, build_request(code, {})) for one in targets for code in codes]
    )
    items: list[BrokerMetadata] = []
    errors: list[TargetError] = []
    for number, target in enumerate(targets):
        replies: list[Reply] = []
        for answer in answers[number * len(codes) : (number + 1) * len(codes)]:
            if isinstance(answer, RocketMQError):
                errors.append(describe(answer, address=target.address, target=target.label))
                break
            replies.append(answer)
        else:
            items.append(_metadata(target, replies, special=special))
    return Listing(items=items, errors=errors)


def _metadata(target: Target, replies: Sequence[Reply], *, special: bool) -> BrokerMetadata:
    topics, own, groups = (reply.value for reply in replies)
    hidden = set(own.topic_list)
    prefixes = () if special else (RETRY_PREFIX, DLQ_PREFIX)
    return BrokerMetadata(
        target=target,
        topics={
            name: config
            for name, config in sorted(topics.topic_config_table.items())
            if not is_system_topic(name) and name not in hidden and not name.startswith(prefixes)
        },
        groups={
            name: config
            for name, config in sorted(groups.subscription_group_table.items())
            if not is_system_group(name)
        },
        topic_version=topics.data_version.to_wire(),
        group_version=groups.data_version.to_wire(),
    )


def topic_table(tables: Iterable[BrokerMetadata]) -> Wire:
    """Return topic name → configuration; queue numbers of several brokers are added up."""
    merged: dict[str, TopicConfig] = {}
    for table in tables:
        for name, config in table.topics.items():
            known = merged.get(name)
            if known is not None:
                config = msgspec.structs.replace(
                    config,
                    read_queue_nums=config.read_queue_nums + known.read_queue_nums,
                    write_queue_nums=config.write_queue_nums + known.write_queue_nums,
                )
            merged[name] = config
    return {name: topic_config_to_wire(config) for name, config in sorted(merged.items())}


def group_table(tables: Iterable[BrokerMetadata]) -> Wire:
    """Return group name → configuration; retry queues of several brokers are added up."""
    merged: dict[str, SubscriptionGroupConfig] = {}
    for table in tables:
        for name, config in table.groups.items():
            known = merged.get(name)
            if known is not None:
                config = msgspec.structs.replace(
                    config, retry_queue_nums=config.retry_queue_nums + known.retry_queue_nums
                )
            merged[name] = config
    return {name: group_config_to_wire(config) for name, config in sorted(merged.items())}
