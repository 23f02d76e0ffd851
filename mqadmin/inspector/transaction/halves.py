"""List the transactions of a store that are open or were given up.

A half message is open if its queue offset is at or after the offset of group CID_RMQ_SYS_TRANS in
the half queue and no op record at or after that group's offset in the op queue lists it.

**Source:** RocketMQ TransactionalMessageServiceImpl#check.
"""

from collections.abc import Iterator
from typing import Final

from broker.common.group import SYS_TRANS_GROUP
from broker.common.topic import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from broker.errors import RemoteProtocolError
from broker.message.message import MessageExt
from broker.message.record import decode_record
from broker.message.transaction import REMOVE_TAG, decode_op_body
from mqadmin.inspector.configs import committed_offsets
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.queries.queues import live_units
from mqadmin.transaction_row import DISCARDED, OPEN, TransactionRow, transaction_row

MAX_WINDOW: Final = 1 << 27  # half messages after the committed offset: 16 MiB of bits


def transaction_rows(store: StoreDirectory, *, now_ms: int) -> Iterator[TransactionRow]:
    """Yield open half messages by queue offset, then discarded ones; ages are at ``now_ms``.

    After a kill the older copy of a checked half message may be listed with the newest one.
    """
    half_offset, op_offset = _offsets(store)
    name = store.broker_name()
    with LogReader(store) as log:
        decided = _decided(store, log, half_offset, op_offset)
        for message in _records(store, log, TRANS_HALF_TOPIC, half_offset):
            place = message.queue_offset - half_offset
            if place >> 3 >= len(decided) or not decided[place >> 3] >> (place & 7) & 1:
                yield transaction_row(message, name, OPEN, now_ms)
        for message in _records(store, log, TRANS_CHECK_MAX_TIME_TOPIC, 0):
            yield transaction_row(message, name, DISCARDED, now_ms)


def _offsets(store: StoreDirectory) -> tuple[int, int]:
    """Return the committed offsets of half and op queue, 0 where the file has none."""
    table = committed_offsets(store)
    found = [
        table.get(f"{topic}@{SYS_TRANS_GROUP}", {}).get(0, 0)
        for topic in (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
    ]
    return max(found[0], 0), max(found[1], 0)


def _decided(store: StoreDirectory, log: LogReader, half_offset: int, op_offset: int) -> bytearray:
    """Return one bit per half message from ``half_offset`` on: whether an op record lists it."""
    bits = bytearray()
    for message in _records(store, log, TRANS_OP_HALF_TOPIC, op_offset):
        if message.tags != REMOVE_TAG:
            continue
        for offset in decode_op_body(message.body):
            place = offset - half_offset
            if not 0 <= place < MAX_WINDOW:
                continue
            if place >> 3 >= len(bits):
                bits.extend(bytes((place >> 3) + 1 - len(bits)))
            bits[place >> 3] |= 1 << (place & 7)
    return bits


def _records(store: StoreDirectory, log: LogReader, topic: str, first: int) -> Iterator[MessageExt]:
    """Yield the readable records of queue 0 of a topic from a queue offset on."""
    for queue in store.queue_files(topic, 0):
        for unit in live_units(queue, log):
            if unit.queue_offset < first:
                continue
            place = log.record(unit.physical_offset)
            if place is None:
                continue
            try:
                message = decode_record(place[0].data, place[1].position)
            except RemoteProtocolError:
                continue
            if message.topic == topic and message.queue_offset == unit.queue_offset:
                yield message
