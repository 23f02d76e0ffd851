"""Half messages: prepared, renewed by a check, discarded, resumed, as requests to the producer.

Every function returns a new message to store; the original record is never changed.

**Source:** RocketMQ TransactionalMessageBridge#parseHalfMessageInner, #renewHalfMessageInner,
DefaultTransactionalMessageCheckListener#toMessageExtBrokerInner.
"""

from typing import Final

from broker.common import sysflag
from broker.common.topic import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC
from broker.message import message as props
from broker.message.message import MessageExt
from broker.message.properties import remove_property, set_property
from broker.message.record import encode_record
from broker.message.transaction import check_times, real_place
from broker.store.results import MessageExtBrokerInner

HALF_QUEUE: Final = 0
DISCARD_QUEUES: Final = 1

_CHECK_TIMES: Final = props.PROPERTY_TRANSACTION_CHECK_TIMES.encode()
_PREPARED_OFFSET: Final = props.PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET.encode()
_QUEUE_OFFSETS: Final = props.PROPERTY_INNER_MULTI_QUEUE_OFFSET.encode()


def is_prepared(properties: dict[str, str], reconsume_times: int, delay_level: int) -> bool:
    """Return whether a send is a half message: TRAN_MSG=true, except in a retried message.

    **Source:** RocketMQ SendMessageProcessor#sendMessage.
    """
    text = properties.get(props.PROPERTY_TRANSACTION_PREPARED, "")
    return text.lower() == "true" and not (reconsume_times > 0 and delay_level > 0)


def prepare(inner: MessageExtBrokerInner, properties: dict[str, str]) -> None:
    """Redirect a message to the half topic; its real topic and queue go into ``properties``.

    The transaction bits are cleared, so that the record gets a unit in the half queue.
    """
    uniq_key = properties.get(props.PROPERTY_UNIQ_KEY)
    if uniq_key:
        properties[props.PROPERTY_TRANSACTION_ID] = uniq_key
    properties[props.PROPERTY_REAL_TOPIC] = inner.topic
    properties[props.PROPERTY_REAL_QUEUE_ID] = str(inner.queue_id)
    inner.sys_flag = sysflag.with_transaction_type(inner.sys_flag, sysflag.TRANSACTION_NOT_TYPE)
    inner.topic = TRANS_HALF_TOPIC
    inner.queue_id = HALF_QUEUE


def is_half(message: MessageExt) -> bool:
    """Return whether a record is a half message."""
    return message.topic == TRANS_HALF_TOPIC and message.queue_id == HALF_QUEUE


def renew(message: MessageExt, *, immune: bool = False) -> MessageExtBrokerInner:
    """Return the newer copy of a half message, with its check counted.

    ``immune``: the copy is made because of CHECK_IMMUNITY_TIME_IN_SECONDS; it keeps the queue
    offset of the first copy, and counts no check, because no producer is asked: Java counts one,
    and discards a half message with a long immunity time before the first check. Java drops flag
    and reconsumeTimes here; this broker keeps them.
    """
    raw = message.properties_raw
    if not immune:
        times = check_times(message)
        raw = _with(raw, _CHECK_TIMES, 1 if times is None else times + 1)
    elif message.get_property(props.PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET) is None:
        raw = _with(raw, _PREPARED_OFFSET, message.queue_offset)
    return _copy(message, TRANS_HALF_TOPIC, HALF_QUEUE, raw)


def discard(message: MessageExt) -> MessageExtBrokerInner:
    """Return the copy of a half message for TRANS_CHECK_MAX_TIME_TOPIC."""
    return _copy(message, TRANS_CHECK_MAX_TIME_TOPIC, 0, message.properties_raw)


def resume(message: MessageExt) -> MessageExtBrokerInner:
    """Return the half message for a discarded one, with its checks counted from 0."""
    raw = _with(message.properties_raw, _CHECK_TIMES, 0)
    return _copy(message, TRANS_HALF_TOPIC, HALF_QUEUE, raw)


def check_request(
    message: MessageExt, queue_offset: int, physical_offset: int, store_timestamp: int
) -> tuple[dict[str, str], bytes] | None:
    """Return fields and body of CHECK_TRANSACTION_STATE for a renewed half message.

    ``message`` is the renewed copy as it would be read back, the numbers are its position. The
    body is a record with real topic and queue. None if the properties do not name them.

    **Source:** RocketMQ AbstractTransactionalMessageCheckListener#sendCheckMessage.
    """
    place = real_place(message)
    if place is None:
        return None
    shown = MessageExt(
        place[0],
        message.body,
        message.properties_raw,
        queue_id=place[1],
        flag=message.flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host_raw=message.born_host_raw,
        store_timestamp=store_timestamp,
        store_host_raw=message.store_host_raw,
        reconsume_times=message.reconsume_times,
    )
    uniq_key = message.get_property(props.PROPERTY_UNIQ_KEY) or ""
    fields = {
        "topic": TRANS_HALF_TOPIC,
        "tranStateTableOffset": str(queue_offset),
        "commitLogOffset": str(physical_offset),
        "offsetMsgId": shown.offset_msg_id,
    }
    if uniq_key:
        fields.update(msgId=uniq_key, transactionId=uniq_key)
    return fields, encode_record(shown)


def _with(raw: bytes, name: bytes, value: int) -> bytes:
    return set_property(raw, name, str(value).encode())


def _copy(message: MessageExt, topic: str, queue_id: int, raw: bytes) -> MessageExtBrokerInner:
    """Return a copy of a record for another place.

    Queue offsets of other queues belong to the record they were drawn for: a copy that kept them
    would be dispatched to units of the original.
    """
    return MessageExtBrokerInner(
        topic=topic,
        queue_id=queue_id,
        body=message.body,
        properties=remove_property(raw, _QUEUE_OFFSETS),
        flag=message.flag,
        sys_flag=sysflag.with_transaction_type(message.sys_flag, sysflag.TRANSACTION_NOT_TYPE),
        born_timestamp=message.born_timestamp,
        born_host=message.born_host_raw,
        store_host=message.store_host_raw,
        reconsume_times=message.reconsume_times,
    )
