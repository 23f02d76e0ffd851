"""UPDATE_AND_CREATE_STATIC_TOPIC (513): a topic and its mapping on this broker.

**Source:** RocketMQ AdminBrokerProcessor#updateAndCreateStaticTopic.
"""

from typing import TYPE_CHECKING

from broker.common.topic import TopicConfig
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingDetail
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.topic import CreateTopicRequestHeader
from broker.server.context import BrokerContext
from broker.server.processor.admin.topic import reject_reason
from broker.server.processor.responses import not_written
from broker.server.slices import decode_body
from broker.server.tables.topic_config import parse_attribute_changes

if TYPE_CHECKING:
    from broker.remoting.server import Connection


async def update_static_topic(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """Store topic and mapping; the response waits until both are written and announced."""
    header = decode_header_fields(CreateTopicRequestHeader, request.ext_fields)
    detail = await decode_body(TopicQueueMappingDetail.from_bytes, request.body_bytes())
    wanted = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type,
        topic_sys_flag=header.topic_sys_flag or 0,
    )
    reason = reject_reason(context, wanted)
    if reason is None and detail.topic != header.topic:
        reason = f"the mapping is of topic {detail.topic}, not {header.topic}"
    if reason is not None:
        return response(request, ResponseCode.INVALID_PARAMETER, reason)
    try:
        parse_attribute_changes(header.attributes or "")
        context.mappings.update(detail, force=bool(header.force))
    except ClientError as error:
        return response(request, ResponseCode.SYSTEM_ERROR, error.message)
    if not context.topics.put(wanted):
        for listener in context.topics.on_change:
            listener([wanted.topic_name])  # the mapping may be new
    try:
        await context.mappings.persist()
        await context.topics.persist()
    except (RocketMQError, OSError) as error:
        return not_written(request, error)
    await context.announce([wanted.topic_name])
    return response(request)


HANDLERS = {RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: update_static_topic}
