"""Records of a batch request: one per message, or one for the whole batch (BatchCQ topics).

A record for a whole batch is unwrapped by 5.x clients. Others would pass the encoded batch to the
application, so their pulls get one record per message.

**Source:** RocketMQ SendMessageProcessor#sendBatchMessage, MessageExtEncoder#encode (batch),
MessageDecoder#decodeMessagesFromInnerBatch.
"""

import struct
from collections.abc import Iterator, Sequence
from struct import Struct

import msgspec

from broker.common import sysflag
from broker.common import topic as names
from broker.common.topic import TopicConfig
from broker.errors import RemoteProtocolError
from broker.message import message as props
from broker.message.batch import MIN_ITEM_SIZE, scan_batch, unwrap_inner_batch
from broker.message.properties import encode_properties, remove_property
from broker.message.record import encode_record, scan_records
from broker.server.context import BrokerContext
from broker.server.schedule import delay_level, illegal_delay
from broker.server.timer.delay import delay_message
from broker.store.results import MessageExtBrokerInner, PutMessageResult
from broker.store.timer.timer_message import REQUEST_PROPERTIES, is_timer_request

BATCH_QUEUE = ("queue.type", "BatchCQ")

MAX_BATCH_ITEMS = 16_384
"""Limit on the messages of one batch. The batch is appended without yielding to the event loop,
4 µs per message. RocketMQ's example of splitting a list at 1 MB makes batches of about 13,000."""

VERSION_THAT_UNWRAPS = 412
"""V5_0_0_SNAPSHOT: clients from here on unwrap inner batches."""

_NOT_SHARED = (props.PROPERTY_UNIQ_KEY, props.PROPERTY_WAIT_STORE_MSG_OK)
_PLACE = tuple(
    name.encode()
    for name in (
        props.PROPERTY_REAL_TOPIC,
        props.PROPERTY_REAL_QUEUE_ID,
        props.PROPERTY_TIMER_OUT_MS,
        *REQUEST_PROPERTIES,
    )
)
_ITEM_SIZE = Struct(">i").unpack_from


class BatchHead(msgspec.Struct, frozen=True):
    """Fields that all records of a batch share; ``properties`` come from the request header."""

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_host: bytes
    properties: dict[str, str]


def delay_batch(
    context: BrokerContext, head: BatchHead
) -> tuple[PutMessageResult | None, BatchHead]:
    """Redirect a batch whose header requests a delivery time; return a refusal, and its head.

    **Source:** RocketMQ HookUtils#handleScheduleMessage, called for a batch as for a message.
    """
    if not is_timer_request(head.topic, head.properties):
        return None, head
    inner = MessageExtBrokerInner(head.topic, head.queue_id, b"", sys_flag=head.sys_flag)
    properties = dict(head.properties)
    timers = context.timers.timers if context.timers is not None else None
    refused = delay_message(None, timers, inner, properties)
    return refused, msgspec.structs.replace(
        head, topic=inner.topic, queue_id=inner.queue_id, properties=properties
    )


def is_batch_topic(config: TopicConfig) -> bool:
    """Return whether records of the topic may hold whole batches."""
    return BATCH_QUEUE in config.attributes.items()


def message_ids(prefix: bytes, physical_offsets: Sequence[int]) -> bytes:
    """The offset message ids of records, joined by commas; ``prefix``: the store host as hex.

    **Source:** RocketMQ MessageDecoder#createMessageId.
    """
    numbers = struct.pack(f">{len(physical_offsets)}q", *physical_offsets).hex(",", 8)
    return prefix + numbers.upper().encode().replace(b",", b"," + prefix)


