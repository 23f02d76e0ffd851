"""EncodedBatch: the records of a batch request, encoded in one pass over the request's body.

::

    item    |size magic crc flag bodyLength|body|propsLen|properties|
    record  |size magic crc queueId flag|place|constant|bodyLength|body|topic|propsLen|properties|
                                          queue offset and physical offset

The head of a record is the same for all records of a batch except for six numbers, so it is packed
once. The records of a batch stay together in the log, therefore a long batch is encoded in slices
and then appended with one copy of its bytes. The place of the records is known in advance if
nothing else is appended meanwhile; otherwise it is written when the batch is appended.

**Source:** RocketMQ MessageExtEncoder#encode(MessageExtBatch), CommitLog#asyncPutMessages.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Final, NamedTuple

from broker.common.encoding.checksum import crc32
from broker.common.sysflag import BORNHOST_V6, STOREHOST_V6
from broker.message.batch import ITEM_FIXED_SIZE, ITEM_SIZES, MIN_ITEM_SIZE, scan_item_bounds
from broker.message.properties import PROPERTIES_MAX_SIZE
from broker.message.record import (
    BODY_CRC_MASK,
    FIXED_SIZES,
    FIXED_STRUCTS,
    HOST_SHAPE_SHIFT,
    HOST_SHAPES,
    HOST_V6_SIZE,
    PROPERTIES_LENGTH_SIZE,
    field_position,
)
from broker.store.consumequeue.consume_queue import Topic
from broker.store.results import MessageExtBrokerInner, PutMessageStatus

ITEMS_PER_STEP: Final = 512
"""Items encoded per step of :meth:`EncodedBatch.encode_items`: about 1 ms."""
LEAST_EQUAL: Final = 10
"""Number of items from which encoding them by column is faster than one by one."""

_PLACE_AT: Final = field_position("queueOffset")
_SYS_FLAG_AT: Final = field_position("sysFlag")
assert field_position("physicalOffset") == _PLACE_AT + 8
assert _SYS_FLAG_AT == _PLACE_AT + 16
_V6_BITS: Final = BORNHOST_V6 | STOREHOST_V6


class Place(NamedTuple):
    """Place of a batch: first physical and queue offset, and storeTimestamp (ms) of all records."""

    physical_offset: int
    queue_offset: int
    store_timestamp: int


class _Shape(NamedTuple):
    """Positions and structs of a record's head for one combination of host lengths."""

    size: int
    stamp_at: int
    length_at: int
    # size, magic, CRC, queue id, flag, queue and physical offset; the constant part; bodyLength
    head: Struct
    # queue offset, physical offset; the constant part; storeTimestamp
    place: Struct


def _shape(number: int) -> _Shape:
    sys_flag = number << HOST_SHAPE_SHIFT
    stamp_at = field_position("storeTimestamp", sys_flag)
    length_at = field_position("bodyLength", sys_flag)
    return _Shape(
        FIXED_SIZES[number],
        stamp_at,
        length_at,
        Struct(f">iIIiiqq{length_at - _SYS_FLAG_AT}si"),
        Struct(f">qq{stamp_at - _SYS_FLAG_AT}sq"),
    )


_SHAPES: Final = tuple(_shape(number) for number in range(HOST_SHAPES))
_LENGTH: Final = Struct(">H").pack
_ITEM: Final = ITEM_SIZES.unpack_from


@lru_cache(64)
def _row(body_size: int, properties_size: int) -> Struct:
    """Return the struct of an item: its sizes and flag, body, propertiesLength, properties."""
    return Struct(f"{ITEM_SIZES.format}{body_size}sH{properties_size}s")


class _EqualItems(NamedTuple):
    """Columns of items of equal lengths; ``ended``: each property string ends with 0x02."""

    item_size: int
    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    ended: bool


