"""ConsumeQueue files: the CommitLog records of a message queue, in queue order.

SimpleCQ unit, 20 bytes; the unit of queue offset q is located at byte q x 20 of the file sequence::

     0          8      12          20
    | physical | size | tagsCode    |

All zeros: not written yet. Size 7FFFFFFF at physical offset 0: filler unit before the first message
of a queue that does not start at 0 (pre-blank). Batch units (46 bytes, 5.x) count the messages of
inner batches and are found by binary search, not by position. Extension units contain data that
does not fit into tagsCode; tagsCode is then their address.

**Source:** RocketMQ ``ConsumeQueue``, ``BatchConsumeQueue``, ``ConsumeQueueExt``.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.common.java import INT16_MAX, parse_number, string_hash
from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.message.message import PROPERTY_INNER_NUM, PROPERTY_TAGS
from broker.message.properties import peek_property
from broker.message.record import Buffer
from broker.store.format.commitlog import Damage, file_name
from broker.store.format.table import Layout, rows

FILE_NAME_MAX_BYTES: Final = 255
"""Maximum length of a file or directory name on Linux file systems."""

UNIT: Final = Layout(
    name="consumequeue",
    title="ConsumeQueue unit",
    path="consumequeue/<topic>/<queue>/<start>",
    fields=rows(
        ("physicalOffset", "long", 8, "physical offset of the record"),
        ("size", "int", 4, "length of the record; 7FFFFFFF in a pre-blank unit"),
        (
            "tagsCode",
            "long",
            8,
            "hash of TAGS, 0 without; time of delivery (delay topic); address of an ext unit",
        ),
    ),
    notes=(
        "Queue offset q is located at byte q x 20; a file is named after its first byte.",
        "All zeros: not written. 0, 7FFFFFFF, 0: filler before a queue's first message.",
    ),
)
BATCH_UNIT: Final = Layout(
    name="batchconsumequeue",
    title="BatchConsumeQueue unit",
    path="batchconsumequeue/<topic>/<queue>/<start>",
    fields=rows(
        ("physicalOffset", "long", 8, "physical offset of the record", "5.0"),
        ("size", "int", 4, "length of the record", "5.0"),
        ("tagsCode", "long", 8, "hash of TAGS", "5.0"),
        ("storeTimestamp", "long", 8, "storeTimestamp of the record, ms", "5.0"),
        ("baseOffset", "long", 8, "queue offset of the first message in it", "5.0"),
        ("batchSize", "short", 2, "messages in it", "5.0"),
        ("compactedOffset", "int", 4, "place in the compaction log, -1 for none", "5.0"),
        ("reserved", "int", 4, "0", "5.0"),
    ),
    notes=(
        "Files are named after the byte position of their first unit.",
        "A queue offset is found by binary search on base_offset.",
    ),
)
EXT_UNIT: Final = Layout(
    name="consumequeue_ext",
    title="ConsumeQueue extension unit",
    path="consumequeue_ext/<topic>/<queue>/<start>",
    fields=rows(
        ("size", "short", 2, "length of the unit, 20 + length of the bit map"),
        ("tagsCode", "long", 8, "hash of TAGS"),
        ("storeTimestamp", "long", 8, "storeTimestamp of the record, ms"),
        ("bitMapSize", "short", 2, "length of the bit map in bytes"),
        ("bitMap", "bytes", 0, "Bloom bits of the groups whose SQL92 filter matched"),
    ),
    notes=(
        "Address in ConsumeQueue tagsCode: byte offset - 2^63.",
        "A file ends with the short -1 where the next unit and 4 bytes do not fit.",
    ),
)

UNIT_SIZE: Final = UNIT.size
UNITS_PER_FILE: Final = 300_000
FILE_SIZE: Final = UNITS_PER_FILE * UNIT_SIZE  # mappedFileSizeConsumeQueue
UNIT_STRUCT: Final = UNIT.packer()
PRE_BLANK_SIZE: Final = 0x7FFFFFFF
PRE_BLANK: Final = UNIT_STRUCT.pack(0, PRE_BLANK_SIZE, 0)

NO_UNIT: Final = UNIT_STRUCT.pack((1 << 63) - 1, 0, 0)
"""First bytes of a file without units. A Java broker that starts after a kill takes zeros there
for a unit, and does not respond to a pull of it; it deletes a file whose first physical offset is
not in the log.

