"""The message record: the format of the CommitLog and of pull and query responses, as a table.

::

    0    4     8   12   16   20   28   36   40    48..56     64     72   76    84  88
    |size|magic|crc|qid |flag|qoff|phys|sysf|born |bornHost |stored|host|recon|prep|blen|body|
    |topicLen 1 (v1) / 2 (v2)|topic|propsLen 2|properties|

The positions are for IPv4 hosts; an IPv6 born host shifts the following fields by 12, an IPv6
store host by 12 more. The fixed part (up to blen) therefore has four shapes, indexed by
``sysFlag >> 4 & 3``; the ``struct`` of each is built from RECORD_LAYOUT.

**Source:** RocketMQ MessageDecoder#decode, MessageExtEncoder (5.x), CommitLog (4.9),
MessageVersion (5.x).
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from broker.common.encoding.checksum import crc32
from broker.common.encoding.layout import FieldSpec, struct_format
from broker.common.sysflag import BORNHOST_V6, STOREHOST_V6
from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.message.message import MessageExt
from broker.message.properties import PROPERTIES_MAX_SIZE

Buffer = bytes | bytearray | memoryview

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB  # 5.x: two-byte topic length
MAGIC_BLANK = 0xCBD43194  # the rest of a CommitLog file is empty

RECORD_LAYOUT: tuple[FieldSpec, ...] = (
    FieldSpec("totalSize", "int", 4, "length of the whole record, this field included"),
    FieldSpec("magicCode", "uint", 4, "DAA320A7 (v1), DAA320AB (v2, since 5.0)"),
    FieldSpec("bodyCRC", "uint", 4, "CRC-32 of the stored body, top bit cleared; 0 if empty"),
    FieldSpec("queueId", "int", 4, "queue of the topic"),
    FieldSpec("flag", "int", 4, "the application's own number"),
    FieldSpec("queueOffset", "long", 8, "entry number in the queue; inner batch: of its first"),
    FieldSpec("physicalOffset", "long", 8, "position of this record in the CommitLog"),
    FieldSpec("sysFlag", "int", 4, "compression, transaction, host and batch bits"),
    FieldSpec("bornTimestamp", "long", 8, "producer's time, ms"),
    FieldSpec("bornHost", "host", 8, "producer: address 4 or 16 (sysFlag 0x10), port 4"),
    FieldSpec("storeTimestamp", "long", 8, "broker's time, ms"),
    FieldSpec("storeHost", "host", 8, "broker: address 4 or 16 (sysFlag 0x20), port 4"),
    FieldSpec("reconsumeTimes", "int", 4, "failed deliveries before this copy"),
    FieldSpec("preparedTransactionOffset", "long", 8, "physical offset of the half message, or 0"),
    FieldSpec("bodyLength", "int", 4, "length of the body"),
    FieldSpec("body", "bytes", 0, "as sent, compressed or not"),
    FieldSpec("topicLength", "byte", 1, "v1: signed byte; v2: short (2 bytes)"),
    FieldSpec("topic", "text", 0, "UTF-8"),
    FieldSpec("propertiesLength", "short", 2, "length of the properties, at most 32767"),
    FieldSpec("properties", "text", 0, "name 0x01 value 0x02 repeated, UTF-8"),
)
"""The record, field by field, in its v1 IPv4 shape."""

PROPERTIES_LENGTH_SIZE = RECORD_LAYOUT[-2].width
FIXED_FIELD_COUNT = 15  # totalSize .. bodyLength
HOST_SHAPES = 4  # (sysFlag >> 4) & 3: bit 0 = born host IPv6, bit 1 = store host IPv6
HOST_SHAPE_SHIFT = 4
BODY_CRC_MASK = 0x7FFFFFFF
HOST_V6_SIZE = 20  # address 16, port 4


def _shape(fields: tuple[FieldSpec, ...], shape: int) -> tuple[FieldSpec, ...]:
    """Return ``fields`` with the host widths of one of the four shapes."""
    wide = {"bornHost": shape & 1, "storeHost": shape & 2}
    return tuple(
        FieldSpec(f.name, f.type, HOST_V6_SIZE if wide.get(f.name) else f.width, f.meaning, f.since)
        for f in fields
    )


FIXED_STRUCTS: tuple[Struct, ...] = tuple(
    Struct(struct_format(_shape(RECORD_LAYOUT[:FIXED_FIELD_COUNT], shape)))
    for shape in range(HOST_SHAPES)
)
"""``struct`` of the fixed part per host shape; values in the order of RECORD_LAYOUT."""

FIXED_SIZES: tuple[int, ...] = tuple(shape.size for shape in FIXED_STRUCTS)
"""Length of the fixed part per host shape: 88, 100, 100, 112."""

MIN_RECORD_SIZE = FIXED_SIZES[0] + 1 + PROPERTIES_LENGTH_SIZE
"""The shortest record: v1, IPv4, with empty body, topic and properties."""

TOPIC_MAX_SIZE_V1 = 127
TOPIC_MAX_SIZE = 255

_SYS_FLAG_LAST_BYTE = 39  # last byte of sysFlag, whose bits define the shape
_UNPACKS = tuple(shape.unpack_from for shape in FIXED_STRUCTS)


def field_position(name: str, sys_flag: int = 0) -> int:
    """Return a fixed field's position in a record with that sysFlag; KeyError if unknown."""
    position = 0
    for field in _shape(RECORD_LAYOUT[:FIXED_FIELD_COUNT], sys_flag >> 4 & 3):
        if field.name == name:
            return position
        position += field.width
    raise KeyError(name)


