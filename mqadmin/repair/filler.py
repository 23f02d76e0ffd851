"""Filler records, which cover unreadable regions of the log.

A filler is a complete record with a valid checksum and the transaction type "rollback": scans
continue past it, and brokers dispatch it to no queue and no index. Its body describes the region.

**Source:** RocketMQ ``CommitLogDispatcherBuildConsumeQueue`` (rollback: no unit),
``IndexService#buildIndex`` (rollback: no entry).
"""

from collections.abc import Iterator
from typing import Final

from broker.common.sysflag import TRANSACTION_ROLLBACK
from broker.common.topic import SELF_TEST_TOPIC
from broker.message.message import MessageExt
from broker.message.record import MAGIC_V1, MIN_RECORD_SIZE, encode_record

TOPIC: Final = SELF_TEST_TOPIC
# Shortest filler in bytes: a record with a topic of one byte and no body.
LEAST: Final = MIN_RECORD_SIZE + 1
# Java reads a whole record into memory; 4 MiB is the default maximum message size.
MAX_FILLER_BYTES: Final = 4 << 20


def encode_filler(length: int, physical_offset: int, store_timestamp: int, why: str) -> bytes:
    """Encode a filler of exactly ``length`` bytes for ``physical_offset``.

    ``store_timestamp`` (ms) is that of an adjacent record, so that searches by time still work.
    """
    topic = TOPIC if length >= MIN_RECORD_SIZE + len(TOPIC) else "F"
    room = length - MIN_RECORD_SIZE - len(topic)
    message = MessageExt(
        topic,
        why.encode("utf-8", "replace")[:room].ljust(room, b"\0"),
        magic=MAGIC_V1,
        physical_offset=physical_offset,
        sys_flag=TRANSACTION_ROLLBACK,
        born_timestamp=store_timestamp,
        store_timestamp=store_timestamp,
    )
    data = encode_record(message)
    assert len(data) == length
    return data


def fillers(begin: int, end: int, store_timestamp: int, why: str) -> Iterator[tuple[int, bytes]]:
    """Yield fillers that cover ``[begin, end)`` of the log, as (physical offset, bytes).

    Yields none if the region is shorter than :data:`LEAST`.
    """
    while end - begin >= LEAST:
        length = min(end - begin, MAX_FILLER_BYTES)
        if 0 < end - begin - length < LEAST:
            length -= LEAST
        yield begin, encode_filler(length, begin, store_timestamp, why)
        begin += length
