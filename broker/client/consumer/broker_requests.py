"""Requests of brokers about a consumer.

===  ======================================================================================
220  RESET_CONSUMER_CLIENT_OFFSET: stop the queues, set their offsets, take them over again
221  GET_CONSUMER_STATUS_FROM_CLIENT: the offsets in memory
307  GET_CONSUMER_RUNNING_INFO: queues, subscriptions, rates, on request all stacks
309  CONSUME_MESSAGE_DIRECTLY: call the listener with one message; offsets do not change
===  ======================================================================================

**Source:** RocketMQ ``ClientRemotingProcessor``, ``MQClientInstance#resetOffset``,
``DefaultMQPushConsumerImpl#consumerRunningInfo``,
``ConsumeMessageConcurrentlyService#consumeMessageDirectly``.
"""

import asyncio
import inspect
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from broker.client.config import ClientConfig, ConsumerConfig
from broker.client.consumer.messages import read_messages, restore_topic
from broker.client.consumer.process_queue import ProcessQueue
from broker.client.instance.client_instance import MQClientInstance
from broker.client.listener.concurrently import ConsumeConcurrentlyService
from broker.client.listener.listener_pool import is_coroutine_listener
from broker.client.listener.listeners import ConsumeConcurrentlyContext, ConsumeOrderlyContext
from broker.client.listener.orderly import ConsumeOrderlyService
from broker.client.listener.stats import ConsumerStats
from broker.client.offset.offset_store import OffsetStore
from broker.client.pop.pop_process_queue import PopProcessQueue
from broker.client.results import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from broker.common.clock import Clock
from broker.common.group import CONSUME_PASSIVELY
from broker.common.message_queue import MessageQueue
from broker.common.subscription import SubscriptionData
from broker.errors import RemoteProtocolError
from broker.message.message import MessageExt
from broker.remoting.protocol.body.consumer.offset import (
    GetConsumerStatusBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from broker.remoting.protocol.body.consumer.running import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    PopProcessQueueInfo,
    ProcessQueueInfo,
)
from broker.remoting.protocol.codes import VERSION, RequestCode, ResponseCode, version_name
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.client import (
    ConsumeMessageDirectlyRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from broker.remoting.protocol.header.consumer.offset import ResetOffsetRequestHeader
from broker.remoting.protocol.header.fields import decode_header_fields

log = logging.getLogger("broker.client")

Context = TypeVar("Context", ConsumeConcurrentlyContext, ConsumeOrderlyContext)

MIB = 1024 * 1024
MAX_JSTACK_CHARS = 1_000_000


class RunningConsumer(Protocol):
    """The part of a started push consumer that its requests use."""

    group: str
    client: ClientConfig
    config: ConsumerConfig
    clock: Clock
    stats: ConsumerStats
    started_at_ms: int

    @property
    def subscriptions(self) -> dict[str, SubscriptionData]:
        """The subscriptions by topic."""
        ...

    @property
    def service(self) -> ConsumeConcurrentlyService | ConsumeOrderlyService:
        """The consume service."""
        ...

    @property
    def offsets(self) -> OffsetStore:
        """The offset store."""
        ...

    @property
    def process_queues(self) -> dict[MessageQueue, ProcessQueue]:
        """The owned queues."""
        ...

    @property
    def pop_queues(self) -> dict[MessageQueue, PopProcessQueue]:
        """The popped queues."""
        ...

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue owned queues at other offsets."""
        ...


class ConsumerRequests:
    """Answers the requests about one started consumer."""

    def __init__(self, consumer: RunningConsumer, instance: MQClientInstance) -> None:
        self._consumer = consumer
        self._instance = instance

    def register(self) -> None:
        """Enter the handlers for the consumer's group."""
        handlers = {
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self.reset_offset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self.consumer_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }
        for code, handler in handlers.items():
            self._instance.add_group_handler(code, self._consumer.group, handler)

    async def reset_offset(self, address: str, command: RemotingCommand) -> None:
        """Set offsets of owned queues; later results of their messages no longer count."""
        header = decode_header_fields(ResetOffsetRequestHeader, command.ext_fields)
        offsets = _read_offsets(command.body_bytes())
        log.info("%s: %s resets %d offsets", self._consumer.group, address, len(offsets))
        await self._consumer.reset_offsets(
            {queue: offset for queue, offset in offsets.items() if queue.topic == header.topic}
        )

    async def consumer_status(self, address: str, command: RemotingCommand) -> RemotingCommand:
        """Return the offsets of a topic in memory."""
        topic = command.ext_fields.get("topic", "")
        body = GetConsumerStatusBody(
            message_queue_table=self._consumer.offsets.table.of_topic(topic)
        )
        return response(command, body=body.to_bytes())

    async def running_info(self, address: str, command: RemotingCommand) -> RemotingCommand:
        """Return the running info of the consumer."""
        header = decode_header_fields(GetConsumerRunningInfoRequestHeader, command.ext_fields)
        consumer = self._consumer
        clock = consumer.clock
        shift_ms = clock.now_ms() - clock.monotonic_ms()
        info = ConsumerRunningInfo(
            properties={
                "PROP_CONSUME_TYPE": CONSUME_PASSIVELY,
                "PROP_CONSUMEORDERLY": "true" if consumer.service.orderly else "false",
                "PROP_CONSUMER_START_TIMESTAMP": str(consumer.started_at_ms),
                "PROP_THREADPOOL_CORE_SIZE": str(consumer.config.consume_threads),
                "PROP_NAMESERVER_ADDR": ";".join(self._instance.name_servers.addresses),
                "PROP_CLIENT_VERSION": version_name(VERSION),
            },
            subscription_set=[
                consumer.subscriptions[topic] for topic in sorted(consumer.subscriptions)
            ],
            mq_table={
                queue: _queue_info(process, consumer.offsets.table.get(queue), clock)
                for queue, process in consumer.process_queues.items()
            },
            mq_pop_table={
                queue: PopProcessQueueInfo(
                    wait_ack_count=process.wait_ack_count,
                    droped=process.dropped,
                    last_pop_timestamp=int(shift_ms + process.last_pop_ms),
                )
                for queue, process in consumer.pop_queues.items()
            },
            status_table={topic: consumer.stats.status(topic) for topic in consumer.subscriptions},
            jstack=stack_of_all_threads() if header.jstack_enable else None,
        )
        return response(command, body=info.to_bytes())

    async def consume_directly(self, address: str, command: RemotingCommand) -> RemotingCommand:
        """Call the listener with the message in the request and return its result."""
        header = decode_header_fields(ConsumeMessageDirectlyRequestHeader, command.ext_fields)
        try:
            messages = read_messages(command.body_bytes())
        except RemoteProtocolError as error:
            return response(command, ResponseCode.SYSTEM_ERROR, error.message)
        if not messages:
            return response(command, ResponseCode.SYSTEM_ERROR, "no message in the request")
        restore_topic(messages, self._consumer.group, self._consumer.client.namespace)
        message = messages[0]
        queue = MessageQueue(message.topic, header.broker_name or "", message.queue_id)
        began_ms = self._consumer.clock.monotonic_ms()
        service = self._consumer.service
        auto_commit = True
        if isinstance(service, ConsumeConcurrentlyService):
            context = ConsumeConcurrentlyContext(message_queue=queue)
            result, remark = await _call_listener(service.runner.listener, message, context)
        else:
            orderly = ConsumeOrderlyContext(message_queue=queue)
            result, remark = await _call_listener(service.runner.listener, message, orderly)
            auto_commit = orderly.auto_commit
        took_ms = int(self._consumer.clock.monotonic_ms() - began_ms)
        body = ConsumeMessageDirectlyResult(
            order=service.orderly,
            auto_commit=auto_commit,
            consume_result=result,
            remark=remark,
            spent_time_mills=took_ms,
        )
        return response(command, body=body.to_bytes())


DIRECT_RESULTS = {
    ConsumeConcurrentlyStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeOrderlyStatus.SUCCESS: "CR_SUCCESS",
    ConsumeOrderlyStatus.COMMIT: "CR_COMMIT",
    ConsumeOrderlyStatus.ROLLBACK: "CR_ROLLBACK",
}
"""Statuses of listeners as CMResult; others are CR_LATER, none at all is CR_RETURN_NULL."""


async def _call_listener(
    listener: Callable[[Sequence[MessageExt], Context], object],
    message: MessageExt,
    context: Context,
) -> tuple[str, str | None]:
    """Call a listener once; returns its result as CMResult, and the error if it raised one."""
    try:
        if is_coroutine_listener(listener):
            status = listener([message], context)
        else:
            status = await asyncio.to_thread(listener, [message], context)
        if inspect.isawaitable(status):
            status = await status
    except Exception as error:  # code of the application: its error is the result
        return "CR_THROW_EXCEPTION", "".join(traceback.format_exception_only(error)).strip()
    if status is None:
        return "CR_RETURN_NULL", None
    if isinstance(status, ConsumeConcurrentlyStatus | ConsumeOrderlyStatus):
        return DIRECT_RESULTS.get(status, "CR_LATER"), None
    return "CR_LATER", None


def _read_offsets(body: bytes) -> dict[MessageQueue, int]:
    """Read the map form, or the list form for CPP requesters."""
    try:
        return dict(ResetOffsetBody.from_bytes(body).offset_table)
    except RemoteProtocolError:
        listed = ResetOffsetBodyForC.from_bytes(body).offset_table
        return {
            MessageQueue(one.topic, one.broker_name, one.queue_id): one.offset for one in listed
        }


def _queue_info(process: ProcessQueue, committed: int | None, clock: Clock) -> ProcessQueueInfo:
    shift_ms = clock.now_ms() - clock.monotonic_ms()
    taken = process.consuming_orderly
    return ProcessQueueInfo(
        commit_offset=committed or 0,
        cached_msg_min_offset=process.min_offset or 0,
        cached_msg_max_offset=process.last_offset or 0,
        cached_msg_count=len(process.messages),
        cached_msg_size_in_mib=process.size_bytes // MIB,
        transaction_msg_min_offset=min(taken, default=0),
        transaction_msg_max_offset=max(taken, default=0),
        transaction_msg_count=len(taken),
        locked=process.locked,
        try_unlock_times=process.try_unlock_times,
        last_lock_timestamp=int(shift_ms + process.last_lock_ms),
        droped=process.dropped,
        last_pull_timestamp=int(shift_ms + process.last_pull_ms),
        last_consume_timestamp=int(shift_ms + process.last_consume_ms),
    )


def stack_of_all_threads() -> str:
    """Return the stacks of all threads, the equivalent of jstack."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        stack = "".join(traceback.format_stack(frame))
        parts.append(f'"{names.get(ident, "?")}" tid={ident}\n{stack}')
    return "\n".join(parts)[:MAX_JSTACK_CHARS]
