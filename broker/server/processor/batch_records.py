"""A batch request as records: one per item, or one for all where the topic's queues are made so.

**Source:** RocketMQ SendMessageProcessor#sendBatchMessage, MessageExtEncoder#encode (batch).
"""

import msgspec

from broker.common import sysflag
from broker.common import topic as names
from broker.message import message as props
from broker.message.batch import scan_batch
from broker.message.properties import encode_properties
from broker.server.schedule import delay_level
from broker.store.results import MessageInner

BATCH_QUEUE = ("queue.type", "BatchCQ")


class BatchHead(msgspec.Struct, frozen=True):
    """What all records of a batch share; ``properties`` are the request header's."""

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_host: bytes
    properties: dict[str, str]


def why_no_batch(head: BatchHead, body_size: int, limit: int) -> str | None:
    """Why a batch is illegal, None if it is not."""
    if names.is_retry_topic(head.topic):
        return "batch request does not support retry group " + head.topic
    if len(head.topic) > names.TOPIC_MAX_LENGTH:
        return f"message topic length too long {len(head.topic)}"
    if sysflag.transaction_type(head.sys_flag) or delay_level(head.properties, 1):
        return "a batch can neither be delayed nor transactional"
    if body_size > limit:
        return f"the batch of {body_size} bytes is above the limit of {limit}"
    return None


def item_records(
    head: BatchHead, body: bytes, broker_properties: dict[str, str]
) -> list[MessageInner]:
    """One record per item: its own properties, then the header's and the broker's.

    The header's UNIQ_KEY and WAIT stay out: Java 5.3.3 appends them, so that every item loses its
    own id to the batch's. RemoteProtocolError when the body is no batch.
    """
    shared = {
        name: value
        for name, value in head.properties.items()
        if name not in (props.PROPERTY_UNIQ_KEY, props.PROPERTY_WAIT_STORE_MSG_OK)
    }
    tail = encode_properties({**shared, **broker_properties})
    return [
        MessageInner(
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
        for flag, item_body, raw in scan_batch(body)
    ]


def inner_batch_record(
    head: BatchHead, body: bytes, broker_properties: dict[str, str]
) -> MessageInner | None:
    """One record that holds the whole batch as it came; None when it is empty.

    Consumers unwrap it. RemoteProtocolError when the body is no batch.
    """
    count = sum(1 for _ in scan_batch(body))
    if not count:
        return None
    properties = {
        **head.properties,
        **broker_properties,
        props.PROPERTY_INNER_NUM: str(count),
    }
    return MessageInner(
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