**Source:** RocketMQ ConsumeQueue#truncateDirtyLogicFiles.
"""
_NO_UNIT: Final = UNIT_STRUCT.unpack(NO_UNIT)

BATCH_UNIT_SIZE: Final = BATCH_UNIT.size
BATCH_FILE_SIZE: Final = 300_000 * BATCH_UNIT_SIZE
BATCH_UNIT_STRUCT: Final = BATCH_UNIT.packer()

EXT_HEAD_SIZE: Final = EXT_UNIT.size
EXT_FILE_SIZE: Final = 48 << 20
EXT_END: Final = b"\xff\xff"
EXT_END_LEFT: Final = 4
EXT_LARGEST_UNIT: Final = 32_767
_EXT_HEAD = EXT_UNIT.packer()
_TAGS: Final = PROPERTY_TAGS.encode()
_TAGS_MARK: Final = _TAGS + b"\x01"
_LATER_TAGS_MARK: Final = b"\x02" + _TAGS_MARK  # not the first property
_LATER_TAGS_SIZE: Final = len(_LATER_TAGS_MARK)
_INNER_NUM: Final = PROPERTY_INNER_NUM.encode()
# A tagsCode at or below this is an extension address: no 32-bit hash is that low.
EXT_ADDRESS_MAX: Final = -(1 << 31) - 1


class ConsumeQueueUnit(NamedTuple):
    """A SimpleCQ unit: physical offset and length of the record, tags code."""

    physical_offset: int
    size: int
    tags_code: int


class BatchConsumeQueueUnit(NamedTuple):
    """A batch unit: ``base_offset`` is the queue offset of the first of ``batch_size`` messages."""

    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    base_offset: int
    batch_size: int = 1
    compacted_offset: int = -1
    reserved: int = 0


class ConsumeQueueExtUnit(NamedTuple):
    """An extension unit."""

    tags_code: int
    store_timestamp: int
    bit_map: bytes = b""


def tags_code(tags: str | bytes | None) -> int:
    """Signed tags code of a TAGS value (UTF-8 if bytes); 0 if it is empty or None.

    **Source:** RocketMQ ``MessageExtBrokerInner#tagsString2tagsCode`` (Java ``String#hashCode``).
    """
    return string_hash(tags) if tags else 0


def peek_tags(properties: bytes) -> bytes:
    """The TAGS of an encoded property string, empty without; faster than peek_property."""
    at = properties.rfind(_LATER_TAGS_MARK) + _LATER_TAGS_SIZE
    if at >= _LATER_TAGS_SIZE or (at := properties.startswith(_TAGS_MARK) * len(_TAGS_MARK)):
        end = properties.find(b"\x02", at)
        if end > at:
            return properties[at:end]
        return peek_property(properties, _TAGS) or b""
    return b""


def peek_inner_count(properties: bytes) -> int | None:
    """Number of messages in an inner batch record; None if INNER_NUM is not 1 to 32767.

    **Source:** RocketMQ CommitLog#getMessageNum (a short).
    """
    text = peek_property(properties, _INNER_NUM)
    return None if text is None else parse_number(text, 1, INT16_MAX)


def place_of(queue_offset: int, file_size: int = FILE_SIZE) -> tuple[str, int]:
    """File name, and position in that file, of the unit of a queue offset."""
    at = queue_offset * UNIT_SIZE
    return file_name(at - at % file_size), at % file_size


def decode_unit(buf: Buffer, position: int = 0) -> ConsumeQueueUnit:
    """Decode the SimpleCQ unit at ``position``; RemoteProtocolError if it is truncated."""
    if len(buf) - position < UNIT_SIZE:
        raise RemoteProtocolError("ConsumeQueue unit is cut off", position=position)
    return ConsumeQueueUnit._make(UNIT_STRUCT.unpack_from(buf, position))


def is_pre_blank(unit: ConsumeQueueUnit) -> bool:
    """Return whether a unit is a filler before the queue's first message."""
    return unit.size == PRE_BLANK_SIZE and unit.physical_offset == 0


def encode_fillers(count: int) -> bytes:
    """Encode ``count`` pre-blank units."""
    return PRE_BLANK * count


def holds_unit(data: bytes) -> bool:
    """Whether the bytes at the position of a unit are neither zeros nor :data:`NO_UNIT`."""
    return any(data) and data != NO_UNIT


def scan_units(
    buf: Buffer, first_queue_offset: int = 0, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, ConsumeQueueUnit] | Damage]:
    """The units of one file as (queue offset, unit), fillers included, up to the first empty one.

    ``first_queue_offset`` is the queue offset of the buffer's first unit, ``start`` and ``end`` are
    file positions. A unit with a negative offset or a length <= 0 yields a Damage of kind ``unit``,
    an incomplete unit at the end one of kind ``truncated``. Their ``physical_offset`` field is not
    a CommitLog offset but the byte position in the queue's file sequence.
    """
    if end is None:
        end = len(buf)
    unpack = UNIT_STRUCT.unpack_from
    base = first_queue_offset * UNIT_SIZE
    for position in range(start, end - UNIT_SIZE + 1, UNIT_SIZE):
        unit = ConsumeQueueUnit._make(unpack(buf, position))
        if unit.size > 0 and unit.physical_offset >= 0:
            yield first_queue_offset + position // UNIT_SIZE, unit
        elif unit == (0, 0, 0) or (position == 0 and unit == _NO_UNIT):
            return
        else:
            yield Damage(
                kind="unit",
                physical_offset=base + position,
                length=UNIT_SIZE,
                detail=f"unit has physical offset {unit.physical_offset}, size {unit.size}",
            )
    rest = (end - start) % UNIT_SIZE
    if rest:
        yield Damage(
            kind="truncated",
            physical_offset=base + end - rest,
            length=rest,
            detail=f"{rest} bytes at the end are not a whole unit",
        )