def check_batch(head: BatchHead, body: bytes, limit: int) -> str | None:
    """Return the reason why a batch is illegal, None if it is legal.

    ``limit`` bounds the body and also the body plus the shared properties of all records, because
    the header's properties are copied into each record.
    """
    if names.is_retry_topic(head.topic):
        return "batch request does not support retry group " + head.topic
    if len(head.topic) > names.TOPIC_MAX_LENGTH:
        return f"message topic length too long {len(head.topic)}"
    if sysflag.transaction_type(head.sys_flag) or delay_level(head.properties, 1):
        return "a batch can neither be delayed nor transactional"
    if (reason := illegal_delay(head.properties)) is not None:
        return reason
    if len(body) > limit:
        return f"the batch of {len(body)} bytes is above the limit of {limit}"
    shared = sum(
        len(name) + len(value) + 2
        for name, value in head.properties.items()
        if name not in _NOT_SHARED
    )
    most = len(body) // MIN_ITEM_SIZE + 1
    if most <= MAX_BATCH_ITEMS and len(body) + most * shared <= limit:
        return None  # whatever the number of messages, counting them costs more than the rest
    count = _count_items(body)
    if count > MAX_BATCH_ITEMS:
        return f"the batch holds more than {MAX_BATCH_ITEMS} messages"
    size = len(body) + count * shared
    if size > limit:
        return (
            f"the batch of {count} messages takes {size} bytes with {shared} bytes of shared "
            f"properties in each, above the limit of {limit}"
        )
    return None


def _count_items(body: bytes) -> int:
    """Count the messages of a batch by their size fields, up to one more than the limit.

    A size below the minimum counts as the minimum; the item is validated when it is decoded.
    """
    count = position = 0
    end = len(body) - MIN_ITEM_SIZE
    while position <= end and count <= MAX_BATCH_ITEMS:
        (size,) = _ITEM_SIZE(body, position)
        position += size if size > MIN_ITEM_SIZE else MIN_ITEM_SIZE
        count += 1
    return count


def shared_fields(head: BatchHead, broker_properties: dict[str, str]) -> MessageExtBrokerInner:
    """Return the fields of all records of a batch, with the properties that each ends with.

    The header's UNIQ_KEY and WAIT are left out: Java 5.3.3 appends them, so the id of the batch
    replaces the id of each message.
    """
    shared = {name: value for name, value in head.properties.items() if name not in _NOT_SHARED}
    return MessageExtBrokerInner(
        head.topic,
        head.queue_id,
        b"",
        encode_properties({**shared, **broker_properties}),
        0,
        head.sys_flag,
        head.born_timestamp,
        head.born_host,
        head.store_host,
    )


def item_records(
    head: BatchHead, body: bytes, broker_properties: dict[str, str]
) -> Iterator[MessageExtBrokerInner]:
    """Yield one record per message: its properties, then :func:`shared_fields`.

    For batches whose properties the broker changes; :class:`EncodedBatch` encodes the others.
    RemoteProtocolError when the body is not a batch.
    """
    tail = shared_fields(head, broker_properties).properties
    delayed = head.topic == names.TIMER_TOPIC
    for flag, item_body, raw in scan_batch(body):
        if delayed:  # the first value of a name counts: no item may name another target
            for name in _PLACE:
                raw = remove_property(raw, name)
        yield MessageExtBrokerInner(
            head.topic,
            head.queue_id,
            item_body,
            raw + tail if not raw or raw[-1] == 2 else raw + b"\x02" + tail,
            flag,
            head.sys_flag,
            head.born_timestamp,
            head.born_host,
            head.store_host,
        )


def inner_batch_record(
    head: BatchHead, body: bytes, broker_properties: dict[str, str]
) -> MessageExtBrokerInner | None:
    """Return one record that holds the whole batch unchanged; None when the batch is empty.

    Consumers unwrap it. RemoteProtocolError when the body is not a batch.
    """
    count = sum(1 for _ in scan_batch(body))
    if not count:
        return None
    properties = {
        **head.properties,
        **broker_properties,
        props.PROPERTY_INNER_NUM: str(count),
    }
    return MessageExtBrokerInner(
        head.topic,
        head.queue_id,
        body,
        encode_properties(properties),
        head.flag,
        head.sys_flag | sysflag.NEED_UNWRAP | sysflag.INNER_BATCH,
        head.born_timestamp,
        head.born_host,
        head.store_host,
    )


def unwrapped_records(data: bytes, queue_offset: int) -> Iterator[bytes]:
    """Yield one record per message of the records in ``data``, from ``queue_offset`` on.

    Java sends the whole batch to every client. A record whose body is not a batch is left as it is.
    """
    for record in scan_records(data):
        try:
            messages = unwrap_inner_batch(record)
        except RemoteProtocolError:
            messages = [record]
        for message in messages:
            if message is record or message.queue_offset >= queue_offset:
                yield encode_record(message)
