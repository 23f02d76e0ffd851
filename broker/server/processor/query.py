"""Message queries: by key (12) and by physical offset (33).

**Source:** RocketMQ QueryMessageProcessor.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from broker.common.java import INT32_MAX, INT32_MIN, parse_number
from broker.remoting.direct import DirectAnswer, DirectHeader
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.framing import PREFIX, encode_reply_json, reply_format
from broker.remoting.protocol.serialize import decode_json_header
from broker.server.context import BrokerContext
from broker.server.processor.responses import bad_field, number_field

if TYPE_CHECKING:
    from broker.remoting.server import Connection

Answer = RemotingCommand | bytes

_INDEX: Final = b'{"indexLastUpdatePhyoffset":"%d","indexLastUpdateTimestamp":"%d"}'
_FOUND: Final = reply_format(ResponseCode.SUCCESS, _INDEX)
_RECORD: Final = reply_format(ResponseCode.SUCCESS, b"{}")
MAX_QUERY_MESSAGES = 1_000  # per response, whatever the client requests
MAX_QUERY_BYTES = 4 * 1024 * 1024  # per response, but at least one record; a frame has 16 MiB


class _KeyRange(NamedTuple):
    """A query by key: at most so many messages, and their storeTimestamp (ms)."""

    topic: str
    key: str
    limit: int
    begin: int
    end: int


def query_message(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Answer:
    """QUERY_MESSAGE: every record whose index hash matches; the caller compares the keys."""
    ext = request.ext_fields
    try:
        topic, key = ext["topic"], ext["key"]
        if ext.get("_UNIQUE_KEY_QUERY") == "true":
            limit = context.config.default_query_max_num
        else:
            limit = min(number_field(ext, "maxNum"), MAX_QUERY_MESSAGES)
        begin, end = number_field(ext, "beginTimestamp"), number_field(ext, "endTimestamp")
    except (KeyError, ValueError) as error:
        return bad_field(request, error)
    return _answer(context, request.opaque, _KeyRange(topic, key, limit, begin, end))


def _answer(context: BrokerContext, opaque: int, asked: _KeyRange) -> bytes:
    topic, key, limit, begin, end = asked
    if limit <= 0:
        begin, end, limit = 0, -1, 1  # an empty time range: 1 is the least limit of the store
    result = context.store.query_message(topic, key, limit, begin, end)
    records: Sequence[memoryview] = result.buffers
    if len(records) > 1:
        records = _fitting(records)
    size = sum(map(len, records))
    index = result.index_last_update_physical_offset, result.index_last_update_timestamp
    if not size:
        remark = b'"can not find message, maybe time range not correct"'
        return encode_reply_json(
            opaque, ResponseCode.QUERY_NOT_FOUND, _INDEX % index, remark_json=remark
        )
    if len(records) < len(result.buffers):
        remark = b'"cut to %d of %d messages: narrow the time range"' % (
            len(records),
            len(result.buffers),
        )
        head = encode_reply_json(opaque, 0, _INDEX % index, remark_json=remark, body_size=size)
        return b"".join((head, *records))
    return _frame(_FOUND % (*index, opaque), size, *records)


def _frame(header: bytes, size: int, *records: memoryview) -> bytes:
    length = len(header)
    return b"".join((PREFIX.pack(4 + length + size, length), header, *records))


def _fitting(records: Sequence[memoryview]) -> Sequence[memoryview]:
    """Return the newest records that fit into one response, oldest first."""
    size = 0
    for place in range(len(records) - 1, -1, -1):
        size += len(records[place])
        if size > MAX_QUERY_BYTES and place < len(records) - 1:
            return records[place + 1 :]
    return records


def view_message(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Answer:
    """VIEW_MESSAGE_BY_ID: the record at a physical offset."""
    try:
        offset = number_field(request.ext_fields, "offset")
    except (KeyError, ValueError) as error:
        return bad_field(request, error)
    record = context.store.get_record_at(offset)
    if record is None:
        remark = f"can not find message by the offset, {offset}"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    return _frame(_RECORD % request.opaque, len(record), record)


class _KeyFields(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, rename="camel"):
    """The ext fields of a direct query; numbers as text: msgspec also reads "1e3"."""

    topic: str
    key: str
    max_num: str
    begin_timestamp: str
    end_timestamp: str
    bname: str | None = None
    unique_key_query: str | None = msgspec.field(name="_UNIQUE_KEY_QUERY", default=None)


class _KeyQuery(DirectHeader, frozen=True, kw_only=True, gc=False):
    """The JSON header of a direct query."""

    code: Literal[12]
    ext_fields: _KeyFields


_decode_query: Final = msgspec.json.Decoder(_KeyQuery, strict=False).decode


def direct_answers(context: BrokerContext) -> dict[int, DirectAnswer]:
    """Return the handlers of the direct path; refusals are left to the ordinary path."""

    def query(connection: "Connection", header: bytes) -> tuple[int, list[bytes]] | None:
        try:
            request = _decode_query(header)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        fields = request.ext_fields
        limit = parse_number(fields.max_num, INT32_MIN, INT32_MAX)
        begin, end = parse_number(fields.begin_timestamp), parse_number(fields.end_timestamp)
        if limit is None or begin is None or end is None:
            return None
        if fields.unique_key_query == "true":
            limit = context.config.default_query_max_num
        elif limit > MAX_QUERY_MESSAGES:
            limit = MAX_QUERY_MESSAGES
        asked = _KeyRange(fields.topic, fields.key, limit, begin, end)
        found = _answer(context, request.opaque, asked)
        return len(found), [found]

    def view(connection: "Connection", header: bytes) -> tuple[int, list[bytes]] | None:
        request = decode_json_header(header)
        if request.flag or request.code != RequestCode.VIEW_MESSAGE_BY_ID:
            return None
        found = view_message(context, connection, request)
        return (len(found), [found]) if type(found) is bytes else None

    return {RequestCode.QUERY_MESSAGE: query, RequestCode.VIEW_MESSAGE_BY_ID: view}


HANDLERS = {
    RequestCode.QUERY_MESSAGE: query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: view_message,
}
