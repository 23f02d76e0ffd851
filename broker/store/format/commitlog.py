"""CommitLog files: file names, the blank record at the end, the scanner of records.

A CommitLog is a sequence of files of equal size; the file name is the physical offset of its first
byte, in 20 digits. Records follow each other without gaps and never span files::

    | record | record | ... | record | blank: rest length 4, CBD43194 4 | remains |
    0                                                                   file size

A record is written only if 8 bytes remain after it, so every full file ends with a blank record.
Past the end of the log a file contains zeros, or old bytes from before a truncation.

:func:`scan_commitlog` yields records and corruption (:class:`Damage`). After corruption it searches
for the next record by magic code and stored physical offset. The caller decides whether to
continue. The compiled and the counting scanners use it for everything but intact records; recovery
and dispatch read with :func:`check_record` and :func:`peek_dispatch_fields` (see
:mod:`broker.store` for the reason).

**Source:** RocketMQ ``CommitLog`` (``checkMessageAndReturnSize``, ``DefaultAppendMessageCallback``)
and ``MappedFileQueue``.
"""

import re
from collections.abc import Iterator
from struct import Struct
from typing import Final

import msgspec
from msgspec import structs

from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.message.message import MessageExt
from broker.message.record import (
    FIXED_SIZES,
    HOST_SHAPES,
    HOST_V6_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    PROPERTIES_LENGTH_SIZE,
    PROPERTY_CRC_NAME,
    PROPERTY_CRC_SIZE,
    RECORD_LAYOUT,
    body_crc,
    check_property_crc,
    decode_record,
)
from broker.message.record import Buffer as Buffer
from broker.store.format.table import Layout, rows

FILE_SIZE: Final = 1 << 30  # mappedFileSizeCommitLog
NAME_DIGITS: Final = 20
BLANK_SIZE: Final = 8

RECORD: Final = Layout(
    name="record",
    title="CommitLog record",
    path="commitlog/<start>",
    fields=RECORD_LAYOUT,
    notes=(
        "Hosts: IPv4 address 4 and port 4, or IPv6 address 16 and port 4 where sysFlag has 0x10",
        "(bornHost) or 0x20 (storeHost). The offsets given are those of two IPv4 hosts.",
        "bodyCRC is CRC-32 of the stored body with the top bit cleared, 0 for an empty body.",
        "topicLength takes 1 byte under magic DAA320A7, 2 bytes under DAA320AB.",
    ),
)
BLANK: Final = Layout(
    name="blank",
    path="commitlog/<start>",
    title="Blank record at the end of a CommitLog file",
    fields=rows(
        ("totalSize", "int", 4, "bytes left in the file, this field included"),
        ("magicCode", "uint", 4, "CBD43194"),
    ),
    notes=(
        "Written instead of a record of length L where L + 8 is more than the bytes left.",
        "Only these 8 bytes are written; the rest of the file is unchanged.",
    ),
)

_BLANK = BLANK.packer()
_HEAD = RECORD.packer("totalSize", "magicCode")
_OWN_OFFSET = RECORD.packer("physicalOffset")
# (buf, position) -> the size and the physical offset stored in the record at ``position``. Not a
# function: pulls call it for each record that they read first.
own_extent: Final = RECORD.packer("totalSize", "physicalOffset").unpack_from
_SHORT = Struct(">H")
_CRC_NAME_SIZE = len(PROPERTY_CRC_NAME)
SHAPE_AT = RECORD.offset("sysFlag") + 3  # byte with the host shape (IPv4 or IPv6): bits 4 and 5

# Results of check_record for bytes that are not an intact record, else a length (-8: lost_sectors).
BLANK_HERE: Final = 0
NOT_WRITTEN: Final = -1
BAD_MAGIC: Final = -2
BAD_SIZE: Final = -3
TRUNCATED: Final = -4
BAD_LENGTHS: Final = -5
BAD_CRC: Final = -6
BAD_PROPERTY_CRC: Final = -7
BAD_BLANK: Final = -9

# kind -> meaning: the kinds of Damage in a CommitLog.
DAMAGE_KINDS: Final = {
    "magic": "neither a record nor a blank record starts here",
    "size": "the length of the record is impossible",
    "truncated": "the file ends within the record",
    "lengths": "body, topic and properties do not fill the record",
    "crc": "the body is not the one that was stored",
    "propertyCrc": "the record is not the one that was stored (CRC kept in its properties)",
    "position": "the physical offset in the record differs from its position",
    "content": "a text within the record cannot be decoded",
    "blank": "a blank record does not reach to the end of its file",
    "hole": "zeros between records",
}
_KIND_OF = {
    NOT_WRITTEN: "hole",
    BAD_MAGIC: "magic",
    BAD_SIZE: "size",
    TRUNCATED: "truncated",
    BAD_LENGTHS: "lengths",
    BAD_CRC: "crc",
    BAD_PROPERTY_CRC: "propertyCrc",
    BAD_BLANK: "blank",
}

