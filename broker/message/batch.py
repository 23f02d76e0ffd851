"""Batch bodies: several messages of one topic in one request, and the inner batch record (5.x).

::

    |totalSize 4|magic 4 = 0|bodyCRC 4 = 0|flag 4|bodyLength 4|body|propsLen 2|properties|  item

A broker stores each item as a separate record, or (topic attribute queue.type=BatchCQ, 5.x) the
whole body as one inner-batch record, which the consumer splits.

**Source:** RocketMQ MessageDecoder#encodeMessages, #decodeMessage, MessageExtEncoder#encode
(batch), MessageExtBrokerInner.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from broker.common.encoding.layout import FieldSpec, struct_format
from broker.common.sysflag import INNER_BATCH, NEED_UNWRAP
from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.message.message import Message, MessageExt
from broker.message.properties import PROPERTIES_MAX_SIZE, encode_properties
from broker.message.record import body_crc

BATCH_ITEM_LAYOUT: tuple[FieldSpec, ...] = (
    FieldSpec("totalSize", "int", 4, "length of the whole item, this field included"),
    FieldSpec("magicCode", "int", 4, "0"),
    FieldSpec("bodyCRC", "int", 4, "0"),
    FieldSpec("flag", "int", 4, "the application's own number"),
    FieldSpec("bodyLength", "int", 4, "length of the body"),
    FieldSpec("body", "bytes", 0, "as sent"),
    FieldSpec("propertiesLength", "short", 2, "length of the properties"),
    FieldSpec("properties", "text", 0, "name 0x01 value 0x02 repeated, UTF-8"),
)
"""One item of a batch body."""

_FIXED = Struct(struct_format(BATCH_ITEM_LAYOUT[:5]))
ITEM_FIXED_SIZE = _FIXED.size
MIN_ITEM_SIZE = ITEM_FIXED_SIZE + 2
ITEM_SIZES = Struct(">i8xii")
"""totalSize, flag and bodyLength of an item, the fields that a broker reads."""


class BatchItem(NamedTuple):
    """One message of a batch: its flag, body and raw property string."""

    flag: int
    body: bytes
    properties_raw: bytes


def encode_batch_item(flag: int, body: bytes, properties_raw: bytes) -> bytes:
    """Encode one item; raises LocalProtocolError if the properties exceed 32767 bytes."""
    size = len(properties_raw)
    if size > PROPERTIES_MAX_SIZE:
        raise LocalProtocolError(f"{size} bytes of properties, at most {PROPERTIES_MAX_SIZE} fit")
    fixed = _FIXED.pack(MIN_ITEM_SIZE + len(body) + size, 0, 0, flag, len(body))
    return b"".join((fixed, body, size.to_bytes(2, "big"), properties_raw))


def encode_batch(messages: Iterable[Message]) -> bytes:
    """Encode the body of a SEND_BATCH_MESSAGE request; errors as encode_batch_item."""
    return b"".join(
        [encode_batch_item(m.flag, m.body, encode_properties(m.properties)) for m in messages]
    )


def scan_item_bounds(
    body: bytes | memoryview, position: int = 0
) -> Iterator[tuple[int, int, int, int]]:
    """Yield flag, start and end of the body, and end of each item from ``position`` on.

    The raw property string is between the end of the body plus its length field and the end of
    the item. Errors as :func:`scan_batch`.
    """
    unpack, fixed_size, min_size = _FIXED.unpack_from, _FIXED.size, MIN_ITEM_SIZE
    end = len(body)
    while position < end:
        if end - position < min_size:
            raise _broken(position, f"totalSize: {end - position} bytes are too few for an item")
        total_size, _, _, flag, body_size = unpack(body, position)
        if not min_size <= total_size <= end - position:
            raise _broken(position, f"totalSize: {total_size} does not fit")
        if not 0 <= body_size <= total_size - min_size:
            raise _broken(position + 16, f"bodyLength: {body_size} does not fit")
        body_start = position + fixed_size
        body_end = body_start + body_size
        properties_size = body[body_end] << 8 | body[body_end + 1]
        position += total_size
        if body_end + 2 + properties_size != position:
            raise _broken(body_end, f"propertiesLength: {properties_size} does not end the item")
        yield flag, body_start, body_end, position


def scan_batch(body: bytes | memoryview) -> Iterator[BatchItem]:
    """Yield the items of a batch body.

    Raises RemoteProtocolError with position if an item is truncated or its lengths are
    inconsistent, after yielding the items before it. Magic and CRC are not checked: clients do
    not set them.
    """
    for flag, body_start, body_end, item_end in scan_item_bounds(body):
        yield BatchItem(
            flag, bytes(body[body_start:body_end]), bytes(body[body_end + 2 : item_end])
        )


def _broken(position: int, cause: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"batch item, byte {position}, {cause}", position=position)


def unwrap_inner_batch(record: MessageExt) -> list[MessageExt]:
    """Return the messages of an inner-batch record; ``[record]`` for any other record.

    Message i has the record's queue offset + i and its own flag, body and properties; the other
    fields, including the physical offset, are the record's, without the batch and compression
    bits. A compressed body is decompressed first. Raises RemoteProtocolError as scan_batch and
    MessageExt.payload.

    **Source:** RocketMQ MessageDecoder#decodeMessagesFromInnerBatch.
    """
    if not record.sys_flag & INNER_BATCH:
        return [record]
    messages = []
    for number, item in enumerate(scan_batch(record.payload())):
        messages.append(
            MessageExt(
                record.topic,
                item.body,
                item.properties_raw,
                total_size=record.total_size,
                magic=record.magic,
                body_crc=body_crc(item.body),
                queue_id=record.queue_id,
                flag=item.flag,
                queue_offset=record.queue_offset + number,
                physical_offset=record.physical_offset,
                sys_flag=record.sys_flag & ~(INNER_BATCH | NEED_UNWRAP) & ~0x701,
                born_timestamp=record.born_timestamp,
                born_host_raw=record.born_host_raw,
                store_timestamp=record.store_timestamp,
                store_host_raw=record.store_host_raw,
                reconsume_times=record.reconsume_times,
                prepared_transaction_offset=record.prepared_transaction_offset,
            )
        )
    return messages
