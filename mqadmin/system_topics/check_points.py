"""Check points of POP consumption that are not revived yet, merged with their acknowledgements.

Both are stored as timer messages first and reach a revive queue when they are due, so that a check
point is found in rmq_sys_wheel_timer or, from the offset of CID_RMQ_SYS_REVIVE_GROUP on, in a
queue of rmq_sys_REVIVE_LOG_<cluster>. Check points in the pop buffer (enablePopBufferMerge) and
those of orderly consumption are in no record.

**Source:** RocketMQ PopReviveService#consumeReviveMessage, #mockCkForAck.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from broker.errors import RemoteProtocolError
from broker.message.check_point import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CK_TAG,
    AckMsg,
    MergeKey,
    PopCheckPoint,
    decode_ack,
    decode_check_point,
)
from broker.message.message import MessageExt

MAX_RECORDS: Final = 500_000
TIMER_STAGE: Final = "timer"
REVIVE_STAGE: Final = "revive"


class CheckPointRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One check point: messages of one queue that a group popped together.

    ``offsets`` are their queue offsets, ``unacknowledged`` those that are delivered again at
    ``reviveTimestamp``. ``stage`` is "timer" (in rmq_sys_wheel_timer) or "revive" (in the revive
    topic); ``queueOffset`` and ``physicalOffset`` are those of the record there. Times are epoch
    ms.
    """

    group: str
    topic: str
    broker_name: str | None
    queue_id: int
    start_offset: int
    offsets: list[int]
    unacknowledged: list[int]
    pop_timestamp: int
    invisible_ms: int
    revive_timestamp: int
    revive_in_ms: int
    re_put_times: int
    stage: str
    queue_offset: int
    physical_offset: int


class _Found(msgspec.Struct, kw_only=True):
    ck: PopCheckPoint
    stage: str
    queue_offset: int
    physical_offset: int


class CheckPoints:
    """Merges the records of one broker; ``own_broker`` is meant where a record names none.

    At most MAX_RECORDS are kept: ``truncated`` if there were more.
    """

    def __init__(self, own_broker: str | None) -> None:
        self.truncated = False
        self._own = own_broker or ""
        self._found: dict[MergeKey, _Found] = {}
        self._acks: dict[MergeKey, list[AckMsg]] = {}
        self._count = 0

    def add(self, message: MessageExt, stage: str) -> None:
        """Add a record of the stage; RemoteProtocolError if its tag or body is invalid."""
        if self._count >= MAX_RECORDS:
            self.truncated = True
            return
        if message.tags == CK_TAG:
            ck = decode_check_point(message.body)
            # A stored copy in the revive topic has the same key: one of them counts.
            self._found[ck.merge_key(self._own)] = _Found(
                ck=ck,
                stage=stage,
                queue_offset=message.queue_offset,
                physical_offset=message.physical_offset,
            )
        elif message.tags in (ACK_TAG, BATCH_ACK_TAG):
            ack = decode_ack(message.body, batched=message.tags == BATCH_ACK_TAG)
            self._acks.setdefault(ack.merge_key(self._own), []).append(ack)
        else:
            raise RemoteProtocolError(f"record of the revive topic: tag {message.tags!r:.40}")
        self._count += 1

    def rows(self, now_ms: int) -> Iterator[CheckPointRow]:
        """Yield the check points by revive time."""
        for found in sorted(self._merged(), key=lambda one: one.ck.revive_time):
            ck = found.ck
            yield CheckPointRow(
                group=ck.group,
                topic=ck.topic,
                broker_name=ck.broker_name or self._own or None,
                queue_id=ck.queue_id,
                start_offset=ck.start_offset,
                offsets=[ck.offset_at(index) for index in range(ck.count)],
                unacknowledged=ck.unacknowledged,
                pop_timestamp=ck.pop_time,
                invisible_ms=ck.invisible_time,
                revive_timestamp=ck.revive_time,
                revive_in_ms=ck.revive_time - now_ms,
                re_put_times=ck.re_put_times,
                stage=found.stage,
                queue_offset=found.queue_offset,
                physical_offset=found.physical_offset,
            )

    def in_flight(self, group: str) -> Counter[tuple[str, int]]:
        """Return the number of unacknowledged messages of a group by topic and queue id."""
        counts: Counter[tuple[str, int]] = Counter()
        for found in self._merged():
            if found.ck.group == group:
                counts[found.ck.topic, found.ck.queue_id] += len(found.ck.unacknowledged)
        return counts

    def _merged(self) -> Iterator[_Found]:
        for key, found in self._found.items():
            for ack in self._acks.get(key, ()):
                found.ck.acknowledge(ack.offsets)
            yield found
