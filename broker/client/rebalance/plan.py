"""The difference between an allocation and the queues a consumer owns; pure.

**Source:** RocketMQ ``RebalanceImpl#updateProcessQueueTableInRebalance``.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from broker.common.message_queue import MessageQueue


class OwnedQueue(Protocol):
    """The part of a pulled or popped queue that decides about its removal."""

    dropped: bool

    def is_pull_expired(self, now_ms: float) -> bool:
        """Whether the loop of the queue has stalled."""
        ...


class RebalancePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that a rebalance of one topic makes: queues to drop and remove, queues to add."""

    remove: list[MessageQueue]
    stalled: list[MessageQueue]
    add: list[MessageQueue]

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.remove or self.stalled or self.add)


def plan_rebalance(
    topic: str,
    owned: Mapping[MessageQueue, OwnedQueue],
    allocated: Collection[MessageQueue],
    now_ms: float,
) -> RebalancePlan:
    """Compare; a queue that stays but has stalled is removed and added again.

    A queue that was dropped and could not be removed yet (an orderly listener holds it) is removed
    again, and added once that has succeeded.
    """
    mine = {queue: process for queue, process in owned.items() if queue.topic == topic}
    wanted = set(allocated)
    remove = [queue for queue, one in mine.items() if queue not in wanted or one.dropped]
    stalled = [
        queue
        for queue, one in mine.items()
        if queue in wanted and not one.dropped and one.is_pull_expired(now_ms)
    ]
    add = [queue for queue in sorted(wanted) if queue not in mine or queue in stalled]
    add += [queue for queue in remove if queue in wanted]
    return RebalancePlan(remove=sorted(remove), stalled=sorted(stalled), add=sorted(set(add)))
