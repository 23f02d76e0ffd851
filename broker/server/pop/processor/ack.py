"""ACK_MESSAGE (200051), BATCH_ACK_MESSAGE (200151), CHANGE_MESSAGE_INVISIBLETIME (200053).

An acknowledgement that belongs to no check point is accepted and has no effect: the check point
may be done already. A changed invisible time opens a check point for the one message and then
acknowledges it in the old one, so that a failure in between repeats a delivery and loses none.

**Source:** RocketMQ AckMessageProcessor, ChangeInvisibleTimeProcessor.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.common.java import INT64_MAX
from broker.errors import RemoteProtocolError
from broker.message.check_point import MAX_MESSAGES, AckMsg, PopCheckPoint
from broker.message.receipt_handle import (
    ORDER_REVIVE_QUEUE_ID,
    ReceiptHandle,
    decode_handle,
    real_topic,
)
from broker.remoting.protocol.body.consumer.pop import BatchAck, BatchAckMessageRequestBody
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.consumer.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.server.context import BrokerContext
from broker.server.pop.order_info import ILLEGAL
from broker.server.pop.processor.checks import check_receipt
from broker.server.pop.processor.flushed_replies import FlushedReplies
from broker.server.pop.service import PopService

if TYPE_CHECKING:
    from broker.remoting.server import Connection

Answer = RemotingCommand | bytes | None

MAX_BATCH_ACKS: Final = 10_000  # entries of one request
MAX_BITS: Final = 32 * 1024  # offsets that one entry spans


class _Entry(NamedTuple):
    """One acknowledgement: messages of one check point, and where that was written."""

    group: str
    topic: str
    queue_id: int
    start_offset: int
    pop_time: int
    due_ms: int
    revive_queue_id: int
    broker_name: str
    offsets: list[int]
    batched: bool


class AckMessageProcessor:
    """Serves acknowledgements and changes of the invisible time; one instance per broker."""

    def __init__(self, context: BrokerContext, pop: PopService) -> None:
        self._context = context
        self._pop = pop
        self._flushed = FlushedReplies(lambda: context.durability, context.soon)

    # ---- acknowledgements

    def ack(self, connection: "Connection", request: RemotingCommand) -> Answer:
        """ACK_MESSAGE: one message."""
        header = decode_header_fields(AckMessageRequestHeader, request.ext_fields)
        refusal = check_receipt(self._context, request, header, beyond=1)
        if refusal is not None:
            return refusal
        handle = self._handle(request, header.extra_info)
        if isinstance(handle, RemotingCommand):
            return handle
        entry = _Entry(
            header.consumer_group,
            header.topic,
            header.queue_id,
            handle.start_offset,
            handle.pop_time,
            handle.due_ms,
            handle.revive_queue_id,
            handle.broker_name,
            [header.offset],
            False,
        )
        refusal = self._acknowledge(request, entry)
        if refusal is not None:
            return refusal
        return self._flushed.hold(connection, response(request), self._pop.topic.written_end)

    def batch_ack(self, connection: "Connection", request: RemotingCommand) -> Answer:
        """BATCH_ACK_MESSAGE: messages of several check points; invalid entries are skipped."""
        data = request.body_bytes()
        body = BatchAckMessageRequestBody.from_bytes(data) if data else None
        if body is None or not body.acks:
            return response(request, ResponseCode.NO_MESSAGE)
        if len(body.acks) > MAX_BATCH_ACKS:
            remark = f"{len(body.acks)} acks in one request, at most {MAX_BATCH_ACKS}"
            return response(request, ResponseCode.MESSAGE_ILLEGAL, remark)
        refusal = None
        for entry in self._entries(body):
            refusal = self._acknowledge(request, entry) or refusal
        if refusal is not None:
            return refusal
        return self._flushed.hold(connection, response(request), self._pop.topic.written_end)

    def _entries(self, body: BatchAckMessageRequestBody) -> Iterator[_Entry]:
        """Yield the valid entries of a batch, each with the offsets that its queue contains."""
        store, own = self._context.store, self._context.config.broker_name
        for ack in body.acks:
            group = ack.consumer_group or ""
            topic = real_topic(ack.topic or "", group, ack.retry)
            low = store.get_min_offset(topic, ack.queue_id)
            high = store.get_max_offset(topic, ack.queue_id)
            if low < 0 or not self._pop.valid_revive_queue(ack.revive_queue_id):
                continue
            offsets = [offset for offset in _acked_offsets(ack) if low <= offset <= high]
            if offsets:
                yield _Entry(
                    group,
                    topic,
                    ack.queue_id,
                    ack.start_offset,
                    ack.pop_time,
                    ack.pop_time + ack.invisible_time,
                    ack.revive_queue_id,
                    body.broker_name or own,
                    offsets,
                    True,
                )

    def _acknowledge(self, request: RemotingCommand, entry: _Entry) -> RemotingCommand | None:
        if entry.revive_queue_id == ORDER_REVIVE_QUEUE_ID:
            return self._acknowledge_in_order(request, entry)
        failure = self._pop.acknowledge(
            AckMsg(
                topic=entry.topic,
                group=entry.group,
                queue_id=entry.queue_id,
                start_offset=entry.start_offset,
                pop_time=entry.pop_time,
                broker_name=entry.broker_name,
                offsets=entry.offsets,
                batched=entry.batched,
            ),
            entry.revive_queue_id,
            entry.due_ms,
        )
        if failure:
            remark = f"the acknowledgement is not written: {failure}"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        return None

    def _acknowledge_in_order(
        self, request: RemotingCommand, entry: _Entry
    ) -> RemotingCommand | None:
        """Acknowledge messages of an ordered pop; the queue is free when all of them are.

        **Source:** RocketMQ AckMessageProcessor#ackOrderly.
        """
        context, pop = self._context, self._pop
        group, topic, queue_id = entry.group, entry.topic, entry.queue_id
        for offset in entry.offsets:
            committed = context.offsets.query(group, topic, queue_id)
            if offset < committed:
                continue
            following = pop.orders.commit(topic, group, queue_id, offset, entry.pop_time)
            if following == ILLEGAL:
                remark = f"offset is illegal, key:{topic}@{group}@{queue_id}, commit:{offset}"
                return response(request, ResponseCode.MESSAGE_ILLEGAL, remark)
            if following >= 0:
                if not context.offsets.reset_pending(group, topic, queue_id):
                    context.offsets.commit(group, topic, queue_id, following)
                pop.in_flight.remove(topic, group, queue_id, entry.pop_time)
                if not pop.orders.blocked(topic, group, queue_id, context.now_ms(), None):
                    pop.freed(topic, group, queue_id)
        return None

    # ---- invisible time

    def change_invisible_time(self, connection: "Connection", request: RemotingCommand) -> Answer:
        """CHANGE_MESSAGE_INVISIBLETIME: a new invisible time, counted from now."""
        header = decode_header_fields(ChangeInvisibleTimeRequestHeader, request.ext_fields)
        refusal = check_receipt(self._context, request, header, beyond=0)
        if refusal is not None:
            return refusal
        handle = self._handle(request, header.extra_info)
        if isinstance(handle, RemotingCommand):
            return handle
        if header.invisible_time < 0:
            remark = f"invisibleTime {header.invisible_time}: invalid"
            return response(request, ResponseCode.INVALID_PARAMETER, remark)
        if handle.ordered:
            return self._change_in_order(request, header, handle)
        now_ms = self._context.now_ms()
        if handle.start_offset == header.offset:
            # The old check point starts at this message too: the new one needs another time, or
            # the acknowledgement of the old one would end both. (Java loses the message then.)
            now_ms = max(now_ms, handle.pop_time + 1)
        failure = self._change(header, handle, now_ms)
        if failure:
            remark = f"the new check point is not written: {failure}"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        reply = _changed(request, now_ms, header.invisible_time, handle.revive_queue_id)
        return self._flushed.hold(connection, reply, self._pop.topic.written_end)

    def _change(
        self, header: ChangeInvisibleTimeRequestHeader, handle: ReceiptHandle, now_ms: int
    ) -> str:
        """Open a check point for one message, then acknowledge it in its old one.

        **Source:** RocketMQ ChangeInvisibleTimeProcessor#appendCheckPointThenAckOrigin.
        """
        pop = self._pop
        check_point = PopCheckPoint(
            topic=header.topic,
            group=header.consumer_group,
            queue_id=header.queue_id,
            start_offset=header.offset,
            pop_time=now_ms,
            invisible_time=header.invisible_time,
            broker_name=handle.broker_name,
            count=1,
            diffs=[0],
        )
        ack = AckMsg(
            topic=header.topic,
            group=header.consumer_group,
            queue_id=header.queue_id,
            start_offset=handle.start_offset,
            pop_time=handle.pop_time,
            broker_name=handle.broker_name,
            offsets=[header.offset],
        )
        return pop.replace_check_point(check_point, ack, handle.revive_queue_id, handle.due_ms)

    def _change_in_order(
        self,
        request: RemotingCommand,
        header: ChangeInvisibleTimeRequestHeader,
        handle: ReceiptHandle,
    ) -> RemotingCommand:
        """Change when one message of an ordered batch becomes visible again.

        **Source:** RocketMQ ChangeInvisibleTimeProcessor#processChangeInvisibleTimeForOrder.
        """
        context = self._context
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        if header.offset < context.offsets.query(group, topic, queue_id):
            return _changed(request, 0, 0, 0)
        visible_ms = context.now_ms() + header.invisible_time
        key = (topic, group, queue_id)
        self._pop.orders.change_visible(key, header.offset, handle.pop_time, visible_ms)
        self._pop.schedule()
        return _changed(
            request, handle.pop_time, visible_ms - handle.pop_time, handle.revive_queue_id
        )

    def _handle(self, request: RemotingCommand, text: str) -> ReceiptHandle | RemotingCommand:
        """Decode a receipt handle; SYSTEM_ERROR with the invalid field, as in Java."""
        try:
            handle = decode_handle(text)
        except RemoteProtocolError as error:
            return response(request, ResponseCode.SYSTEM_ERROR, error.message)
        if not self._pop.valid_revive_queue(handle.revive_queue_id):
            remark = f"receipt handle: there is not a revive queue {handle.revive_queue_id}"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        if not 0 <= handle.due_ms <= INT64_MAX:
            return response(request, ResponseCode.SYSTEM_ERROR, "receipt handle: invalid times")
        return handle


def _changed(
    request: RemotingCommand, pop_time: int, invisible_time: int, revive_queue_id: int
) -> RemotingCommand:
    header = ChangeInvisibleTimeResponseHeader(
        pop_time=pop_time, invisible_time=invisible_time, revive_qid=revive_queue_id
    )
    return response(request, ext=encode_header_fields(header))


def _acked_offsets(ack: BatchAck) -> list[int]:
    """Return the queue offsets whose bits are set; empty if the bit set is invalid.

    At most a check point's messages: others could not match it.
    """
    try:
        bits = base64.b64decode(ack.bit_set or "", validate=True)
    except (binascii.Error, ValueError):
        return []
    if len(bits) * 8 > MAX_BITS:
        return []
    found = [
        ack.start_offset + 8 * index + bit
        for index, byte in enumerate(bits)
        if byte
        for bit in range(8)
        if byte >> bit & 1
    ]
    return found if len(found) <= MAX_MESSAGES else []
