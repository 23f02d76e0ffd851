"""END_TRANSACTION (37) and RESUME_CHECK_HALF_MESSAGE (323).

**Source:** RocketMQ EndTransactionProcessor, AdminBrokerProcessor#resumeCheckHalfMessage.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker.common.sysflag import TRANSACTION_NOT_TYPE
from broker.errors import RemoteProtocolError
from broker.message.message_id import parse_offset_msg_id
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.transaction import (
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from broker.server.context import BrokerContext
from broker.server.transaction.end import COMMIT, is_decision

if TYPE_CHECKING:
    from broker.remoting.server import Connection


async def _answer_stored(
    context: BrokerContext, answer: RemotingCommand, physical_offset: int
) -> RemotingCommand:
    """Return the answer when the log from there on is stored; a timeout does not change it."""
    await context.durability.stored(context.store.max_physical_offset, physical_offset + 1)
    return answer


def end_transaction(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand | Awaitable[RemotingCommand] | None:
    """END_TRANSACTION: commit or roll back; no response at all to "unknown"."""
    header = decode_header_fields(EndTransactionRequestHeader, request.ext_fields)
    if context.transactions is None or context.config.broker_id != 0:
        remark = "Message store is slave mode, so end transaction is forbidden"
        return response(request, ResponseCode.SLAVE_NOT_AVAILABLE, remark)
    if header.commit_or_rollback == TRANSACTION_NOT_TYPE:
        return None
    if not is_decision(header):
        remark = f"commitOrRollback {header.commit_or_rollback}: 8 commits, 12 rolls back"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    lacking = context.durability.refusal()
    if lacking is not None and header.commit_or_rollback == COMMIT:
        return response(request, ResponseCode.SYSTEM_ERROR, lacking.name)
    begin = context.store.max_physical_offset
    code, remark = context.transactions.end(header)
    answer = response(request, code, remark or None)
    if request.is_oneway or not context.durability.waits:
        return answer
    return _answer_stored(context, answer, begin)


def resume_check(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand | Awaitable[RemotingCommand]:
    """RESUME_CHECK_HALF_MESSAGE: put a discarded half message back, its checks counted from 0."""
    header = decode_header_fields(ResumeCheckHalfMessageRequestHeader, request.ext_fields)
    if context.transactions is None:
        remark = "this broker does not serve transactions"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    try:
        _, _, physical_offset = parse_offset_msg_id(header.msg_id or "")
    except RemoteProtocolError as error:
        return response(request, ResponseCode.SYSTEM_ERROR, error.message)
    begin = context.store.max_physical_offset
    code, remark = context.transactions.resume(physical_offset)
    answer = response(request, code, remark or None)
    return _answer_stored(context, answer, begin) if context.durability.waits else answer


HANDLERS = {
    RequestCode.END_TRANSACTION: end_transaction,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: resume_check,
}
