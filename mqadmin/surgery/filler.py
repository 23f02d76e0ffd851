"""Filler records: what covers a part of the log that cannot be read any more.

A filler is a whole record whose checksum is right and whose transaction type is "rollback": walks
go over it, and no broker puts it into a queue or the index. Its body says what it covers.

**Source:** RocketMQ ``CommitLogDispatcherBuildConsumeQueue`` (rollback: nothing),
``IndexService#buildIndex`` (rollback: nothing).
"""

from collections.abc import Iterator
from typing import Final

from broker.common.sysflag import TRANSACTION_ROLLBACK
from broker.common.topic import SELF_TEST_TOPIC
from broker.message.message import MessageExt
from broker.message.record import MAGIC_V1, MIN_RECORD_SIZE, encode_record

TOPIC: Final = SELF_TEST_TOPIC
# The shortest filler; no record that brokers write is much shorter.
LEAST: Final = MIN_RECORD_SIZE + 1
# Java reads a record into memory whole; 4 MiB is the largest message by default.
MOST: Final = 4 << 20


def encode_filler(length: int, physical_offset: int, store_timestamp: int, why: str) -> bytes:
    """A filler of exactly ``length`` bytes at ``physical_offset``.

    ``store_timestamp`` is that of a record near it, so that searches by time go on working.
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
    """Fillers that cover ``[begin, end)`` of the log, as (physical offset, bytes).

    Nothing if the part is too short for one: see :data:`LEAST`.
    """
    while end - begin >= LEAST:
        length = min(end - begin, MOST)
        if 0 < end - begin - length < LEAST:
            length -= LEAST
        yield begin, encode_filler(length, begin, store_timestamp, why)
        begin += length
