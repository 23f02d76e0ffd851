"""Looking messages up: by key (12) and by physical offset (33).

**Source:** RocketMQ QueryMessageProcessor.
"""

from typing import TYPE_CHECKING

from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.framing import encode_reply_json
from broker.server.context import BrokerContext
from broker.server.processor.answer import bad_field

if TYPE_CHECKING:
    from broker.remoting.server import Connection

Answer = RemotingCommand | bytes

MAX_QUERY_MESSAGES = 1_000  # of one answer, whatever the client asks for


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
            limit = min(int(ext["maxNum"]), MAX_QUERY_MESSAGES)
        begin, end = int(ext["beginTimestamp"]), int(ext["endTimestamp"])
    except (KeyError, ValueError) as error:
        return bad_field(request, error)
    if limit <= 0:
        begin, end = 0, -1  # asking for none finds none
    result = context.store.query_message(topic, key, max(1, limit), begin, end)
    ext_json = b'{"indexLastUpdatePhyoffset":"%d","indexLastUpdateTimestamp":"%d"}' % (
        result.index_last_update_physical_offset,
        result.index_last_update_timestamp,
    )
    size = sum(map(len, result.buffers))
    if not size:
        remark = b'"can not find message, maybe time range not correct"'
        return encode_reply_json(
            request.opaque, ResponseCode.QUERY_NOT_FOUND, ext_json, remark_json=remark
        )
    head = encode_reply_json(request.opaque, 0, ext_json, body_size=size)
    return b"".join((head, *result.buffers))


def view_message(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Answer:
    """VIEW_MESSAGE_BY_ID: the record at a physical offset."""
    try:
        offset = int(request.ext_fields["offset"])
    except (KeyError, ValueError) as error:
        return bad_field(request, error)
    record = context.store.look_message(offset)
    if record is None:
        remark = f"can not find message by the offset, {offset}"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    return b"".join((encode_reply_json(request.opaque, 0, b"{}", body_size=len(record)), record))


HANDLERS = {
    RequestCode.QUERY_MESSAGE: query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: view_message,
}
