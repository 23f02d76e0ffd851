"""A message as the Java tool prints it.

**Source:** RocketMQ ``MessageExt#toString``, ``QueryMsgByIdSubCommand#printMsg``.
"""

import time
from collections.abc import Mapping

from broker.message.message import MessageExt


def message_line(message: MessageExt, broker_name: str, body: str | None) -> str:
    """Return the line of one message; ``body`` is its text, None to leave it out."""
    text = message_text(message, broker_name, _payload(message))
    uniq_key = message.uniq_key or message.offset_msg_id
    return f"MSGID: {uniq_key} {text} BODY: {'' if body is None else body}"


def message_text(message: MessageExt, broker_name: str, body: bytes | None) -> str:
    """Return a message with all its fields; the body as signed numbers, ``null`` for None."""
    payload = "null"
    if body is not None:
        payload = f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in body)}]"
    inner = (
        f"Message{{topic='{message.topic}', flag={message.flag}, "
        f"properties={properties_text(message.properties)}, body={payload}, "
        f"transactionId='{message.properties.get('__transactionId__', 'null')}'}}"
    )
    return (
        f"MessageExt [brokerName={broker_name}, "
        f"queueId={message.queue_id}, storeSize={message.total_size}, "
        f"queueOffset={message.queue_offset}, sysFlag={message.sys_flag}, "
        f"bornTimestamp={message.born_timestamp}, bornHost=/{message.born_host}, "
        f"storeTimestamp={message.store_timestamp}, storeHost=/{message.store_host}, "
        f"msgId={message.offset_msg_id}, commitLogOffset={message.physical_offset}, "
        f"bodyCRC={message.body_crc}, reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_transaction_offset}, toString()={inner}]"
    )


def _payload(message: MessageExt) -> bytes:
    return bytes(message.payload())


def decoded(message: MessageExt, charset: str) -> str:
    """Return the body as text; bytes that are not valid in the charset are replaced."""
    return _payload(message).decode(charset, "replace")


def properties_text(properties: Mapping[str, str]) -> str:
    """Format a map as Java does: ``{a=1, b=2}``."""
    return "{" + ", ".join(f"{name}={value}" for name, value in properties.items()) + "}"


def stamp(timestamp_ms: int) -> str:
    """Format a time in the local zone with milliseconds: ``2026-01-02 03:04:05,678``."""
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp_ms // 1000))
    return f"{text},{timestamp_ms % 1000:03d}"
