"""Message queries: by key (12) and by physical offset (33).

**Source:** RocketMQ QueryMessageProcessor.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.remoting.direct import DirectAnswer
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.framing import encode_reply_json
from broker.remoting.protocol.serialize import decode_json_header
from broker.server.context import BrokerContext
from broker.server.processor.responses import bad_field, number_field

if TYPE_CHECKING:
    from broker.remoting.server import Connection

Answer = RemotingCommand | bytes

MAX_QUERY_MESSAGES = 1_000  # per response, whatever the client requests
MAX_QUERY_BYTES = 4 * 1024 * 1024  # per response, but at least one record; a frame has 16 MiB


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
    if limit <= 0:
        begin, end = 0, -1  # an empty time range: the store is asked for at least one message
    result = context.store.query_message(topic, key, max(1, limit), begin, end)
    records: Sequence[memoryview] = result.buffers
    if len(records) > 1:
        records = _fitting(records)
    ext_json = b'{"indexLastUpdatePhyoffset":"%d","indexLastUpdateTimestamp":"%d"}' % (
        result.index_last_update_physical_offset,
        result.index_last_update_timestamp,
    )
    size = sum(map(len, records))
    if not size:
        remark = b'"can not find message, maybe time range not correct"'
        return encode_reply_json(
            request.opaque, ResponseCode.QUERY_NOT_FOUND, ext_json, remark_json=remark
        )
    remark = b""
    if len(records) < len(result.buffers):
        remark = b'"cut to %d of %d messages: narrow the time range"' % (
            len(records),
            len(result.buffers),
        )
    head = encode_reply_json(request.opaque, 0, ext_json, remark_json=remark, body_size=size)
    return b"".join((head, *records))


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
    return b"".join((encode_reply_json(request.opaque, 0, b"{}", body_size=len(record)), record))


def direct_answers(context: BrokerContext) -> dict[int, DirectAnswer]:
    """Return the handlers of the direct path; refusals are left to the ordinary path."""

    def bound(
        handler: Callable[[BrokerContext, "Connection", RemotingCommand], Answer],
    ) -> DirectAnswer:
        def answer(connection: "Connection", header: bytes) -> bytes | None:
            request = decode_json_header(header)
            found = None if request.flag else handler(context, connection, request)
            return found if type(found) is bytes else None

        return answer

    return {code: bound(handler) for code, handler in HANDLERS.items()}


HANDLERS = {
    RequestCode.QUERY_MESSAGE: query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: view_message,
}
