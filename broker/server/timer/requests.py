"""Requests about timer messages: recall (370), timer checkpoint (60), timer metrics (61).

A recall is itself a timer message in the slot of the message that it recalls.

**Source:** RocketMQ RecallMessageProcessor, AdminBrokerProcessor#getTimerCheckPoint,
#getTimerMetrics.
"""

from typing import TYPE_CHECKING, Final

from broker.common import topic as names
from broker.common.java import INT64_MAX, parse_number
from broker.errors import RemoteProtocolError
from broker.message import message as props
from broker.message.properties import encode_properties
from broker.message.recall_handle import RecallHandle, decode_recall_handle
from broker.remoting.protocol.body.timer import TimerCheckpoint, TimerMetric, TimerMetrics
from broker.remoting.protocol.body.version import DataVersion
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.send import RecallMessageRequestHeader
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.processor.responses import no_topic, with_body
from broker.store.results import MessageExtBrokerInner, PutMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection

RECALL_TAG: Final = "_RECALL_TAG_"
_RECALL_BODY: Final = b"0"


async def recall(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """RECALL_MESSAGE: store a recall in the slot of the message that the handle names."""
    answer = await _recall(context, connection, request)
    answer.ext_fields = {"MSG_REGION": context.config.region_id, **answer.ext_fields}
    return answer


async def _recall(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    header = decode_header_fields(RecallMessageRequestHeader, request.ext_fields)
    refusal = _refuse(context, request, header)
    if refusal is not None:
        return refusal
    try:
        handle = decode_recall_handle(header.recall_handle)
    except RemoteProtocolError as error:
        return response(request, ResponseCode.ILLEGAL_OPERATION, error.message)
    reason = _mismatch(context, header, handle)
    if reason:
        return response(request, ResponseCode.ILLEGAL_OPERATION, f"not recalled: {reason}")
    inner, properties = _recall_message(context, connection, header, handle)
    refused = context.timers.timers.intercept(inner, properties) if context.timers else None
    if context.timers is None or refused is not None or inner.topic != names.TIMER_TOPIC:
        return _not_recalled(request, refused.remark if refused else "timerWheelEnable is false")
    lacking = context.durability.refusal()
    if lacking is not None:
        return _not_recalled(request, lacking.name)
    inner.properties = encode_properties(properties)
    result = context.store.put_message(inner)
    if result.status is not PutMessageStatus.PUT_OK:
        return _not_recalled(request, result.remark or result.status.name)
    stats = context.stats
    stats.counter(counted.TOPIC_PUT_NUMS, inner.topic).add(1)
    stats.counter(counted.TOPIC_PUT_SIZE, inner.topic).add(result.store_size)
    stats.put.add(1)
    # A timeout leaves the recall stored: the answer is the same, as in Java.
    await context.durability.stored(result.physical_end)
    return response(request, ext={"msgId": handle.uniq_key})


def _refuse(
    context: BrokerContext, request: RemotingCommand, header: RecallMessageRequestHeader
) -> RemotingCommand | None:
    """Return the refusal that the broker's state requires, in Java's order; None if recallable."""
    config = context.config
    if not config.recall_message_enable:
        return response(
            request, ResponseCode.NO_PERMISSION, "not recalled: recallMessageEnable is false"
        )
    if context.now_ms() < config.start_accept_send_request_time_stamp:
        remark = f"broker unable to service, until {config.start_accept_send_request_time_stamp}"
        return response(request, ResponseCode.SERVICE_NOT_AVAILABLE, remark)
    writable = names.is_writable(config.broker_permission)
    if not writable and not config.allow_recall_when_broker_not_writeable:
        return response(
            request, ResponseCode.SERVICE_NOT_AVAILABLE, "not recalled: broker not writable"
        )
    if header.topic not in context.topics:
        return no_topic(request, header.topic)
    return None


def _mismatch(
    context: BrokerContext, header: RecallMessageRequestHeader, handle: RecallHandle
) -> str:
    """Return why a handle does not name a pending message of this topic and broker, or ""."""
    if header.topic != handle.topic:
        return "the handle belongs to another topic"
    if context.config.broker_name != handle.broker_name:
        return "the handle belongs to another broker"
    timestamp = parse_number(handle.timestamp, 0, INT64_MAX)
    left_ms = -1 if timestamp is None else timestamp - context.now_ms()
    if not 0 < left_ms < context.settings.store.timer_max_delay_sec * 1_000:
        return "the message is due already, or its time is not valid"
    return ""


def _recall_message(
    context: BrokerContext,
    connection: "Connection",
    header: RecallMessageRequestHeader,
    handle: RecallHandle,
) -> tuple[MessageExtBrokerInner, dict[str, str]]:
    now_ms = context.now_ms()
    properties = {
        props.PROPERTY_TAGS: RECALL_TAG,
        props.PROPERTY_TIMER_DEL_UNIQKEY: f"{handle.topic}+{handle.uniq_key}",
        props.PROPERTY_UNIQ_KEY: handle.uniq_key,
        props.PROPERTY_TIMER_DELIVER_MS: handle.timestamp,
        props.PROPERTY_BORN_TIMESTAMP: str(now_ms),
    }
    if header.producer_group:
        properties[props.PROPERTY_PRODUCER_GROUP] = header.producer_group
    inner = MessageExtBrokerInner(
        topic=handle.topic,
        queue_id=0,
        body=_RECALL_BODY,
        born_timestamp=now_ms,
        born_host=connection.remote_host,
        store_host=context.store_host,
    )
    return inner, properties


def _not_recalled(request: RemotingCommand, reason: str) -> RemotingCommand:
    return response(request, ResponseCode.SYSTEM_ERROR, f"not recalled: {reason}")


def checkpoint(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_TIMER_CHECK_POINT: how far the wheel has come, for slaves."""
    if context.timers is None:
        return response(request, ResponseCode.SYSTEM_ERROR, "the timer wheel is not enabled")
    state = context.timers.timers.checkpoint()
    body = TimerCheckpoint(
        last_read_time_ms=state.last_read_time,
        last_timer_log_flush_pos=state.last_timer_log_flush_position,
        last_timer_queue_offset=state.last_timer_queue_offset,
        master_timer_queue_offset=state.master_timer_queue_offset,
        state_version=state.state_version,
        timestamp=state.timestamp,
        counter=state.counter,
    )
    return response(request, body=body.to_bytes())


async def metrics(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_TIMER_METRICS: pending messages per topic."""
    if context.timers is None:
        return response(request, ResponseCode.SYSTEM_ERROR, "the timer wheel is not enabled")
    table = context.timers.timers.metrics
    body = TimerMetrics(
        timing_count={
            topic: TimerMetric(count=entry.count, time_stamp=entry.time_stamp)
            for topic, entry in table.topics.items()
        },
        data_version=DataVersion(counter=table.counter, timestamp=table.timestamp),
    )
    return await with_body(request, body, len(table.topics))


HANDLERS = {
    RequestCode.RECALL_MESSAGE: recall,
    RequestCode.GET_TIMER_CHECK_POINT: checkpoint,
    RequestCode.GET_TIMER_METRICS: metrics,
}