# A run of zeros of this length ends the reported region of a torn write at the log's end.
_PAGE = 4096
# Position of the magic code in records and blank records, and the codes as stored. A search for
# records looks for the bytes that both codes share, then checks the whole record.
MAGIC_AT: Final = RECORD.offset("magicCode")
_MAGICS = (MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big"))
_BLANK_MAGIC = MAGIC_BLANK.to_bytes(4, "big")
MAGIC_PREFIX: Final = _MAGICS[0][:3]
RECORD_MAGICS: Final = re.compile(b"|".join(map(re.escape, _MAGICS)))
_STARTS = re.compile(b"|".join(map(re.escape, (*_MAGICS, _BLANK_MAGIC))))
_NOT_ZERO = re.compile(rb"[^\0]")
_BLOCK = 1 << 16
_ZEROS = bytes(_BLOCK)


_DISPATCH_FIELDS = (
    *("totalSize", "magicCode", "queueId", "queueOffset", "sysFlag", "storeTimestamp"),
    "bodyLength",
)


class Shape:
    """Field positions within a record of one host shape (``sysFlag >> 4 & 3``)."""

    __slots__ = ("dispatch", "head", "least", "payload_at", "store_time_at", "walk")

    def __init__(self, shape: int) -> None:
        """Compute the positions for ``shape``: bit 0 is an IPv6 born host, bit 1 store host."""
        wide = {"bornHost": shape & 1, "storeHost": shape & 2}
        layout = Layout(
            name="record",
            title="",
            fields=tuple(
                structs.replace(field, width=HOST_V6_SIZE if wide.get(field.name) else field.width)
                for field in RECORD.fields
            ),
        )
        self.payload_at = FIXED_SIZES[shape]
        self.store_time_at = layout.offset("storeTimestamp")
        # topicLength (1) and propertiesLength (2) follow even if all variable fields are empty.
        self.least = self.payload_at + 3
        self.head = layout.packer(
            "totalSize",
            "magicCode",
            "bodyCRC",
            "queueId",
            "queueOffset",
            "physicalOffset",
            "sysFlag",
            "storeTimestamp",
            "preparedTransactionOffset",
            "bodyLength",
        )
        self.dispatch = layout.packer(*_DISPATCH_FIELDS)
        self.walk = layout.packer(
            "totalSize", "magicCode", "queueId", "physicalOffset", "sysFlag", "bodyLength"
        )


SHAPES = tuple(Shape(shape) for shape in range(HOST_SHAPES))
RECORD_LEAST: Final = MIN_RECORD_SIZE
LARGEST_HEAD: Final = max(FIXED_SIZES)


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One complete record: the fields needed for dispatch, and the message if requested.

    ``position`` and ``body_position`` count from the buffer's first byte. ``physical_offset`` is
    the actual offset in the log (base + position), ``own_offset`` the one stored in the record.
    """

    position: int
    physical_offset: int
    own_offset: int
    total_size: int
    magic: int
    body_crc: int
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    prepared_transaction_offset: int
    body_position: int
    body_length: int
    topic: bytes
    properties: bytes
    message: MessageExt | None = None


class Blank(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The blank record that ends a file: its physical offset and the bytes to the end of file."""

    physical_offset: int
    length: int


class Unwritten(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The end of the log: zeros, and no record after them up to the end of the file."""

    physical_offset: int
    length: int


class Damage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A damaged region; ``kind`` is a key of DAMAGE_KINDS, or ``unit`` in ConsumeQueue files.

    ``length`` extends to the next plausible record. ``at_end``: no such record exists, as after a
    torn write at the end of the log. ``record`` is set if its fields can be read in spite of the
    corruption (kinds crc, propertyCrc, position, content).
    """

    kind: str
    physical_offset: int
    length: int
    detail: str
    at_end: bool = False
    record: LogRecord | None = None


def file_name(start: int) -> str:
    """The name of the file that starts at physical offset (or queue byte) ``start``.

    **Source:** RocketMQ ``UtilAll#offset2FileName``.
    """
    if start < 0:
        raise LocalProtocolError(f"no file starts at {start}")
    return f"{start:0{NAME_DIGITS}d}"


def file_start(name: str) -> int | None:
    """The start offset in a file name, None if the name does not have 20 digits."""
    return int(name) if len(name) == NAME_DIGITS and name.isascii() and name.isdigit() else None


def fits(total_size: int, left: int) -> bool:
    """Return whether a record fits into a file with ``left`` bytes left, blank record included."""
    return total_size + BLANK_SIZE <= left


def encode_blank(left: int) -> bytes:
    """Encode the 8 bytes that end a file with ``left`` bytes left."""
    if left < BLANK_SIZE:
        raise LocalProtocolError(f"a blank record needs {BLANK_SIZE} bytes, {left} are left")
    return _BLANK.pack(left, MAGIC_BLANK)


def decode_blank(buf: Buffer, position: int = 0) -> int:
    """The length in the blank record at ``position``; RemoteProtocolError if there is none."""
    if len(buf) - position >= BLANK_SIZE:
        length, magic = _BLANK.unpack_from(buf, position)
        if magic == MAGIC_BLANK and length >= BLANK_SIZE:
            return int(length)
    raise RemoteProtocolError("no blank record here", position=position)


def check_record(
    buf: Buffer, position: int, end: int | None = None, *, check_crc: bool = True
) -> int:
    """Length of the record at ``position``, or one of the status constants above.

    ``end`` is the end of the file (default: of the buffer), to which a blank record must extend.
    :func:`own_offset` is not checked. The order of the checks is Java's; an empty body has no CRC.

    **Source:** RocketMQ ``CommitLog#checkMessageAndReturnSize``.
    """
    if end is None:
        end = len(buf)
    if end - position < BLANK_SIZE:
        return TRUNCATED
    size, magic = _HEAD.unpack_from(buf, position)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        if magic == MAGIC_BLANK:  # Java accepts any length: one damaged magic hides later records
            return BLANK_HERE if size == end - position else BAD_BLANK
        return NOT_WRITTEN if size == 0 and magic == 0 else BAD_MAGIC
    if size < RECORD_LEAST:
        return BAD_SIZE
    stop: int = position + size
    if stop > end:
        return TRUNCATED
    shape = SHAPES[buf[position + SHAPE_AT] >> 4 & 3]
    if size < shape.least:
        return BAD_LENGTHS
    head = shape.head.unpack_from(buf, position)
    body = position + shape.payload_at
    topic = body + head[-1]
    wide = 2 if magic == MAGIC_V2 else 1
    # Lengths are untrusted: each is compared before it is used as a position.
    if head[-1] < 0 or topic + wide > stop:
        return BAD_LENGTHS
    properties = topic + wide + int.from_bytes(buf[topic : topic + wide], "big")
    if properties + 2 > stop:
        return BAD_LENGTHS
    if properties + 2 + _SHORT.unpack_from(buf, properties)[0] != stop:
        return BAD_LENGTHS
    return _crc_status(buf, position, stop, head[2], (body, topic)) if check_crc else int(size)


def _crc_status(buf: Buffer, position: int, stop: int, stored: int, body: tuple[int, int]) -> int:
    """The record's length if body CRC and property CRC match, else a status constant."""
    start, end = body
    if start < end:
        with memoryview(buf) as view, view[start:end] as part:
            if body_crc(part) != stored:
                return BAD_CRC
    # Few records have a property CRC: look for its name before the record is sliced.
    at = stop - PROPERTY_CRC_SIZE
    if buf[at : at + _CRC_NAME_SIZE] == PROPERTY_CRC_NAME:
        with memoryview(buf) as view, view[position:stop] as part:
            if not check_property_crc(part):
                return BAD_PROPERTY_CRC
    return stop - position


def own_offset(buf: Buffer, position: int) -> int:
    """The physical offset stored in the record at ``position``."""
    return int(_OWN_OFFSET.unpack_from(buf, position)[0])


def store_timestamp(buf: Buffer, position: int) -> int:
    """The storeTimestamp (ms) of the record at ``position``.

    It is located at byte 56 of the record, or 68 if the born host is IPv6.
    """
    at = position + SHAPES[buf[position + SHAPE_AT] >> 4 & 3].store_time_at
    return int.from_bytes(buf[at : at + 8], "big", signed=True)


def topic_data(buf: Buffer, position: int) -> bytes:
    """The encoded topic of the record at ``position``, which check_record must have accepted."""
    body = position + SHAPES[buf[position + SHAPE_AT] >> 4 & 3].payload_at
    at = body + int.from_bytes(buf[body - 4 : body], "big")
    wide = 1 if buf[position + MAGIC_AT + 3] == _MAGICS[0][3] else 2
    start = at + wide
    return bytes(buf[start : start + int.from_bytes(buf[at:start], "big")])


def peek_store_timestamp(buf: Buffer, position: int) -> int:
    """:func:`store_timestamp`, or -1 if neither a magic code nor a whole header is there."""
    if len(buf) - position < LARGEST_HEAD or not RECORD_MAGICS.match(buf, position + MAGIC_AT):
        return -1
    return store_timestamp(buf, position)


def read_record(
    buf: Buffer, position: int, base_offset: int = 0, message: MessageExt | None = None
) -> LogRecord:
    """Decode the record at ``position``, which :func:`check_record` must have accepted.

    Body or property CRC may be wrong.
    """
    shape = SHAPES[buf[position + SHAPE_AT] >> 4 & 3]
    size, magic, crc, queue_id, queue_offset, own, sys_flag, stored, prepared, length = (
        shape.head.unpack_from(buf, position)
    )
    body = position + shape.payload_at
    wide = 2 if magic == MAGIC_V2 else 1
    topic = body + length + wide
    topic_end = topic + int.from_bytes(buf[topic - wide : topic], "big")
    return LogRecord(
        position=position,
        physical_offset=base_offset + position,
        own_offset=own,
        total_size=size,
        magic=magic,
        body_crc=crc,
        queue_id=queue_id,
        queue_offset=queue_offset,
        sys_flag=sys_flag,
        store_timestamp=stored,
        prepared_transaction_offset=prepared,
        body_position=body,
        body_length=length,
        topic=bytes(buf[topic:topic_end]),
        properties=bytes(buf[topic_end + 2 : position + size]),
        message=message,
    )


def peek_dispatch_fields(
    buf: Buffer, position: int
) -> tuple[int, int, int, int, int, bytes, bytes]:
    """(size, queueId, queueOffset, sysFlag, storeTimestamp, topic, properties) of a record.

    As :func:`read_record`, a third of its cost: recovery and dispatch need no more.
    """
    shape = SHAPES[buf[position + SHAPE_AT] >> 4 & 3]
    size, magic, queue_id, queue_offset, sys_flag, stored, length = shape.dispatch.unpack_from(
        buf, position
    )
    at = position + shape.payload_at + length
    start = at + (1 if magic == MAGIC_V1 else 2)
    end = start + (buf[at] if magic == MAGIC_V1 else int.from_bytes(buf[at:start], "big"))
    topic = bytes(buf[start:end])
    properties = bytes(buf[end + PROPERTIES_LENGTH_SIZE : position + size])
    return size, queue_id, queue_offset, sys_flag, stored, topic, properties


def is_plausible(buf: Buffer, position: int, base_offset: int) -> bool:
    """Return whether a complete record with a matching physical offset starts at ``position``."""
    return (
        check_record(buf, position, check_crc=False) > 0
        and own_offset(buf, position) == base_offset + position
    )


def resync(buf: Buffer, start: int, base_offset: int, end: int | None = None) -> int:
    """The first position from ``start`` on at which the log resumes, -1 if there is none.

    It resumes at a plausible record, or at a blank record that extends exactly to the end of the
    buffer. ``end`` bounds the search.
    """
    if end is None:
        end = len(buf)
    search = start + MAGIC_AT
    while search < end:
        stop = min(search + _BLOCK, end)
        # Skip zeros without the regex: the unused rest of a file may be a GiB of them.
        if bytes(buf[search:stop]) == _ZEROS[: stop - search]:
            search = stop
            continue
        # A magic code may cross the end of the block by 3 bytes.
        hit = _STARTS.search(buf, search, min(stop + 3, end))
        if hit is None:
            search = stop
            continue
        position = hit.start() - MAGIC_AT
        if hit[0] == _BLANK_MAGIC:
            if _HEAD.unpack_from(buf, position)[0] == len(buf) - position:
                return position
        elif is_plausible(buf, position, base_offset):
            return position
        search = hit.start() + 1
    return -1


def written_end(buf: Buffer, start: int, end: int | None = None) -> int:
    """The end of the written bytes from ``start`` on: a page of zeros (or ``end``) follows."""
    if end is None:
        end = len(buf)
    last = start
    while (hit := _NOT_ZERO.search(buf, last, min(last + _PAGE, end))) is not None:
        last = hit.end()
    return last


def scan_commitlog(
    buf: Buffer,
    base_offset: int,
    start: int = 0,
    end: int | None = None,
    *,
    check_crc: bool = True,
    decode: bool = True,
) -> Iterator[LogRecord | Blank | Unwritten | Damage]:
    """Scan one CommitLog file from position ``start`` on: records and damaged regions.

    ``buf`` is the file from its first byte and ``base_offset`` the physical offset of that byte.
    ``end`` is the position at which reading and searching stop; a record may extend past it. With
    ``decode`` each record has its message. The scan ends after the first Blank or Unwritten, or at
    ``end``. To stop at corruption, the caller stops iterating.
    """
    size = len(buf)
    if end is None:
        end = size
    position = start
    while position < end:
        status = check_record(buf, position, check_crc=check_crc)
        if status > 0:
            yield _whole(buf, position, base_offset, decode)
            position += status
            continue
        if status == BLANK_HERE:
            yield Blank(physical_offset=base_offset + position, length=size - position)
            return
        if status in (BAD_CRC, BAD_PROPERTY_CRC):
            damage = _bad_crc(buf, position, base_offset, status, decode)
            yield damage
            position += damage.length
            continue
        nearest = _next_start(buf, position, base_offset, end)
        if nearest < 0 and status == NOT_WRITTEN:
            yield Unwritten(physical_offset=base_offset + position, length=size - position)
            return
        stop = nearest if nearest >= 0 else max(written_end(buf, position, end), position + 1)
        yield Damage(
            kind=_KIND_OF[status],
            physical_offset=base_offset + position,
            length=stop - position,
            detail=_describe(buf, position, status),
            at_end=nearest < 0,
        )
        position = stop


def _next_start(buf: Buffer, position: int, base_offset: int, end: int) -> int:
    """Position at which the log resumes after corruption at ``position``, -1 if it does not.

    The length stored in the damaged record is tried first: a search by magic code could stop at a
    copy of a record within its body.
    """
    if len(buf) - position >= BLANK_SIZE:
        size, magic = _HEAD.unpack_from(buf, position)
        after = position + size
        if magic in (MAGIC_V1, MAGIC_V2) and size >= RECORD_LEAST and after + BLANK_SIZE <= end:
            next_size, next_magic = _HEAD.unpack_from(buf, after)
            if next_magic == MAGIC_BLANK and next_size == len(buf) - after:
                return int(after)
            if is_plausible(buf, after, base_offset):
                return int(after)
    return resync(buf, position + 1, base_offset, end)


def _whole(buf: Buffer, position: int, base_offset: int, decode: bool) -> LogRecord | Damage:
    message = None
    if decode:
        try:
            message = decode_record(buf, position)
        except RemoteProtocolError as error:
            record = read_record(buf, position, base_offset)
            return Damage(
                kind="content",
                physical_offset=record.physical_offset,
                length=record.total_size,
                detail=error.message,
                record=record,
            )
    record = read_record(buf, position, base_offset, message)
    if record.own_offset == record.physical_offset:
        return record
    return Damage(
        kind="position",
        physical_offset=record.physical_offset,
        length=record.total_size,
        detail=f"the record has physical offset {record.own_offset}",
        record=record,
    )


def _bad_crc(buf: Buffer, position: int, base_offset: int, status: int, decode: bool) -> Damage:
    found = _whole(buf, position, base_offset, decode)
    record = found if isinstance(found, LogRecord) else found.record
    assert record is not None
    if status == BAD_CRC:
        body = body_crc(
            bytes(buf[record.body_position : record.body_position + record.body_length])
        )
        detail = f"body CRC is {body:08x}, stored {record.body_crc:08x}"
    else:
        detail = "CRC of the record is not the one in its property __CRC32#"
    return Damage(
        kind=_KIND_OF[status],
        physical_offset=record.physical_offset,
        length=record.total_size,
        detail=detail,
        record=record,
    )


def _describe(buf: Buffer, position: int, status: int) -> str:
    """Describe the bytes at ``position`` for a Damage, according to their status."""
    left = len(buf) - position
    if left < BLANK_SIZE:
        return f"{left} bytes are left, no record or blank record fits"
    size, magic = _HEAD.unpack_from(buf, position)
    if status == BAD_MAGIC:
        return f"magic code {magic:08x}"
    if status == BAD_BLANK:
        return f"blank record of {size} bytes, {left} are left in the file"
    if status == NOT_WRITTEN:
        return "zeros followed by further records"
    if status == TRUNCATED:
        return f"record length {size}, {left} bytes are left in the file"
    if status == BAD_SIZE:
        return f"record length {size}, the least is {RECORD_LEAST}"
    return f"record length {size}, but its parts have another length"
