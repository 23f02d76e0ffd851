"""Consumer groups: create, update, delete, list, configuration, forbidden topics.

**Source:** RocketMQ AdminBrokerProcessor (updateAndCreateSubscriptionGroup,
getAllSubscriptionGroup, deleteSubscriptionGroup, getSubscriptionGroup,
updateAndGetGroupForbidden).
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import msgspec

from broker.common.group import SubscriptionGroupConfig, check_group_name
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.body.consumer.group import (
    GroupForbidden,
    SubscriptionGroupBody,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from broker.remoting.protocol.body.version import DataVersion
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.consumer.group import (
    DeleteSubscriptionGroupRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.server.context import BrokerContext
from broker.server.processor.responses import (
    no_group,
    not_written,
    offsets_not_written,
    with_body,
)

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def update_group(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: replace all fields except attributes.

    Fields that the request leaves out get their defaults; attributes keep their values.
    """
    config = SubscriptionGroupBody.from_bytes(request.body_bytes()).config
    return _store(context, request, [config])


def update_groups(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: all or none."""
    body = SubscriptionGroupList.from_bytes(request.body_bytes())
    return _store(context, request, body.group_config_list)


def _store(
    context: BrokerContext, request: RemotingCommand, configs: list[SubscriptionGroupConfig]
) -> RemotingCommand:
    ready = []
    for config in configs:
        reason = check_group_name(config.group_name)
        if reason is not None:
            return response(request, ResponseCode.INVALID_PARAMETER, reason)
        current = context.groups.configs.get(config.group_name)
        try:
            attributes = _attributes(config, current)
        except ClientError as error:
            return response(request, ResponseCode.SYSTEM_ERROR, error.message)
        ready.append(msgspec.structs.replace(config, attributes=attributes))
    context.groups.put_all(ready)
    return response(request)


def _attributes(
    wanted: SubscriptionGroupConfig, current: SubscriptionGroupConfig | None
) -> dict[str, str]:
    """Return the current attributes; ClientError for any change, no attribute is defined yet."""
    for name in wanted.attributes:
        raise ClientError(f"unsupported key: {name.lstrip('+-')}")
    return dict(current.attributes) if current is not None else {}


def delete_group(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Awaitable[RemotingCommand]:
    """DELETE_SUBSCRIPTIONGROUP: configuration, and offsets if requested; SUCCESS when unknown.

    Offsets are removed after subscriptionGroup.json is written: a failed write keeps them. The
    answer follows when consumerOffset.json is written, too: a restart must not bring them back.
    """
    header = decode_header_fields(DeleteSubscriptionGroupRequestHeader, request.ext_fields)
    context.groups.delete(header.group_name)
    return _forget(context, request, header)


async def _forget(
    context: BrokerContext, request: RemotingCommand, header: DeleteSubscriptionGroupRequestHeader
) -> RemotingCommand:
    try:
        await context.groups.persist()
    except (RocketMQError, OSError) as error:
        return not_written(request, error)
    if header.cleans:
        context.offsets.remove_group(header.group_name)
        try:
            await context.offsets.persist()
        except (RocketMQError, OSError) as error:
            return offsets_not_written(request, error)
    context.stats.forget_group(header.group_name)
    if context.pop is not None:
        context.pop.in_flight.clean(lambda _, group: group != header.group_name)
    return response(request)


def all_groups(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Awaitable[RemotingCommand]:
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: the whole table."""
    table = context.groups
    body = SubscriptionGroupWrapper(
        subscription_group_table=dict(table.configs),
        forbidden_table={group: dict(topics) for group, topics in table.forbidden.items()},
        data_version=DataVersion.from_wire(table.data_version.to_wire()),
    )
    return with_body(request, body, len(table.configs))


def group_config(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_SUBSCRIPTIONGROUP_CONFIG: one configuration; the lookup may create the group."""
    header = decode_header_fields(GetSubscriptionGroupConfigRequestHeader, request.ext_fields)
    config = context.groups.find(header.group)
    if config is None:
        return no_group(request, header.group)
    return response(request, body=SubscriptionGroupBody(config=config).to_bytes())


def group_forbidden(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UPDATE_AND_GET_GROUP_FORBIDDEN: set, if requested, and return whether the group may read."""
    header = decode_header_fields(UpdateGroupForbiddenRequestHeader, request.ext_fields)
    if header.readable is not None:
        context.groups.forbid_read(header.group, header.topic, not header.readable)
    body = GroupForbidden(
        group=header.group,
        topic=header.topic,
        readable=context.groups.may_read(header.group, header.topic),
    )
    return response(request, body=body.to_bytes())


HANDLERS = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: update_group,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: update_groups,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: delete_group,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all_groups,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: group_config,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: group_forbidden,
}
