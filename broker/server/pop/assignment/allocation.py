"""Assignment by the broker: which queues a member of a group pulls or pops.

Pure functions of the queues of the topic, the members of the group and the request mode.

**Source:** RocketMQ QueryAssignmentProcessor#doLoadBalance, AllocateMessageQueueAveragely,
AllocateMessageQueueAveragelyByCircle.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from broker.common.message_queue import MessageQueue
from broker.server.pop.assignment.request_mode import POP, RequestMode

ANY_QUEUE: Final = -1

Allocate = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]


def averagely(
    queues: Sequence[MessageQueue], members: Sequence[str], member: str
) -> list[MessageQueue]:
    """Return a contiguous share; the first members get one queue more if there is a remainder."""
    if member not in members:
        return []
    index, count = members.index(member), len(members)
    share, rest = divmod(len(queues), count)
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def by_circle(
    queues: Sequence[MessageQueue], members: Sequence[str], member: str
) -> list[MessageQueue]:
    """Return every n-th queue, n the number of members."""
    if member not in members:
        return []
    return list(queues[members.index(member) :: len(members)])


STRATEGIES: Final[dict[str, Allocate]] = {"AVG": averagely, "AVG_BY_CIRCLE": by_circle}


class Member(msgspec.Struct, frozen=True):
    """Who asks: its client id, all client ids of the group, and the name of its strategy."""

    client_id: str
    members: list[str]
    strategy: str


def assign(
    queues: Sequence[MessageQueue], mode: RequestMode, member: Member
) -> list[MessageQueue] | None:
    """Return the queues of a member; None if the broker does not know the strategy.

    In POP mode a ``popShareQueueNum`` k shares: at most 0, or at least all other members, every
    member pops any queue (-1) of every broker; else a member also gets the queues of the k members
    after it.
    """
    allocate = STRATEGIES.get(member.strategy)
    if allocate is None:
        return None
    everything = sorted(queues)
    members = sorted(set(member.members))
    if mode.mode != POP:
        return allocate(everything, members, member.client_id)
    share = mode.pop_share_queue_num
    if share <= 0 or share >= len(members) - 1:
        brokers = dict.fromkeys((queue.topic, queue.broker_name) for queue in everything)
        return [MessageQueue(topic, broker, ANY_QUEUE) for topic, broker in brokers]
    if member.client_id not in members:
        return []
    index = members.index(member.client_id)
    if len(members) > len(everything):
        return [everything[index % len(everything)]] if everything else []
    found: dict[MessageQueue, None] = {}
    for step in range(share + 1):
        following = members[(index + step) % len(members)]
        found.update(dict.fromkeys(allocate(everything, members, following)))
    return list(found)