def body_crc(body: Buffer) -> int:
    """Return the CRC of a stored body: IEEE CRC-32 without the top bit, 0 if empty.

    **Source:** RocketMQ UtilAll#crc32.
    """
    return crc32(body) & BODY_CRC_MASK if body else 0


class RecordHead(NamedTuple):
    """The fixed part of a record; hosts as 8 or 20 bytes, magic and CRC unsigned."""

    total_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host_raw: bytes
    store_timestamp: int
    store_host_raw: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body_size: int


_new_head = RecordHead._make


def peek_record_size(buffer: Buffer, position: int = 0) -> int:
    """The length stored in the first four bytes of a record; nothing is checked."""
    return int.from_bytes(buffer[position : position + 4], "big", signed=True)


def peek_record(buffer: Buffer, position: int = 0) -> RecordHead | None:
    """Read the fixed part of a record; None if no complete record can start here.

    None means too few bytes, an unknown magic, or lengths that exceed the buffer. The rest of the
    record is not checked, so decode_record may still raise.
    """
    left = len(buffer) - position
    if left < MIN_RECORD_SIZE or position < 0:
        return None
    shape = buffer[position + _SYS_FLAG_LAST_BYTE] >> 4 & 3
    if left < FIXED_SIZES[shape] + 3:
        return None
    head = _new_head(_UNPACKS[shape](buffer, position))
    magic = head[1]
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return None
    total_size = head[0]
    if total_size > left or not 0 <= head[14] <= total_size - FIXED_SIZES[shape] - 3:
        return None
    return head


def decode_record(
    buffer: Buffer, position: int = 0, *, check_crc: bool = False, read_body: bool = True
) -> MessageExt:
    """Decode the record at ``position``; the buffer may extend past its end.

    Without ``read_body`` the body is left empty (``body_size`` is set). Raises
    RemoteProtocolError with position and field if the buffer ends too early, the magic is
    unknown, a length does not fit, the parts do not add up to totalSize, the topic is not UTF-8,
    or (``check_crc``) the body does not match its CRC.
    """
    left = len(buffer) - position
    if left < MIN_RECORD_SIZE or position < 0:
        raise _broken(position, f"totalSize: {max(left, 0)} bytes are too few for a record")
    shape = buffer[position + _SYS_FLAG_LAST_BYTE] >> 4 & 3
    fixed_size = FIXED_SIZES[shape]
    if left < fixed_size + 3:
        raise _broken(position, f"bodyLength: the buffer ends after {left} bytes")
    fields = _UNPACKS[shape](buffer, position)
    total_size, magic = fields[0], fields[1]
    if magic == MAGIC_V1:
        topic_length_size = 1
    elif magic == MAGIC_V2:
        topic_length_size = 2
    else:
        raise _broken(position + 4, f"magicCode: {magic:08X} is not a message record")
    if not fixed_size + topic_length_size + 2 <= total_size <= left:
        raise _broken(position, f"totalSize: {total_size} does not fit, {left} bytes are there")
    body_size = fields[14]
    body_start = position + fixed_size
    end = position + total_size
    if body_size < 0 or body_start + body_size + topic_length_size + 2 > end:
        raise _broken(body_start - 4, f"bodyLength: {body_size} does not fit into {total_size}")
    body_end = body_start + body_size
    topic, properties_raw = _decode_tail(buffer, body_end, end, topic_length_size)
    message = MessageExt.__new__(MessageExt)
    (
        message.total_size,
        message.magic,
        message.body_crc,
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.physical_offset,
        message.sys_flag,
        message.born_timestamp,
        message.born_host_raw,
        message.store_timestamp,
        message.store_host_raw,
        message.reconsume_times,
        message.prepared_transaction_offset,
        message.body_size,
    ) = fields
    message.body = bytes(buffer[body_start:body_end]) if read_body else b""
    message.topic = topic
    message.properties_raw = properties_raw
    message._properties = None
    if check_crc and body_size and body_crc(buffer[body_start:body_end]) != message.body_crc:
        raise _broken(position + 8, "bodyCRC: the body does not match its checksum")
    return message


def _decode_tail(
    buffer: Buffer, position: int, end: int, topic_length_size: int
) -> tuple[str, bytes]:
    """Decode topic and properties, which must end exactly at ``end``."""
    topic_size = buffer[position]
    topic_start = position + topic_length_size
    if topic_length_size == 2:
        topic_size = topic_size << 8 | buffer[position + 1]
    topic_end = topic_start + topic_size
    limit = 0x7F if topic_length_size == 1 else 0x7FFF
    if topic_size > limit or topic_end + 2 > end:
        raise _broken(position, f"topicLength: {topic_size} does not fit")
    properties_size = buffer[topic_end] << 8 | buffer[topic_end + 1]
    if properties_size > PROPERTIES_MAX_SIZE or topic_end + 2 + properties_size != end:
        raise _broken(
            topic_end,
            f"propertiesLength: {properties_size} does not end the record,"
            f" {end - topic_end - 2} bytes are left",
        )
    try:
        topic = str(buffer[topic_start:topic_end], "utf-8")
    except UnicodeDecodeError:
        raise _broken(topic_start, "topic: not UTF-8") from None
    return topic, bytes(buffer[topic_end + 2 : end])


