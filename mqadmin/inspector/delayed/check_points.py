"""List the check points of POP consumption that are not revived yet, from the files of a store."""

from collections.abc import Iterator

from broker.common.topic import REVIVE_TOPIC_PREFIX
from broker.errors import RemoteProtocolError
from broker.message import message as props
from broker.message.check_point import REVIVE_GROUP
from broker.message.message import MessageExt
from broker.store.format import config
from mqadmin.inspector.configs import committed_offsets
from mqadmin.inspector.damage import WARNING, found
from mqadmin.inspector.delayed.timer_files import TimerFiles
from mqadmin.inspector.delayed.timers import queue_messages, timer_messages
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.system_topics.check_points import (
    REVIVE_STAGE,
    TIMER_STAGE,
    CheckPointRow,
    CheckPoints,
)


def check_points(
    store: StoreDirectory, query: Query, *, now_ms: int
) -> Iterator[CheckPointRow | DamageRow]:
    """Yield the check points by revive time; records that cannot be decoded as damage.

    ``query`` selects by topic, queue id and, as ``key``, group.
    """
    points = CheckPoints(store.broker_name())
    with LogReader(store) as log:
        for message, stage in _records(store, log):
            try:
                points.add(message, stage)
            except RemoteProtocolError as error:
                yield found(
                    "checkPoint",
                    str(store.path),
                    error.message,
                    physical_offset=message.physical_offset,
                    length=message.total_size,
                    severity=WARNING,
                )
    for row in points.rows(now_ms):
        wanted = query.topic in (None, row.topic) and query.queue_id in (None, row.queue_id)
        if wanted and query.key in (None, row.group):
            yield row


def _records(store: StoreDirectory, log: LogReader) -> Iterator[tuple[MessageExt, str]]:
    """Yield (record, stage): timers that are not due yet, then the rest of the revive queues."""
    with TimerFiles(store) as files:
        read_ms = files.read_ms()
    for message in timer_messages(store, log):
        topic = message.get_property(props.PROPERTY_REAL_TOPIC) or ""
        due = message.get_property(props.PROPERTY_TIMER_OUT_MS) or ""
        waits = due.isdecimal() and int(due) >= read_ms
        if waits and topic.startswith(REVIVE_TOPIC_PREFIX):
            yield message, TIMER_STAGE
    offsets = revive_offsets(store)
    for queue in store.queue_files():
        if queue.topic.startswith(REVIVE_TOPIC_PREFIX):
            first = offsets.get((queue.topic, queue.queue_id), -1) + 1
            for message in queue_messages(store, log, queue.topic, queue.queue_id, first):
                yield message, REVIVE_STAGE


def revive_offsets(store: StoreDirectory) -> dict[tuple[str, int], int]:
    """Return the queue offset of the last processed check point, by topic and queue id.

    **Source:** RocketMQ PopReviveService#mergeAndRevive, which commits the offset of the check
    point itself, not the one after it.
    """
    table = committed_offsets(store)
    found_offsets = {}
    for key, queues in table.items():
        topic, group = config.split_topic_group(key)
        if group == REVIVE_GROUP:
            found_offsets.update({(topic, number): offset for number, offset in queues.items()})
    return found_offsets
