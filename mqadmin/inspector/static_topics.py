"""List the segments of static topics from config/topicQueueMapping.json of a store."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from broker.errors import RemoteProtocolError, StoreError
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
)
from broker.store.format import config, state
from mqadmin.inspector.configs import BACKUP, decode_mappings
from mqadmin.inspector.damage import ERROR, WARNING, found
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import read_all
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.system_topics.segments import SegmentRow, rows_of_queue

KIND: Final = "staticTopic"


def read_mappings(
    store: StoreDirectory,
) -> tuple[Path, dict[str, TopicQueueMappingDetail], list[DamageRow]]:
    """Return the file that brokers read, its mappings, and the damage of the file and its backup.

    The mappings are empty if neither exists or can be read.
    """
    folder = store.folder(state.CONFIG_DIR) or store.path
    path = folder / config.TOPIC_QUEUE_MAPPING
    if store.path.is_file() and store.path.name.startswith(config.TOPIC_QUEUE_MAPPING):
        path = store.path
    damage: list[DamageRow] = []
    for file in (path, path.with_name(path.name + BACKUP)):
        try:
            data = read_all(file)
            if data is not None:
                return file, decode_mappings(data), damage
        except (StoreError, RemoteProtocolError) as error:
            severity = ERROR if file == path else WARNING
            row = found("config", str(file), error.message, length=None, severity=severity)
            damage.append(row)
    return path, {}, damage


def moved_mappings(data: bytes, moved: Callable[[str, int, int], int]) -> bytes:
    """Return topicQueueMapping.json with the bounds of this broker's segments moved.

    ``moved`` returns the new queue offset by topic, queue id and old queue offset. Logical offsets
    stay, because the other brokers of the topic know them. RemoteProtocolError if ``data`` is
    invalid.
    """

    def segment(topic: str, item: LogicQueueMappingItem) -> LogicQueueMappingItem:
        start, end = item.start_offset, item.end_offset
        return msgspec.structs.replace(
            item,
            start_offset=moved(topic, item.queue_id, start),
            end_offset=moved(topic, item.queue_id, end) if end >= 0 else end,
        )

    table: dict[str, object] = {}
    for topic, detail in decode_mappings(data).items():
        hosted = {
            queue_id: [segment(topic, one) if one.bname == detail.bname else one for one in items]
            for queue_id, items in _hosted(detail).items()
        }
        table[topic] = msgspec.structs.replace(detail, hosted_queues=hosted).to_wire()
    file = config.decode_config(config.TOPIC_QUEUE_MAPPING, data)
    return config.encode_config(msgspec.structs.replace(file, table=table)).encode()


def segment_rows(store: StoreDirectory, query: Query) -> Iterator[SegmentRow | DamageRow]:
    """Yield the segments by topic, queue and generation; ``query`` selects topic and queue id."""
    _, mappings, damage = read_mappings(store)
    yield from damage
    for topic, detail in sorted(mappings.items()):
        if query.topic not in (None, topic):
            continue
        for queue_id, items in sorted(_hosted(detail).items()):
            if query.queue_id in (None, queue_id):
                yield from rows_of_queue(
                    topic, queue_id, items, epoch=detail.epoch, total_queues=detail.total_queues
                )


def _hosted(
    detail: TopicQueueMappingDetail,
) -> Mapping[int, list[LogicQueueMappingItem]]:
    return detail.hosted_queues or {}
