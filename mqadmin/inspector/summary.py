"""A store in one record: what its log holds, counted in one pass."""

from typing import Final

from broker.common.sysflag import INNER_BATCH
from broker.errors import RemoteProtocolError
from broker.message.properties import peek_property
from broker.store.format.commitlog import LogRecord, Tally
from mqadmin.inspector.damage import WARNING, found
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogWalk
from mqadmin.inspector.rows import DamageRow, Summary, TopicSummary

# A log up to this length has its bodies checked unless told otherwise: reading and summing
# everything costs more than twice the time of walking from record to record.
CHECK_CRC_BYTES: Final = 64 << 20


def summarize(
    store: StoreDirectory, check_crc: bool | None = None
) -> tuple[Summary, list[DamageRow]]:
    """The summary of a store's log, and its damages.

    ``check_crc`` None looks into the bodies of a log of at most :data:`CHECK_CRC_BYTES`.
    """
    if check_crc is None:
        check_crc = sum(file.length for file in store.log_files()) <= CHECK_CRC_BYTES
    walk = LogWalk(store, check_crc=check_crc, counting=True)
    rare = Tally()
    blanks = 0
    damages: list[DamageRow] = []
    for item in walk:
        if item.damage is not None:
            damages.append(item.damage)
        elif item.blank is not None:
            blanks += 1
        elif item.record is not None:
            record = item.record
            rare.add(record.topic, record.queue_id, record.total_size, _messages_in(record))
    try:
        checkpoint = store.checkpoint()
    except RemoteProtocolError as error:
        checkpoint = None
        path = str((store.root or store.path) / "checkpoint")
        damages.append(found("checkpoint", path, error.message, severity=WARNING))
    topics = _topics([*walk.tallies, rare])
    return (
        Summary(
            path=str(store.path),
            min_physical_offset=walk.min_offset,
            max_physical_offset=walk.end,
            messages=sum(topic.messages for topic in topics),
            bytes=sum(topic.bytes for topic in topics),
            blanks=blanks,
            damages=len(damages),
            bodies_checked=check_crc,
            first_store_timestamp=walk.first_timestamp,
            last_store_timestamp=walk.last_timestamp,
            topics=topics,
            clean_stop=store.state().clean_stop,
            checkpoint=checkpoint,
        ),
        damages,
    )


def _messages_in(record: LogRecord) -> int:
    """Messages of a record: one, or what an inner batch says."""
    if record.sys_flag & INNER_BATCH:
        count = peek_property(record.properties, b"INNER_NUM")
        if count is not None and count.isdigit() and len(count) < 10:
            return int(count)
    return 1


def _topics(tallies: list[Tally]) -> list[TopicSummary]:
    queues: dict[str, set[int]] = {}
    messages: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for tally in tallies:
        for raw, queue_id, count, size in tally.totals():
            topic = raw.decode("utf-8", "replace")
            queues.setdefault(topic, set()).add(queue_id)
            messages[topic] = messages.get(topic, 0) + count
            sizes[topic] = sizes.get(topic, 0) + size
    return [
        TopicSummary(
            topic=topic, queues=len(queues[topic]), messages=messages[topic], bytes=sizes[topic]
        )
        for topic in sorted(queues)
    ]