def _broken(position: int, cause: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"message record, byte {position}, {cause}", position=position)


def peek_properties(record: Buffer, position: int = 0) -> bytes:
    """Return the raw property string of the record at ``position``, without decoding the rest.

    For filters on records that the store has already checked; empty if there is no record.
    """
    head = peek_record(record, position)
    return b"" if head is None else properties_of(record, head, position)


def properties_of(record: Buffer, head: RecordHead, position: int = 0) -> bytes:
    """Return the raw property string of the record at ``position``, whose head has been read."""
    end = position + head[0]
    topic_at = position + FIXED_SIZES[head[7] >> 4 & 3] + head[14]
    if head[1] == MAGIC_V1:
        start = topic_at + 1 + record[topic_at] + 2
    else:
        start = topic_at + 2 + (record[topic_at] << 8 | record[topic_at + 1]) + 2
    return bytes(record[start:end])


def scan_records(buffer: Buffer, *, check_crc: bool = False) -> Iterator[MessageExt]:
    """Yield the records of a pull, query or view response, which fill the buffer.

    Raises RemoteProtocolError at the first invalid or truncated record, after yielding those
    before it.
    """
    position, end = 0, len(buffer)
    while position < end:
        message = decode_record(buffer, position, check_crc=check_crc)
        yield message
        position += message.total_size


def encode_record(message: MessageExt) -> bytes:
    """Encode a record; size, CRC, host bits and (if ``magic`` is 0) the version are computed.

    Version 2 is used if the topic is longer than 127 bytes, as in a 5.x broker. The properties
    are written unchanged (``properties_raw``). Raises LocalProtocolError if topic, properties or
    a host do not fit the layout.
    """
    topic = message.topic.encode("utf-8", "replace")
    body, properties = message.body, message.properties_raw
    magic = message.magic or (MAGIC_V2 if len(topic) > TOPIC_MAX_SIZE_V1 else MAGIC_V1)
    if len(topic) > (TOPIC_MAX_SIZE_V1 if magic == MAGIC_V1 else 0x7FFF):
        raise LocalProtocolError(f"a topic of {len(topic)} bytes does not fit: {topic!r:.60}")
    if len(properties) > PROPERTIES_MAX_SIZE:
        raise LocalProtocolError(
            f"{len(properties)} bytes of properties, at most {PROPERTIES_MAX_SIZE} fit"
        )
    topic_length = len(topic).to_bytes(1 if magic == MAGIC_V1 else 2, "big")
    shape = _host_shape(message)
    total_size = FIXED_SIZES[shape] + len(body) + len(topic_length) + len(topic) + 2
    total_size += len(properties)
    fixed = FIXED_STRUCTS[shape].pack(
        total_size,
        magic,
        body_crc(body),
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.physical_offset,
        (message.sys_flag & ~(BORNHOST_V6 | STOREHOST_V6)) | shape << 4,
        message.born_timestamp,
        message.born_host_raw,
        message.store_timestamp,
        message.store_host_raw,
        message.reconsume_times,
        message.prepared_transaction_offset,
        len(body),
    )
    return b"".join(
        (fixed, body, topic_length, topic, len(properties).to_bytes(2, "big"), properties)
    )


def _host_shape(message: MessageExt) -> int:
    born, store = len(message.born_host_raw), len(message.store_host_raw)
    if born not in (8, 20) or store not in (8, 20):
        raise LocalProtocolError(f"hosts have 8 or 20 bytes, not {born} and {store}")
    return (born == 20) | (store == 20) << 1


# --- property CRC (5.x, enabledAppendPropCRC) --------------------------------------------------

PROPERTY_CRC_SIZE = 20
PROPERTY_CRC_NAME = b"__CRC32#\x01"


def encode_property_crc(record_before: Buffer) -> bytes:
    """Return the 20 bytes at the end of a record with property CRC, computed over all others.

    Ten decimal digits, least significant first. **Source:** RocketMQ MessageExtEncoder,
    MessageDecoder#createCrc32 (5.x).
    """
    digits = f"{crc32(record_before) & 0x7FFFFFFF:010d}"[::-1]
    return PROPERTY_CRC_NAME + digits.encode() + b"\x02"


def check_property_crc(record: Buffer) -> bool | None:
    """Whether a complete record matches its property CRC; None if it has none."""
    tail = bytes(record[-PROPERTY_CRC_SIZE:])
    if len(tail) < PROPERTY_CRC_SIZE or not tail.startswith(PROPERTY_CRC_NAME):
        return None
    return tail == encode_property_crc(record[:-PROPERTY_CRC_SIZE])