def decode_batch_unit(buf: Buffer, position: int = 0) -> BatchConsumeQueueUnit:
    """Decode the batch unit at ``position``; RemoteProtocolError if it is truncated."""
    if len(buf) - position < BATCH_UNIT_SIZE:
        raise RemoteProtocolError("BatchConsumeQueue unit is cut off", position=position)
    return BatchConsumeQueueUnit._make(BATCH_UNIT_STRUCT.unpack_from(buf, position))


def scan_batch_units(
    buf: Buffer, base: int = 0, end: int | None = None
) -> Iterator[BatchConsumeQueueUnit | Damage]:
    """The batch units of one file up to the first empty one; ``base`` is the file's start.

    Valid units have physical offset and base offset >= 0, size and batch size > 0. Others yield a
    Damage as in :func:`scan_units`.
    """
    if end is None:
        end = len(buf)
    for position in range(0, end - BATCH_UNIT_SIZE + 1, BATCH_UNIT_SIZE):
        unit = BatchConsumeQueueUnit._make(BATCH_UNIT_STRUCT.unpack_from(buf, position))
        whole = unit.physical_offset >= 0 and unit.size > 0
        if whole and unit.base_offset >= 0 and unit.batch_size > 0:
            yield unit
        elif not any(unit):
            return
        else:
            yield Damage(
                kind="unit",
                physical_offset=base + position,
                length=BATCH_UNIT_SIZE,
                detail=f"batch unit has physical offset {unit.physical_offset}, size {unit.size},"
                f" base offset {unit.base_offset}, batch size {unit.batch_size}",
            )
    rest = end % BATCH_UNIT_SIZE
    if rest:
        yield Damage(
            kind="truncated",
            physical_offset=base + end - rest,
            length=rest,
            detail=f"{rest} bytes at the end are not a whole unit",
        )


def is_ext_address(code: int) -> bool:
    """Return whether a tags code is the address of an extension unit.

    **Source:** RocketMQ ``ConsumeQueueExt#isExtAddr``.
    """
    return code <= EXT_ADDRESS_MAX


def ext_address(offset: int) -> int:
    """The tags code that refers to the extension unit at byte ``offset`` of the queue."""
    return offset - (1 << 63)


def ext_offset(code: int) -> int:
    """The byte offset to which an extension address refers."""
    return code + (1 << 63)


def encode_ext_unit(unit: ConsumeQueueExtUnit) -> bytes:
    """Encode an extension unit; LocalProtocolError if the bit map is too long."""
    size = EXT_HEAD_SIZE + len(unit.bit_map)
    if size > EXT_LARGEST_UNIT:
        raise LocalProtocolError(f"extension unit of {size} bytes, {EXT_LARGEST_UNIT} is the most")
    head = _EXT_HEAD.pack(size, unit.tags_code, unit.store_timestamp, len(unit.bit_map))
    return head + unit.bit_map


def decode_ext_unit(buf: Buffer, position: int = 0) -> ConsumeQueueExtUnit:
    """Decode the extension unit at ``position``; RemoteProtocolError if there is none."""
    left = len(buf) - position
    if left >= EXT_HEAD_SIZE:
        size, code, stored, bits = _EXT_HEAD.unpack_from(buf, position)
        if size == EXT_HEAD_SIZE + bits <= left and bits >= 0:
            start = position + EXT_HEAD_SIZE
            return ConsumeQueueExtUnit(code, stored, bytes(buf[start : start + bits]))
    raise RemoteProtocolError("no ConsumeQueue extension unit here", position=position)


def scan_ext_units(
    buf: Buffer, base: int = 0, end: int | None = None
) -> Iterator[tuple[int, ConsumeQueueExtUnit] | Damage]:
    """The extension units of one file as (byte offset in the queue, unit), up to its end marker.

    A corrupt unit yields a Damage that covers the rest of the file: without its size the next
    unit cannot be found.
    """
    if end is None:
        end = len(buf)
    position = 0
    while end - position >= len(EXT_END):
        size = int.from_bytes(buf[position : position + 2], "big", signed=True)
        if size in (-1, 0):
            return
        try:
            unit = decode_ext_unit(buf, position)
        except RemoteProtocolError as error:
            yield Damage(
                kind="unit",
                physical_offset=base + position,
                length=end - position,
                detail=error.message,
                at_end=True,
            )
            return
        yield base + position, unit
        position += size


def is_queue_name(name: bytes) -> bool:
    """Return whether the name of a topic or LMQ is a valid directory name.

    **Source:** no Java counterpart; RocketMQ fails when it creates the directory.
    """
    return (
        0 < len(name) <= FILE_NAME_MAX_BYTES
        and name not in (b".", b"..")
        and b"/" not in name
        and b"\0" not in name
    )
