"""Responses shared by processors: common refusals, and responses that wait for a write.

**Source:** RocketMQ AbstractSendMessageProcessor, RemotingCommand#decodeCommandCustomHeader.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from broker.common.java import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, parse_number
from broker.common.topic import TopicConfig
from broker.errors import RocketMQError
from broker.remoting.protocol.body.base import Body
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import wire_names
from broker.remoting.protocol.header.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from broker.server.context import BrokerContext

ENCODED_AT_ONCE: Final = 500
"""Largest body, in entries, that is encoded on the event loop; larger ones use a thread."""

_SENT: Final = wire_names(SendMessageRequestHeader)
_LONG_NAMES: Final = {
    short: _SENT[name]
    for name, short in wire_names(SendMessageRequestHeaderV2).items()
    if name in _SENT
}
_INT32_FIELDS: Final = frozenset(("queueId", "sysFlag", "flag", "reconsumeTimes", "maxNum"))
_INT64_FIELDS: Final = frozenset(("bornTimestamp", "beginTimestamp", "endTimestamp", "offset"))

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

    Java fails there with a NullPointerException; this remark names the field, by its long name.
    """
    if isinstance(error, KeyError):
        name = error.args[0]
        remark = f"header field {_LONG_NAMES.get(name, name)} is missing"
    else:
        remark = _wrong_number(request.ext_fields) or f"header field has no valid value: {error}"
    return response(request, ResponseCode.SYSTEM_ERROR, remark)


def number_field(fields: Mapping[str, str], name: str) -> int:
    """Return a numeric field, read as Java reads it; KeyError or ValueError."""
    number = parse_number(fields[name], *_bounds(name))
    if number is None:
        raise ValueError(name)
    return number


def _bounds(name: str) -> tuple[int, int]:
    return (INT64_MIN, INT64_MAX) if name in _INT64_FIELDS else (INT32_MIN, INT32_MAX)


def _wrong_number(fields: Mapping[str, str]) -> str:
    """Return the remark about the first numeric field that is not a number of its size, or ""."""
    for wire, text in fields.items():
        name = _LONG_NAMES.get(wire, wire)
        if name not in _INT32_FIELDS and name not in _INT64_FIELDS:
            continue
        lowest, highest = _bounds(name)
        if parse_number(text, lowest, highest) is None:
            return (
                f"header field {name} is {text[:40]!r}, not an integer from {lowest} to {highest}"
            )
    return ""


def not_written(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """Return SYSTEM_ERROR for a change that could not be persisted and was rolled back."""
    reason = error.message if isinstance(error, RocketMQError) else str(error)
    return response(request, ResponseCode.SYSTEM_ERROR, f"not persisted, nothing changed: {reason}")


def offsets_not_written(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """Return SYSTEM_ERROR for a deletion whose offsets a restart may bring back."""
    reason = error.message if isinstance(error, RocketMQError) else str(error)
    remark = f"the configuration is deleted, consumer offsets are not: repeat the request: {reason}"
    return response(request, ResponseCode.SYSTEM_ERROR, remark)


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
