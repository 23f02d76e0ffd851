"""The layouts of the two frames of the HA connection, and the records in their bodies.

``broker.store.ha.frames`` codes the frames.

**Source:** RocketMQ DefaultHAConnection, DefaultHAClient.
"""

from struct import Struct
from typing import Final, NamedTuple

from broker.message.record import (
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH_SIZE,
    PROPERTY_CRC_NAME,
    PROPERTY_CRC_SIZE,
    body_crc,
)
from broker.store.format.commitlog import (
    RECORD_LEAST,
    SHAPE_AT,
    SHAPES,
    peek_dispatch_fields,
)
from broker.store.format.table import Layout, rows

_SHORT: Final = Struct(">H")

REPORT: Final = Layout(
    name="ha-report",
    title="HA report, slave to master",
    path="HA connection (haListenPort)",
    fields=rows(("maxOffset", "long", 8, "next physical offset of the slave, bytes")),
    notes=("Sent after the connection is open, after each append, and every 5 s.",),
)
TRANSFER: Final = Layout(
    name="ha-transfer",
    title="HA transfer header, master to slave",
    path="HA connection (haListenPort)",
    fields=rows(
        ("physicalOffset", "long", 8, "physical offset of the first byte of the body"),
        ("bodyLength", "int", 4, "bytes of the body that follows; 0 in a heartbeat"),
    ),
    notes=("The body is a part of the CommitLog, unchanged.",),
)


class ReplicatedRecord(NamedTuple):
    """Fields of a record that dispatch needs; ``topic`` and ``properties`` are encoded."""

    physical_offset: int
    size: int
    store_timestamp: int
    sys_flag: int
    queue_offset: int
    queue_id: int
    topic: bytes
    properties: bytes


def decode_replicated(data: bytes, position: int, physical_offset: int) -> ReplicatedRecord:
    """Decode the record at ``position``, which ``check_record`` must have accepted."""
    size, queue_id, queue_offset, sys_flag, stored, topic, properties = peek_dispatch_fields(
        data, position
    )
    return ReplicatedRecord(
        *(physical_offset, size, stored, sys_flag, queue_offset, queue_id, topic, properties)
    )


def peek_replicated(data: bytes, position: int, physical_offset: int) -> ReplicatedRecord | None:
    """Validate and decode the record at ``position`` in one pass; None unless it is intact.

    An intact record is complete in ``data``, has the given offset as its own, and its lengths and
    body CRC are right. None also for a record with a property CRC: ``check_record`` decides about
    all others and returns the reason. This function takes half the time of the four that read a
    record field by field, and the acknowledgement of each record waits for it.
    """
    end = len(data)
    if end - position < RECORD_LEAST:
        return None
    shape = SHAPES[data[position + SHAPE_AT] >> 4 & 3]
    if end - position < shape.least:
        return None
    size, magic, crc, queue_id, queue_offset, own_offset, sys_flag, stored, _, length = (
        shape.head.unpack_from(data, position)
    )
    body = position + shape.payload_at
    at = body + length
    stop = position + size
    if own_offset != physical_offset or size < shape.least or length < 0 or stop > end:
        return None
    # A position after the end of the record fails the comparison of the lengths.
    if magic == MAGIC_V1 and at < stop:
        topic = at + 1
        topic_end = topic + data[at]
    elif magic == MAGIC_V2 and at + 1 < stop:
        topic = at + 2
        topic_end = topic + _SHORT.unpack_from(data, at)[0]
    else:
        return None
    properties = topic_end + PROPERTIES_LENGTH_SIZE
    if properties > stop or properties + _SHORT.unpack_from(data, topic_end)[0] != stop:
        return None
    if data.startswith(PROPERTY_CRC_NAME, stop - PROPERTY_CRC_SIZE):
        return None
    if length and body_crc(data[body:at]) != crc:
        return None
    return tuple.__new__(  # half the cost of a call of the type
        ReplicatedRecord,
        (
            physical_offset,
            size,
            stored,
            sys_flag,
            queue_offset,
            queue_id,
            data[topic:topic_end],
            data[properties:stop],
        ),
    )
