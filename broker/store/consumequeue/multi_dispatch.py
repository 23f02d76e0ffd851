"""LMQ (light message queue): one record with units in several queues (enableMultiDispatch).

INNER_MULTI_DISPATCH names further queues, separated by commas. A put allocates the next queue
offset of each and writes them to INNER_MULTI_QUEUE_OFFSET in the same order; dispatch then adds
one unit to each queue.

**Source:** RocketMQ MultiDispatchUtils, LmqDispatch, CommitLogDispatcherBuildConsumeQueue,
ConsumeQueue#multiDispatchLmqQueue.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from broker.common.java import parse_number
from broker.common.topic import SCHEDULE_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC
from broker.message.properties import PROPERTIES_MAX_SIZE, peek_property, set_property
from broker.store.format.consumequeue import is_queue_name
from broker.store.results import MessageExtBrokerInner, RecordTooLargeError

if TYPE_CHECKING:
    from broker.store.consumequeue.consume_queue import ConsumeQueue
    from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore

MULTI_DISPATCH: Final = b"INNER_MULTI_DISPATCH"
QUEUE_OFFSETS: Final = b"INNER_MULTI_QUEUE_OFFSET"
LMQ_PREFIX: Final = "%LMQ%"
# Half messages reach the queues they name when they are committed, not before. Java shows them.
_HIDDEN: Final = {TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC}
# Queues that one message may name; each costs a queue offset and a unit.
MAX_QUEUES: Final = 1_000


def is_lmq_queue(topic: str) -> bool:
    """Whether a topic is the name of an LMQ."""
    return topic.startswith(LMQ_PREFIX)


def may_multi_dispatch(topic: str) -> bool:
    """Whether messages of a topic are dispatched to further queues.

    **Source:** RocketMQ MultiDispatchUtils#isNeedHandleMultiDispatch.
    """
    return not topic.startswith(("%RETRY%", "rmq_sys_", "%SYS%")) and topic != SCHEDULE_TOPIC


def names_of(topic: str, properties: bytes) -> list[bytes]:
    """The names in INNER_MULTI_DISPATCH without empty names and names with a slash.

    RocketMQ 5.3.3 skips names with a slash too, and allocates no offset for them. Empty if the
    topic's messages are not dispatched to further queues.
    """
    names = peek_property(properties, MULTI_DISPATCH)
    if names is None or not may_multi_dispatch(topic):
        return []
    return [name for name in names.split(b",")[:MAX_QUEUES] if name and b"/" not in name]


def check_names(topic: str, properties: bytes) -> str:
    """Reason why a message cannot be dispatched to the queues it names; empty if it can."""
    names = peek_property(properties, MULTI_DISPATCH)
    if names is None or not may_multi_dispatch(topic):
        return ""
    pieces = names.split(b",")
    if len(pieces) > MAX_QUEUES:
        return f"INNER_MULTI_DISPATCH names {len(pieces)} queues, at most {MAX_QUEUES}"
    for name in pieces:
        if name and not is_queue_name(name.decode("utf-8", "replace").encode()):
            return (
                f"INNER_MULTI_DISPATCH: a queue cannot be named {name[:40]!r} ({len(name)} bytes)"
            )
    return ""


def queue_of(queues: "ConsumeQueueStore", name: bytes, queue_id: int) -> "ConsumeQueue":
    """The queue with that name (queue id 0 for an LMQ); FileNameError for an invalid name."""
    text = name.decode("utf-8", "replace")
    return queues.queue(queues.topic(text), 0 if is_lmq_queue(text) else queue_id)


def draw_offsets(
    queues: "ConsumeQueueStore", inner: MessageExtBrokerInner
) -> "tuple[bytes, list[ConsumeQueue]]":
    """Allocate the next offset of each further queue; (properties with the offsets, queues).

    Also reserves file space for each unit: a name that the file system refuses must fail the put
    before anything is stored. The caller returns the offsets (:func:`return_offsets`) if the
    record is not stored.
    """
    drawn: list[ConsumeQueue] = []
    offsets = []
    if inner.topic in _HIDDEN:
        return inner.properties, drawn
    known: dict[bytes, str] = {}
    try:
        for name in names_of(inner.topic, inner.properties):
            # A repeated name has the same offset again, and one unit. (Java advances the queue
            # twice; its dispatch then stops at the gap.)
            if name not in known:
                queue = queue_of(queues, name, inner.queue_id)
                if queue.next_offset >= queue.reserved_offset:
                    queue.ensure_capacity(queue.next_offset)
                known[name] = str(queue.next_offset)
                queue.next_offset += 1
                drawn.append(queue)
            offsets.append(known[name])
        properties = inner.properties
        if offsets:
            properties = set_property(properties, QUEUE_OFFSETS, ",".join(offsets).encode())
        if len(properties) > PROPERTIES_MAX_SIZE:
            raise RecordTooLargeError(
                f"properties of {len(properties)} bytes with their queue offsets,"
                f" at most {PROPERTIES_MAX_SIZE}"
            )
    except BaseException:
        return_offsets(drawn)
        raise
    return properties, drawn


def return_offsets(drawn: "Iterable[ConsumeQueue]") -> None:
    """Return the offsets allocated for a record that was not stored."""
    for queue in drawn:
        queue.next_offset -= 1


def units(topic: str, properties: bytes) -> "list[tuple[bytes, int]]":
    """(queue name, queue offset) of each further unit of a stored record.

    Empty if the numbers of names and offsets differ: they cannot be matched then.
    """
    offsets = peek_property(properties, QUEUE_OFFSETS)
    if offsets is None:
        return []
    names = names_of(topic, properties)
    numbers = [parse_number(text, 0) for text in offsets.split(b",")]
    if len(numbers) != len(names):
        return []
    found = [(name, n) for name, n in zip(names, numbers, strict=True) if n is not None]
    return found if len(found) == len(names) else []
