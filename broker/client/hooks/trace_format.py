"""The body of trace messages; pure text.

::

    field 0x01 field 0x01 … 0x02 record 0x02 …

Pub         time region group topic msgId tags keys storeHost bodyLength cost msgType offsetMsgId
            success clientHost
SubBefore   time region group requestId msgId retryTimes keys clientHost
SubAfter    requestId msgId cost success keys contextCode time group
EndTransaction
            time region group topic msgId tags keys storeHost msgType transactionId state fromCheck

**Source:** RocketMQ ``TraceDataEncoder#encoderFromContextBean``.
"""

from broker.client.hooks.events import (
    TRANS_MSG_COMMIT,
    ConsumeEvent,
    EndTransactionEvent,
    SendEvent,
)
from broker.message.message import PROPERTY_KEYS, PROPERTY_MSG_REGION

FIELD, RECORD = "\x01", "\x02"
DEFAULT_REGION = "DefaultRegion"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _record(*fields: object) -> str:
    return FIELD.join(map(str, fields)) + RECORD


def encode_publish(event: SendEvent, client_host: str) -> str:
    """Return the record of one send."""
    result = event.result
    return _record(
        "Pub",
        event.born_ms,
        (result.region_id if result else None) or DEFAULT_REGION,
        event.group,
        event.topic,
        event.msg_id,
        event.tags,
        event.keys,
        event.address,
        event.body_bytes,
        int(event.cost_ms),
        event.message_type,
        result.offset_msg_id if result else "",
        _flag(result is not None),
        client_host,
    )


def encode_consume(event: ConsumeEvent, client_host: str) -> str:
    """Return one record per message of a listener call: SubBefore at its start, SubAfter at its
    end.
    """
    parts = []
    for message in event.messages:
        msg_id = message.uniq_key or message.offset_msg_id
        keys = message.get_property(PROPERTY_KEYS) or ""
        if event.before:
            region = message.get_property(PROPERTY_MSG_REGION) or DEFAULT_REGION
            parts.append(
                _record(
                    "SubBefore",
                    event.at_ms,
                    region,
                    event.group,
                    event.request_id,
                    msg_id,
                    message.reconsume_times,
                    keys,
                    client_host,
                )
            )
            continue
        parts.append(
            _record(
                "SubAfter",
                event.request_id,
                msg_id,
                int(event.cost_ms / max(1, len(event.messages))),
                _flag(event.success),
                keys,
                event.context_code,
                event.at_ms,
                event.group,
            )
        )
    return "".join(parts)


def encode_end_transaction(event: EndTransactionEvent) -> str:
    """Return the record of a decision; the type is that of a commit for each state, as in Java."""
    return _record(
        "EndTransaction",
        event.at_ms,
        event.region_id or DEFAULT_REGION,
        event.group,
        event.topic,
        event.msg_id,
        event.tags,
        event.keys,
        event.address,
        TRANS_MSG_COMMIT,
        event.transaction_id,
        event.state.name,
        _flag(event.from_check),
    )


def keys_of(event: SendEvent | ConsumeEvent | EndTransactionEvent) -> set[str]:
    """Return the index keys of a record: message ids and the user's keys."""
    if not isinstance(event, ConsumeEvent):
        return {event.msg_id, *event.keys.split()}
    found: set[str] = set()
    for message in event.messages:
        found.add(message.uniq_key or message.offset_msg_id)
        found.update(message.keys)
    return found