def _equal_items(body: bytes, position: int) -> _EqualItems | None:
    """Return the next ITEMS_PER_STEP items, or all up to the end; None if their lengths differ.

    Also None for fewer than LEAST_EQUAL items, and if only some property strings end with 0x02.
    """
    end = len(body)
    if end - position < MIN_ITEM_SIZE:
        return None
    item_size, _, body_size = _ITEM(body, position)
    length = item_size - MIN_ITEM_SIZE - body_size
    if body_size < 0 or not 0 < length <= PROPERTIES_MAX_SIZE:
        return None
    count = min((end - position) // item_size, ITEMS_PER_STEP)
    if count < LEAST_EQUAL or (count < ITEMS_PER_STEP and position + count * item_size != end):
        return None
    end = position + count * item_size
    ended = body[position + item_size - 1 : end : item_size].count(2)
    rows = _row(body_size, length).iter_unpack(memoryview(body)[position:end])
    sizes, flags, body_sizes, bodies, lengths, properties = zip(*rows, strict=True)
    if (
        sizes.count(item_size) != count
        or body_sizes.count(body_size) != count
        or lengths.count(length) != count
        or 0 < ended < count
    ):
        return None
    return _EqualItems(item_size, flags, bodies, properties, ended > 0)


class EncodedBatch:
    """Records of one queue, encoded before their place in the log is known.

    ``shared`` has the fields that all records have in common; its properties are appended to those
    of each item. ``starts`` are the positions of the records in ``data``, ``properties`` their
    encoded properties. ``refused`` is the reason why an item is illegal, None if all are legal.
    """

    __slots__ = (
        "_end",
        "_head",
        "_max_message_size",
        "_shape",
        "_tail",
        "data",
        "place",
        "properties",
        "queue_id",
        "refused",
        "starts",
        "sys_flag",
        "topic",
    )

    def __init__(
        self, topic: Topic, shared: MessageExtBrokerInner, place: Place, max_message_size: int
    ) -> None:
        """Pack the common part of the heads; struct.error if a number does not fit its field.

        ``place`` is the expected place.
        """
        self.topic = topic
        self.queue_id = shared.queue_id
        self.sys_flag = shared.sys_flag
        self.data: bytes | bytearray = b""
        self.starts: list[int] = []
        self.properties: list[bytes] = []
        self.refused: tuple[PutMessageStatus, str] | None = None
        self.place = place
        self._max_message_size = max_message_size
        self._tail = shared.properties
        self._end = 0
        born, store = shared.born_host, shared.store_host
        shape = (len(born) == HOST_V6_SIZE) | (len(store) == HOST_V6_SIZE) << 1
        self._shape = _SHAPES[shape]
        self._head = FIXED_STRUCTS[shape].pack(
            0,
            topic.magic,
            0,
            shared.queue_id,
            0,
            0,
            0,
            shared.sys_flag & ~_V6_BITS | shape << HOST_SHAPE_SHIFT,
            shared.born_timestamp,
            born,
            place.store_timestamp,
            store,
            shared.reconsume_times,
            shared.prepared_transaction_offset,
            0,
        )

    def encode_items(self, body: bytes) -> Iterator[None]:
        """Encode the items of a batch body, ITEMS_PER_STEP per step; to be called once.

        RemoteProtocolError if the body is not a batch; the batch must not be appended then.
        """
        chunks = []
        position, end = 0, len(body)
        while position < end:
            parts: list[bytes] = []
            position = self._encode_equal(body, position, parts) or self._encode_step(
                body, position, parts
            )
            chunks.append(b"".join(parts))
            self.data = chunks[0] if position == end and len(chunks) == 1 else b""
            if position < end:
                yield
        if len(chunks) > 1:
            self.data = b"".join(chunks)

    def _encode_equal(self, body: bytes, position: int, parts: list[bytes]) -> int:
        """Encode items of equal lengths by column, as :meth:`_encode_step`; 0 for other items."""
        found = _equal_items(body, position)
        if found is None:
            return 0
        item_size, flags, bodies, properties, ended = found
        count, body_size = len(bodies), len(bodies[0])
        tail = self._tail if ended else b"\x02" + self._tail
        length = len(properties[0]) + len(tail)
        if body_size > self._max_message_size or length > PROPERTIES_MAX_SIZE:
            return 0
        shape, topic = self._shape, self.topic
        size = shape.size + topic.stored_size + PROPERTIES_LENGTH_SIZE + body_size + length
        starts = range(self._end, self._end + count * size, size)
        base, queue_offset, _ = self.place
        queue_offset += len(self.starts)
        heads = map(
            shape.head.pack,
            repeat(size),
            repeat(topic.magic),
            [crc & BODY_CRC_MASK for crc in map(crc32, bodies)],
            repeat(self.queue_id),
            flags,
            range(queue_offset, queue_offset + count),
            range(base + starts.start, base + starts.stop, size),
            repeat(self._head[_SYS_FLAG_AT : shape.length_at]),
            repeat(body_size),
        )
        between = topic.stored + _LENGTH(length)
        stored = [one + tail for one in properties]
        for record in zip(heads, bodies, repeat(between), stored, strict=False):
            parts += record
        self.starts += starts
        self.properties += stored
        self._end = starts.stop
        return position + count * item_size

    def _encode_step(self, body: bytes, position: int, parts: list[bytes]) -> int:
        """Append up to ITEMS_PER_STEP records to ``parts``; return the position after their items.

        Inlined: this loop is most of the work of a batch.
        """
        shape, topic = self._shape, self.topic
        pack, constant = shape.head.pack, self._head[_SYS_FLAG_AT : shape.length_at]
        magic, queue_id, tail = topic.magic, self.queue_id, self._tail
        around = shape.size + topic.stored_size + PROPERTIES_LENGTH_SIZE
        queue_offset = self.place.queue_offset + len(self.starts)
        start = self._end
        base = self.place.physical_offset
        max_body_size = self._max_message_size
        end = len(body)
        last = end - MIN_ITEM_SIZE
        between: dict[int, bytes] = {}  # topic and propertiesLength, by the latter
        add_start, add_properties = self.starts.append, self.properties.append
        for _ in range(ITEMS_PER_STEP):
            if position > last:
                break
            total_size, flag, body_size = _ITEM(body, position)
            body_start = position + ITEM_FIXED_SIZE
            body_end = body_start + body_size
            properties_at = body_end + PROPERTIES_LENGTH_SIZE
            item_end = position + total_size
            if (
                body_size < 0
                or not properties_at <= item_end <= end
                or body[body_end] << 8 | body[body_end + 1] != item_end - properties_at
            ):
                break
            properties = body[properties_at:item_end]
            # 5.x ends each property with 0x02, 4.9 omits the last one.
            if not properties or properties[-1] == 2:
                properties += tail
            else:
                properties = b"%b\x02%b" % (properties, tail)
            position = item_end
            length = len(properties)
            if body_size > max_body_size or length > PROPERTIES_MAX_SIZE:
                self._refuse(body_size, length)
                continue
            item_body = body[body_start:body_end]
            size = around + body_size + length
            crc, at = crc32(item_body) & BODY_CRC_MASK, base + start
            parts += (
                pack(size, magic, crc, queue_id, flag, queue_offset, at, constant, body_size),
                item_body,
                between.get(length) or between.setdefault(length, topic.stored + _LENGTH(length)),
                properties,
            )
            add_start(start)
            add_properties(properties)
            start += size
            queue_offset += 1
        else:
            self._end = start
            return position
        self._end = start
        if position < end:
            next(scan_item_bounds(body, position))  # raises the error
        return position

    def move(self, place: Place) -> None:
        """Change the place of the records to ``place``."""
        data = bytearray(self.data)
        shape = self._shape
        pack = shape.place.pack_into
        constant = self._head[_SYS_FLAG_AT : shape.stamp_at]
        base, queue_offset, store_timestamp = place
        for start in self.starts:
            pack(data, start + _PLACE_AT, queue_offset, base + start, constant, store_timestamp)
            queue_offset += 1
        self.data = data
        self.place = place

    def _refuse(self, body_size: int, length: int) -> None:
        """Keep the reason why the first illegal item is refused.

        **Source:** RocketMQ MessageExtEncoder#encode.
        """
        if self.refused is not None:
            return
        if body_size > self._max_message_size:
            reason = f"body of {body_size} bytes, at most {self._max_message_size}"
            self.refused = PutMessageStatus.MESSAGE_ILLEGAL, reason
        else:
            reason = f"properties of {length} bytes, at most {PROPERTIES_MAX_SIZE}"
            self.refused = PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, reason
