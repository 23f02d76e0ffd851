"""ReviveTopic: write check points and acknowledgements to the revive topic, by way of the timer.

A check point is delivered one second before its revive time, so that it precedes its
acknowledgements, which are delivered at the revive time. With SYNC_FLUSH each write starts a
group commit: unflushed records are not visible.

**Source:** RocketMQ PopMessageProcessor#buildCkMsg, AckMessageProcessor#appendAck,
PopReviveService#rePutCK.
"""

import logging
from typing import Final

import msgspec

from broker.common.java import string_hash
from broker.common.topic import revive_topic
from broker.message import message as props
from broker.message.check_point import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CK_TAG,
    AckMsg,
    PopCheckPoint,
    check_point_uniq_key,
    encode_ack,
    encode_check_point,
)
from broker.message.properties import encode_properties
from broker.server.pop.parts import PopParts
from broker.store.results import MessageExtBrokerInner, PutMessageResult, PutMessageStatus

log = logging.getLogger("broker.server")

CK_LEAD_MS: Final = 1_000  # ackTimeInterval
_TAGS_CODES: Final = {tag: string_hash(tag) for tag in (CK_TAG, ACK_TAG, BATCH_ACK_TAG)}
# Delays of a check point that is written again because a message could not be revived, in s.
REWRITE_S: Final = (
    10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
)  # fmt: skip


class ReviveTopic:
    """The writer of the revive topic of this broker's cluster."""

    def __init__(self, parts: PopParts) -> None:
        self._parts = parts
        self.name = revive_topic(parts.config().broker_cluster_name)
        self.written_end = 0  # physical offset after the last record written
        self._next_queue = 0

    @property
    def queues(self) -> int:
        """Number of revive queues: those configured, and those that exist already."""
        config = self._parts.topics.get(self.name)
        configured = self._parts.config().revive_queue_num
        return max(configured, config.read_queue_nums if config is not None else 0)

    def next_queue(self) -> int:
        """Return the revive queue of the next check point, in turn."""
        queue_id = self._next_queue % self._parts.config().revive_queue_num
        self._next_queue += 1
        return queue_id

    def put_check_point(self, ck: PopCheckPoint, queue_id: int) -> PutMessageResult:
        """Store a check point, or delay it until a second before its revive time."""
        return self._put(
            encode_check_point(ck),
            queue_id,
            {
                props.PROPERTY_TAGS: CK_TAG,
                props.PROPERTY_UNIQ_KEY: check_point_uniq_key(ck),
                props.PROPERTY_TIMER_DELIVER_MS: str(ck.revive_time - CK_LEAD_MS),
            },
        )

    def put_ack(self, ack: AckMsg, queue_id: int, due_ms: int) -> PutMessageResult:
        """Store an acknowledgement, or delay it until the revive time of its check point."""
        return self._put(
            encode_ack(ack),
            queue_id,
            {
                props.PROPERTY_TAGS: ack.tag,
                props.PROPERTY_UNIQ_KEY: ack.uniq_key,
                props.PROPERTY_TIMER_DELIVER_MS: str(due_ms),
            },
        )

    def rewrite(self, ck: PopCheckPoint, queue_offset: int, queue_id: int) -> PutMessageResult:
        """Store a check point for one message that could not be revived, due after a pause."""
        step = min(ck.re_put_times, len(REWRITE_S) - 1)
        again = msgspec.structs.replace(
            ck,
            start_offset=queue_offset,
            invisible_time=ck.invisible_time + REWRITE_S[step] * 1000,
            count=1,
            diffs=[0],
            bits=0,
            re_put_times=ck.re_put_times + 1,
        )
        return self.put_check_point(again, queue_id)

    def _put(self, body: bytes, queue_id: int, properties: dict[str, str]) -> PutMessageResult:
        parts = self._parts
        host = parts.store_host()
        inner = MessageExtBrokerInner(
            topic=self.name,
            queue_id=queue_id,
            body=body,
            born_timestamp=parts.clock.now_ms(),
            born_host=host,
            store_host=host,
            tags_code=_TAGS_CODES[properties[props.PROPERTY_TAGS]],
        )
        reason = parts.timer.defer(inner, properties)
        if reason is not None:
            return PutMessageResult(PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL, remark=reason)
        inner.properties = encode_properties(properties)
        result = parts.store.put_message(inner)
        if result.status is PutMessageStatus.PUT_OK:
            self.written_end = result.physical_end
            flush_soon(parts, result)
        return result


def flush_soon(parts: PopParts, result: PutMessageResult) -> None:
    """With SYNC_FLUSH start a group commit: a record is dispatched only after its flush."""
    if parts.store.sync_flush:
        parts.store.await_flush(result.physical_end, _flushed)


def _flushed(status: PutMessageStatus) -> None:
    if status is not PutMessageStatus.PUT_OK:
        log.warning("pop: a record is not flushed yet: %s", status.name)
