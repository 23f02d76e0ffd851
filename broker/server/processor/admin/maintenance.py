"""Store maintenance: clean queues (306, 316), delete log files (329), delay offsets (45).

**Source:** RocketMQ AdminBrokerProcessor#cleanExpiredConsumeQueue, #cleanUnusedTopic,
#deleteExpiredCommitLog, #getAllDelayOffset.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker.common import topic as names
from broker.remoting.protocol.body.consumer.offset import DelayOffsetSerializeWrapper
from broker.remoting.protocol.body.version import DataVersion
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext
from broker.server.processor.admin.topic import delete_queues

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def clean_expired_queues(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """CLEAN_EXPIRED_CONSUMEQUEUE: run the periodic cleaning of the store now.

    It removes ConsumeQueue files below the log's minimum offset, and expired CommitLog files if
    their deletion is due (``deleteWhen`` or disk usage).
    """
    context.store.clean_expired(context.now_ms())
    return response(request)


def clean_unused_topics(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Awaitable[RemotingCommand]:
    """CLEAN_UNUSED_TOPIC: delete offsets and queues of topics that have no configuration."""
    unused = [
        topic
        for topic in context.store.queues()
        if topic not in context.topics
        and not context.topics.is_system(topic)
        and not names.is_lmq_topic(topic)
    ]
    return delete_queues(context, request, unused)


def delete_expired_log(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """DELETE_EXPIRED_COMMITLOG: delete expired files now, at any hour."""
    context.store.clean_expired(context.now_ms(), manual=True)
    return response(request)


def delay_offsets(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_ALL_DELAY_OFFSET: the delivery offset of each delay level."""
    delays = context.delays
    if delays is None:
        return response(request, body=DelayOffsetSerializeWrapper().to_bytes())
    body = DelayOffsetSerializeWrapper(
        offset_table=delays.offsets,
        data_version=DataVersion.from_wire(delays.data_version.to_wire()),
    )
    return response(request, body=body.to_bytes())


HANDLERS = {
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: clean_expired_queues,
    RequestCode.CLEAN_UNUSED_TOPIC: clean_unused_topics,
    RequestCode.DELETE_EXPIRED_COMMITLOG: delete_expired_log,
    RequestCode.GET_ALL_DELAY_OFFSET: delay_offsets,
}
