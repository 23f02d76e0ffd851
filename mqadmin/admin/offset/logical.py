"""Progress of a group in static topics: the queues that clients see, over all brokers.

Brokers report the queues that they store. A queue of a static topic is a list of such queues, its
segments, on one or more brokers: its end is that of the last segment, and its committed offset the
one of the newest segment that has a committed offset, as brokers answer a consumer.

**Source:** RocketMQ MQAdminUtils#convertPhysicalConsumeStats, DefaultMQAdminExtImpl
(examineConsumeStats).
"""

from collections.abc import Mapping

import msgspec

from broker.common.message_queue import MessageQueue
from broker.common.topic import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from broker.errors import RocketMQError
from mqadmin.admin.failure import describe
from mqadmin.admin.offset.progress import (
    UNKNOWN,
    GroupProgress,
    QueueProgress,
    group_progress,
    state_of,
)
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topics.mappings import (
    Items,
    is_static,
    logical_offset,
    mock_broker_name,
    newest_segments,
    read_mappings,
)

Physical = Mapping[MessageQueue, QueueProgress]


def logical_progress(
    admin: AdminSession, group: str, topic: str | None = None, *, ranges: bool = True
) -> GroupProgress:
    """Query the progress of ``group`` as :func:`~.progress.group_progress`, by logical queue.

    The queues of a static topic whose mapping cannot be read remain those of the brokers.
    """
    progress = group_progress(admin, group, topic, ranges=ranges)
    queues: list[QueueProgress] = []
    errors = list(progress.errors)
    by_topic: dict[str, list[QueueProgress]] = {}
    for one in progress.queues:
        by_topic.setdefault(one.queue.topic, []).append(one)
    for name, physical in by_topic.items():
        if not _may_be_static(name) or not is_static(admin, name):
            queues += physical
            continue
        if topic is None:
            # A broker reports topics in which the group has a committed offset there.
            found = group_progress(admin, group, name, ranges=ranges)
            errors += [error for error in found.errors if error not in errors]
            physical = list(found.queues)
        queues += _logical_queues(admin, name, physical, errors)
    return msgspec.structs.replace(progress, queues=queues, errors=errors)


def _may_be_static(topic: str) -> bool:
    return not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) and not is_system_topic(topic)


def _logical_queues(
    admin: AdminSession, topic: str, physical: list[QueueProgress], errors: list[TargetError]
) -> list[QueueProgress]:
    try:
        present = read_mappings(admin, topic)
        segments = newest_segments(topic, present)
    except RocketMQError as error:
        errors.append(describe(error, target=topic))
        return physical
    scopes = {one.mapping_detail.scope for one in present.values() if one.mapping_detail}
    name = mock_broker_name(min(scopes))
    stored = {one.queue: one for one in physical}
    return [
        combined(MessageQueue(topic, name, queue_id), items, stored)
        for queue_id, items in segments.items()
    ]


def combined(queue: MessageQueue, items: Items, physical: Physical) -> QueueProgress:
    """Return the progress of a logical queue from that of the queues of its segments.

    The state is unknown if the broker of a segment that decides did not respond.
    """
    places = [
        (item, physical.get(MessageQueue(queue.topic, item.bname, item.queue_id)))
        for item in items
        if item.logic_offset >= 0
    ]
    one = QueueProgress(queue=queue, address="")
    for item, place in reversed(places):
        if place is None or place.broker_offset is None:
            return one
        if one.broker_offset is None:
            one.address = place.address
            one.broker_offset = logical_offset(item, place.broker_offset)
        if place.committed is not None:
            one.committed = logical_offset(item, place.committed)
            one.last_timestamp = place.last_timestamp
            one.behind_ms = place.behind_ms
            if place.pulled is not None:
                one.pulled = logical_offset(item, place.pulled)
            break
    first = places[0] if places else None
    if first is not None and first[1] is not None and first[1].min_offset is not None:
        one.min_offset = logical_offset(first[0], first[1].min_offset)
    one.state = state_of(one) if places else UNKNOWN
    if one.lag == 0:
        one.behind_ms = 0
    return one
