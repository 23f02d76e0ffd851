"""Responses shared by processors: common refusals, and responses that wait for a write.

**Source:** RocketMQ AbstractSendMessageProcessor, RemotingCommand#decodeCommandCustomHeader.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from broker.common.topic import TopicConfig
from broker.errors import RocketMQError
from broker.remoting.protocol.body.base import Body
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext

ENCODED_AT_ONCE: Final = 500
"""Largest body, in entries, that is encoded on the event loop; larger ones use a thread."""

QUEUES_PER_SLICE: Final = 500
"""Queues that a report looks up per slice, 5 to 10 µs each."""


async def with_body(request: RemotingCommand, body: Body, entries: int) -> RemotingCommand:
    """Return SUCCESS with a body of ``entries`` entries; a large one is encoded in a thread.

    Pass copies of live tables: the originals may change while the body is encoded.
    """
    if entries <= ENCODED_AT_ONCE:
        return response(request, body=body.to_bytes())
    data = await asyncio.get_running_loop().run_in_executor(None, body.to_bytes)
    return response(request, body=data)


def no_topic(request: RemotingCommand, topic: str) -> RemotingCommand:
    """Return TOPIC_NOT_EXIST with the topic's name."""
    return response(
        request,
        ResponseCode.TOPIC_NOT_EXIST,
        f"topic[{topic}] not exist, apply first please!",
    )


def no_group(request: RemotingCommand, group: str) -> RemotingCommand:
    """Return SUBSCRIPTION_GROUP_NOT_EXIST with the group's name."""
    return response(
        request,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        f"subscription group [{group}] does not exist, apply first please!",
    )


def bad_queue(request: RemotingCommand, queue_id: int, topic: TopicConfig) -> RemotingCommand:
    """Return INVALID_PARAMETER for a queue that the topic does not have."""
    return response(
        request,
        ResponseCode.INVALID_PARAMETER,
        f"request queueId[{queue_id}] is illegal, {topic.topic_name} has "
        f"readQueueNums[{topic.read_queue_nums}] writeQueueNums[{topic.write_queue_nums}]",
    )


def illegal(request: RemotingCommand, remark: str) -> RemotingCommand:
    """Return MESSAGE_ILLEGAL: the store would not accept the message."""
    return response(request, ResponseCode.MESSAGE_ILLEGAL, remark)


def bad_field(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """Return SYSTEM_ERROR for a header field that is missing or is not a number.

    Java fails there with a NullPointerException; this remark names the missing field.
    """
    if isinstance(error, KeyError):
        remark = f"header field {error.args[0]} is missing"
    else:
        remark = f"header field has no valid value: {error}"
    return response(request, ResponseCode.SYSTEM_ERROR, remark)


def not_written(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """Return SYSTEM_ERROR for a change that could not be persisted and was rolled back."""
    reason = error.message if isinstance(error, RocketMQError) else str(error)
    return response(request, ResponseCode.SYSTEM_ERROR, f"not persisted, nothing changed: {reason}")


async def persisted_first(
    context: BrokerContext,
    request: RemotingCommand,
    answer: RemotingCommand | Coroutine[Any, Any, RemotingCommand],
) -> RemotingCommand:
    """Return ``answer`` after topics and groups are written, or an error if the write fails."""
    try:
        await context.topics.persist()
        await context.groups.persist()
    except (RocketMQError, OSError) as error:
        if not isinstance(answer, RemotingCommand):
            answer.close()
        return not_written(request, error)
    return answer if isinstance(answer, RemotingCommand) else await answer
