"""Records of message trace: the life of a message as its clients reported it.

A body has records ended by 0x02 with fields separated by 0x01; the first field is the type.

**Source:** RocketMQ TraceDataEncoder#decoderFromTraceDataString, TraceType, TraceTransferBean.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from broker.common.java import INT64_MAX, INT64_MIN, parse_number
from broker.message.message import split_keys

FIELD, RECORD = "\x01", "\x02"
PUB, SUB_BEFORE, SUB_AFTER = "Pub", "SubBefore", "SubAfter"
END_TRANSACTION, RECALL = "EndTransaction", "Recall"

# By ordinal. **Source:** MessageType, ConsumeReturnType.
MESSAGE_TYPES: Final = ("normal", "transactionHalf", "transactionCommit", "delay", "order")
RETURN_TYPES: Final = ("success", "timeOut", "exception", "returnNull", "failed")
_LEAST: Final = {PUB: 12, SUB_BEFORE: 8, SUB_AFTER: 6, END_TRANSACTION: 13, RECALL: 7}


class TraceRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One step of a message: sent (Pub), consumed (SubBefore, SubAfter), EndTransaction, Recall.

    ``status`` is "success", "failed", or for SubAfter how the listener ended; None for SubBefore.
    ``timestamp`` (epoch ms) is the start of the step, ``costMs`` its duration. Fields that a type
    does not have, or an old client does not send, are None.
    """

    trace_type: str
    timestamp: int | None
    group: str | None
    topic: str | None
    msg_id: str
    status: str | None
    cost_ms: int | None
    client_host: str | None
    store_host: str | None = None
    keys: list[str] = []
    tags: str | None = None
    body_size: int | None = None
    message_type: str | None = None
    offset_msg_id: str | None = None
    retry_times: int | None = None
    request_id: str | None = None
    transaction_id: str | None = None
    transaction_state: str | None = None
    from_check: bool | None = None
    region_id: str | None = None

    def concerns(self, text: str) -> bool:
        """Return whether the step is of the message with this id, or this business key."""
        return text in (self.msg_id, self.offset_msg_id) or text in self.keys


def decode_trace(body: bytes, born_host: str) -> Iterator[TraceRow]:
    """Yield the records of a trace message; records of unknown type or shape are left out.

    ``born_host`` is the client of records that name none.
    """
    for text in body.decode("utf-8", "replace").split(RECORD):
        fields = text.split(FIELD)
        if len(fields) < _LEAST.get(fields[0], len(fields) + 1):
            continue
        if fields[0] == PUB:
            yield _pub(fields, born_host)
        elif fields[0] == SUB_BEFORE:
            yield _sub_before(fields, born_host)
        elif fields[0] == SUB_AFTER:
            yield _sub_after(fields, born_host)
        elif fields[0] == END_TRANSACTION:
            yield _end_transaction(fields, born_host)
        else:
            yield _recall(fields, born_host)


def _of_topic(trace_type: str, fields: Sequence[str], born_host: str) -> TraceRow:
    """Return the row of a type that starts with time, region, group, topic and message id."""
    return TraceRow(
        trace_type=trace_type,
        timestamp=_number(fields[1]),
        region_id=_text(fields[2]),
        group=_text(fields[3]),
        topic=_text(fields[4]),
        msg_id=fields[5],
        status=None,
        cost_ms=None,
        client_host=born_host,
    )


def _pub(fields: Sequence[str], born_host: str) -> TraceRow:
    # 12 fields and success up to 4.2, the offsetMsgId before it later, then the client.
    has_offset_id = len(fields) >= 14
    success = fields[13] if has_offset_id else _at(fields, 12)
    return msgspec.structs.replace(
        _of_topic(PUB, fields, born_host),
        tags=_text(fields[6]),
        keys=split_keys(fields[7]),
        store_host=_text(fields[8]),
        body_size=_number(fields[9]),
        cost_ms=_number(fields[10]),
        message_type=_named(fields[11], MESSAGE_TYPES),
        offset_msg_id=_text(fields[12]) if has_offset_id else None,
        status=_status(success),
        client_host=_text(_at(fields, 14)) or born_host,
    )


def _sub_before(fields: Sequence[str], born_host: str) -> TraceRow:
    return TraceRow(
        trace_type=SUB_BEFORE,
        timestamp=_number(fields[1]),
        region_id=_text(fields[2]),
        group=_text(fields[3]),
        topic=None,
        request_id=_text(fields[4]),
        msg_id=fields[5],
        retry_times=_number(fields[6]),
        keys=split_keys(fields[7]),
        status=None,
        cost_ms=None,
        client_host=_text(_at(fields, 8)) or born_host,
    )


def _sub_after(fields: Sequence[str], born_host: str) -> TraceRow:
    code = _at(fields, 6)
    named = None if code is None else _named(code, RETURN_TYPES)
    return TraceRow(
        trace_type=SUB_AFTER,
        request_id=_text(fields[1]),
        msg_id=fields[2],
        cost_ms=_number(fields[3]),
        status=named or _status(fields[4]),
        keys=split_keys(fields[5]),
        timestamp=_number(_at(fields, 7) or ""),
        group=_text(_at(fields, 8)),
        topic=None,
        client_host=born_host,
    )


def _end_transaction(fields: Sequence[str], born_host: str) -> TraceRow:
    return msgspec.structs.replace(
        _of_topic(END_TRANSACTION, fields, born_host),
        tags=_text(fields[6]),
        keys=split_keys(fields[7]),
        store_host=_text(fields[8]),
        message_type=_named(fields[9], MESSAGE_TYPES),
        transaction_id=_text(fields[10]),
        transaction_state=_text(fields[11]),
        from_check=fields[12] == "true",
    )


def _recall(fields: Sequence[str], born_host: str) -> TraceRow:
    return msgspec.structs.replace(_of_topic(RECALL, fields, born_host), status=_status(fields[6]))


def _at(fields: Sequence[str], index: int) -> str | None:
    return fields[index] if index < len(fields) else None


def _text(field: str | None) -> str | None:
    return None if field in (None, "", "null") else field


def _number(field: str) -> int | None:
    return parse_number(field, INT64_MIN, INT64_MAX)


def _status(field: str | None) -> str | None:
    return None if field is None else "success" if field == "true" else "failed"


def _named(field: str, names: Sequence[str]) -> str | None:
    number = _number(field)
    return names[number] if number is not None and 0 <= number < len(names) else None
