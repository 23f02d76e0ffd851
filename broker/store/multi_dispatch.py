"""Light message queues: one record, units in several queues (enableMultiDispatch).

INNER_MULTI_DISPATCH names further queues, separated by commas. At the put each gives out its next
queue offset, and the record keeps them in INNER_MULTI_QUEUE_OFFSET, in the same order; dispatch
then adds a unit to each.

**Source:** RocketMQ MultiDispatchUtils, LmqDispatch, CommitLogDispatcherBuildConsumeQueue,
ConsumeQueue#multiDispatchLmqQueue.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from broker.common.topic import SCHEDULE_TOPIC
from broker.message.properties import peek_property, set_property

if TYPE_CHECKING:
    from broker.store.consumequeue import ConsumeQueue
    from broker.store.queue_table import ConsumeQueueTable
    from broker.store.results import MessageInner

MULTI_DISPATCH: Final = b"INNER_MULTI_DISPATCH"
QUEUE_OFFSETS: Final = b"INNER_MULTI_QUEUE_OFFSET"
LMQ_PREFIX: Final = "%LMQ%"
# Queues that one message may name; each costs a queue offset and a unit.
MAX_QUEUES: Final = 1_000


def is_light(topic: str) -> bool:
    """Whether a topic is a light queue's."""
    return topic.startswith(LMQ_PREFIX)


def may_multi_dispatch(topic: str) -> bool:
    """Whether messages of a topic are dispatched to further queues.

    **Source:** RocketMQ MultiDispatchUtils#isNeedHandleMultiDispatch.
    """
    return not topic.startswith(("%RETRY%", "rmq_sys_", "%SYS%")) and topic != SCHEDULE_TOPIC


def targets(
    queues: "ConsumeQueueTable", topic: str, queue_id: int, properties: bytes
) -> "Iterator[ConsumeQueue]":
    """The further queues that a message's properties name; names with a slash are skipped."""
    names = peek_property(properties, MULTI_DISPATCH)
    if names is None or not may_multi_dispatch(topic):
        return
    for data in names.split(b",")[:MAX_QUEUES]:
        name = data.decode("utf-8", "replace")
        if not name or "/" in name:
            continue
        yield queues.queue(queues.topic(name), 0 if is_light(name) else queue_id)


def draw_offsets(queues: "ConsumeQueueTable", inner: "MessageInner") -> bytes:
    """Take the next offset of each further queue; the properties with those offsets added."""
    offsets = []
    for queue in targets(queues, inner.topic, inner.queue_id, inner.properties):
        offsets.append(str(queue.next_offset))
        queue.next_offset += 1
    if not offsets:
        return inner.properties
    return set_property(inner.properties, QUEUE_OFFSETS, ",".join(offsets).encode())


def units(
    queues: "ConsumeQueueTable", topic: str, queue_id: int, properties: bytes
) -> "Iterator[tuple[ConsumeQueue, int]]":
    """(queue, queue offset) of each further unit of a stored record.

    Nothing where names and offsets are not equally many: such a record is not ours to guess at.
    """
    offsets = peek_property(properties, QUEUE_OFFSETS)
    if offsets is None:
        return
    found = list(targets(queues, topic, queue_id, properties))
    numbers = offsets.split(b",")
    if len(numbers) == len(found) and all(number.isdigit() for number in numbers):
        for queue, number in zip(found, numbers, strict=True):
            yield queue, int(number)
