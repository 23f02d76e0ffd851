"""The segments of static topics as rows: one declaration for the online and the offline library."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec


class Segment(Protocol):
    """A segment as in a mapping; offsets below 0 are not decided.

    **Source:** RocketMQ ``LogicQueueMappingItem``.
    """

    @property
    def gen(self) -> int:
        """Number of the segment in its queue."""
        ...

    @property
    def queue_id(self) -> int:
        """Id of the broker's queue."""
        ...

    @property
    def bname(self) -> str:
        """Name of the broker."""
        ...

    @property
    def logic_offset(self) -> int:
        """First offset in the static topic."""
        ...

    @property
    def start_offset(self) -> int:
        """First offset in the broker's queue."""
        ...

    @property
    def end_offset(self) -> int:
        """End offset in the broker's queue, exclusive."""
        ...


class SegmentRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A segment of a queue of a static topic: offsets of one queue of one broker.

    ``queueId`` and ``logicOffset`` are those of the static topic, ``brokerQueueId``,
    ``startOffset`` and ``endOffset`` (exclusive) those of the queue that contains the messages;
    null: not decided yet. ``sends``: the segment that receives messages. ``epoch`` is that of the
    mapping, ``totalQueues`` the number of queues of the topic.
    """

    topic: str
    queue_id: int
    gen: int
    broker_name: str
    broker_queue_id: int
    logic_offset: int | None
    start_offset: int
    end_offset: int | None
    sends: bool
    epoch: int
    total_queues: int


def rows_of_queue(
    topic: str, queue_id: int, items: Sequence[Segment], *, epoch: int, total_queues: int
) -> Iterator[SegmentRow]:
    """Yield the segments of one queue, oldest first."""
    for number, item in enumerate(items, 1):
        yield SegmentRow(
            topic=topic,
            queue_id=queue_id,
            gen=item.gen,
            broker_name=item.bname,
            broker_queue_id=item.queue_id,
            logic_offset=item.logic_offset if item.logic_offset >= 0 else None,
            start_offset=item.start_offset,
            end_offset=item.end_offset if item.end_offset >= 0 else None,
            sends=number == len(items),
            epoch=epoch,
            total_queues=total_queues,
        )
