"""Queues that are only read any more: a topic has more read queues than write queues.

The consume statistics of a broker do not contain them. Their committed offsets are in the offset
table of the broker, their ends are read queue by queue.

**Source:** RocketMQ ``AdminBrokerProcessor#fetchAllConsumeStatsInBroker``, which counts to
``writeQueueNums``.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import msgspec

from broker.common.message_queue import MessageQueue
from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.connections import call_bounded
from mqadmin.admin.failure import describe
from mqadmin.admin.offset.progress import AHEAD, NO_OFFSET, OK, UNKNOWN, QueueProgress
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

OffsetTable = Mapping[str, Mapping[int, int]]
"""``topic@group`` → queue id → committed offset."""


class ReadOnlyQueues(msgspec.Struct, frozen=True):
    """Topic → the ids of its queues on one broker that are only read."""

    by_topic: Mapping[str, range]

    def progress(
        self, target: Target, groups: Mapping[str, Set[str]], table: OffsetTable | None
    ) -> list[tuple[str, QueueProgress]]:
        """Return group and queue of each group that consumes one of the topics.

        ``groups``: group → topics of its statistics on this broker. They have an end later
        (:func:`add_ends`); until then, and without an offset table, their state is unknown.
        """
        found = []
        for group, topics in groups.items():
            own = set(topics)
            if table is not None:  # a topic without write queues is in no statistics
                own |= {topic for topic in self.by_topic if table.get(f"{topic}@{group}")}
            for topic in sorted(own & self.by_topic.keys()):
                for queue_id in self.by_topic[topic]:
                    queue = MessageQueue(topic, target.label, queue_id)
                    one = QueueProgress(queue=queue, address=target.address)
                    if table is not None:
                        one.committed = committed_in(table, group, queue)
                        one.state = NO_OFFSET if one.committed is None else OK
                    found.append((group, one))
        return found


def read_only_queues(configs: Mapping[str, Any]) -> ReadOnlyQueues | None:
    """Return the queues of the topics of a broker, None if there are none."""
    found = {}
    for topic, value in configs.items():
        config = getattr(value, "topic_config", value)  # static topics have a mapping
        queues = range(config.write_queue_nums, config.read_queue_nums)
        if queues:
            found[topic] = queues
    return ReadOnlyQueues(found) if found else None


def committed_in(table: OffsetTable, group: str, queue: MessageQueue) -> int | None:
    """Return the committed offset of a queue; an offset is removed by committing -1."""
    offset = table.get(f"{queue.topic}@{group}", {}).get(queue.queue_id, -1)
    return None if offset < 0 else offset


def add_ends(admin: AdminSession, queues: Sequence[QueueProgress]) -> list[TargetError]:
    """Fill in the end of each queue, one request per queue, and the state that follows from it."""
    places = sorted({(one.address, one.queue) for one in queues})
    answers = call_bounded(
        admin,
        [
            (
                address,
                build_request(
                    RequestCode.GET_MAX_OFFSET,
                    {"topic": queue.topic, "queue_id": queue.queue_id},
                ),
            )
            for address, queue in places
        ],
    )
    ends: dict[tuple[str, MessageQueue], int] = {}
    errors: list[TargetError] = []
    for (address, queue), answer in zip(places, answers, strict=True):
        if isinstance(answer, RocketMQError):
            errors.append(describe(answer, address=address, target=queue.broker_name))
        else:
            ends[address, queue] = answer.header.offset
    for one in queues:
        _complete(one, ends.get((one.address, one.queue)))
    return errors


def _complete(one: QueueProgress, end: int | None) -> None:
    one.broker_offset = end
    if end is None or one.state not in (OK, NO_OFFSET):
        one.state, one.committed = UNKNOWN, None
    elif one.committed is None and end == 0:
        one.committed, one.state = 0, OK  # the lag of an empty queue is 0
    elif one.committed is not None and one.committed > end:
        one.state = AHEAD
