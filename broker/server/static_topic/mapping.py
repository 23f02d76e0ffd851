"""The queues of a static topic: which segment contains a queue offset, and where it is stored.

A logical queue is a list of segments, oldest first. A segment maps logical offsets from
``logic_offset`` on to the offsets from ``start_offset`` of one queue of one broker; the last one,
the leader, receives sends. ``logic_offset`` -1: not decided yet, ``end_offset`` -1: open.

**Source:** RocketMQ TopicQueueMappingContext, LogicQueueMappingItem, TopicQueueMappingUtils.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from broker.errors import ClientError
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
    TopicQueueMappingInfo,
)

Item = LogicQueueMappingItem


def logical_offset(item: Item, offset: int) -> int:
    """Return the logical offset of an offset of the segment's queue, within the segment.

    -1 while the segment's logical offset is not decided.
    """
    if item.logic_offset < 0:
        return -1
    if item.end_offset >= 0:
        offset = min(offset, item.end_offset)
    return item.logic_offset + max(0, offset - item.start_offset)


def queue_offset(item: Item, logical: int) -> int:
    """Return the offset in the segment's queue of a logical offset."""
    return logical - item.logic_offset + item.start_offset


class LogicalQueue(NamedTuple):
    """One queue of a static topic as the broker ``bname`` knows it; ``items`` is not empty."""

    topic: str
    queue_id: int
    bname: str
    items: Sequence[Item]

    @property
    def leader(self) -> Item:
        """The segment that receives sends."""
        return self.items[-1]

    @property
    def is_led(self) -> bool:
        """Whether this broker receives the sends."""
        return self.leader.bname == self.bname

    def item_at(self, logical: int) -> Item:
        """Return the segment of a logical offset; the oldest one for an offset before all."""
        decided = [item for item in self.items if item.logic_offset >= 0]
        for item in reversed(decided):
            if logical >= item.logic_offset:
                return item
        return decided[0] if decided else self.items[0]

    @property
    def newest_decided(self) -> Item:
        """The leader, or the segment before it until the leader's logical offset is decided."""
        decided = [item for item in self.items if item.logic_offset >= 0]
        return decided[-1] if decided else self.leader

    def next_item(self, item: Item) -> Item | None:
        """Return the segment after ``item``, None after the last decided one."""
        later = [other for other in self.items if other.gen > item.gen and other.logic_offset >= 0]
        return later[0] if later else None

    @property
    def max_mapped_offset(self) -> int:
        """The largest logical offset that the segments alone determine."""
        leader = self.leader
        if leader.logic_offset >= 0:
            return max(0, leader.logic_offset)
        closed = [item for item in self.items if item.logic_offset >= 0 and item.end_offset >= 0]
        if not closed:
            return 0
        last = closed[-1]
        return last.logic_offset + last.end_offset - last.start_offset


def led_queues(detail: TopicQueueMappingDetail) -> dict[int, int]:
    """Return logical queue id → queue id of the queues that the detail's broker leads."""
    hosted = detail.hosted_queues or {}
    return {
        queue_id: items[-1].queue_id
        for queue_id, items in sorted(hosted.items())
        if items and items[-1].bname == detail.bname
    }


def mapping_info(detail: TopicQueueMappingDetail) -> TopicQueueMappingInfo:
    """Return the part of a mapping that name servers and clients get."""
    return TopicQueueMappingInfo(
        topic=detail.topic,
        scope=detail.scope,
        total_queues=detail.total_queues,
        bname=detail.bname,
        epoch=detail.epoch,
        curr_id_map=led_queues(detail),
    )


def merged(
    old: TopicQueueMappingDetail | None, new: TopicQueueMappingDetail, *, force: bool
) -> TopicQueueMappingDetail:
    """Return a new mapping with the queues that only the old one has.

    ClientError, unless forced, if it is older than the old one or changes a decided segment.

    **Source:** RocketMQ TopicQueueMappingManager#updateTopicQueueMapping,
    TopicQueueMappingUtils#makeSureLogicQueueMappingItemImmutable.
    """
    hosted = dict(new.hosted_queues or {})
    if old is None:
        return new
    if not force:
        if new.epoch < old.epoch:
            raise ClientError(f"Can't accept data with small epoch {new.epoch} < {old.epoch}")
        if new.scope != old.scope:
            raise ClientError(f"Can't accept data with unmatched scope {new.scope} != {old.scope}")
    for queue_id, items in (old.hosted_queues or {}).items():
        if queue_id not in hosted:
            hosted[queue_id] = items
        elif not force:
            _check_immutable(queue_id, items, hosted[queue_id], same=new.epoch == old.epoch)
    return msgspec.structs.replace(new, hosted_queues=dict(sorted(hosted.items())))


def _check_immutable(
    queue_id: int, old: Sequence[Item], new: Sequence[Item], *, same: bool
) -> None:
    by_gen = {item.gen: item for item in new}
    if same and len(old) != len(new):
        raise ClientError(f"queue {queue_id}: the number of its segments changes within one epoch")
    for item in old:
        other = by_gen.get(item.gen)
        # A segment that was removed is one whose messages have expired.
        if other is None:
            continue
        fixed = (item.queue_id, item.bname, item.start_offset)
        wrong = fixed != (other.queue_id, other.bname, other.start_offset)
        wrong |= item.logic_offset >= 0 and item.logic_offset != other.logic_offset
        wrong |= item.end_offset >= 0 and item.end_offset != other.end_offset
        if wrong:
            raise ClientError(f"queue {queue_id}: its segment {item.gen} cannot be changed")
