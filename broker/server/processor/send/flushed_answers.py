"""Send responses that wait until their records are flushed, replicated, or both.

All responses of one event-loop iteration wait for one group commit and one offset of the slaves.
Only the opaque of a request is kept, because its message is in the log already.

**Source:** RocketMQ CommitLog.GroupCommitService, SendMessageProcessor#handlePutMessageResult.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import encode_reply_json
from broker.server.context import BrokerContext
from broker.store.results import PutMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection

STATUS_CODES: Final = {
    "PUT_OK": ResponseCode.SUCCESS,
    "FLUSH_DISK_TIMEOUT": ResponseCode.FLUSH_DISK_TIMEOUT,
    "FLUSH_SLAVE_TIMEOUT": ResponseCode.FLUSH_SLAVE_TIMEOUT,
    "SLAVE_NOT_AVAILABLE": ResponseCode.SLAVE_NOT_AVAILABLE,
    "SERVICE_NOT_AVAILABLE": ResponseCode.SERVICE_NOT_AVAILABLE,
    "MESSAGE_ILLEGAL": ResponseCode.MESSAGE_ILLEGAL,
    "PROPERTIES_SIZE_EXCEEDED": ResponseCode.MESSAGE_ILLEGAL,
    "WHEEL_TIMER_MSG_ILLEGAL": ResponseCode.MESSAGE_ILLEGAL,
    "OS_PAGE_CACHE_BUSY": ResponseCode.SYSTEM_BUSY,
    "IN_SYNC_REPLICAS_NOT_ENOUGH": ResponseCode.SYSTEM_ERROR,
}
STORED: Final = {
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
}


class FlushedAnswers:
    """Waiting responses; ``refuse(opaque, code, remark)`` makes the response to a failed put."""

    def __init__(
        self, context: BrokerContext, refuse: Callable[[int, int, str], RemotingCommand]
    ) -> None:
        self._context = context
        self._refuse = refuse
        self._waiting: list[tuple[Connection, int, bytes]] = []
        self._end = 0
        self._joining = False

    def wait(
        self, connection: "Connection", request: RemotingCommand, ext_json: bytes, end: int
    ) -> None:
        """Respond to a request once the log is flushed up to the physical offset ``end``."""
        if not request.is_oneway:
            self._waiting.append((connection, request.opaque, ext_json))
        self._end = max(self._end, end)
        if not self._joining:
            self._joining = True
            self._context.soon(self._join_group_commit)

    def _join_group_commit(self) -> None:
        self._joining = False
        waiting, self._waiting = self._waiting, []

        def flushed(status: PutMessageStatus) -> None:
            code = STATUS_CODES.get(status.name, ResponseCode.SYSTEM_ERROR)
            for connection, opaque, ext_json in waiting:
                if code in STORED:  # ids and offsets are valid even if the flush timed out
                    connection.send(encode_reply_json(opaque, code, ext_json))
                else:
                    remark = f"the store answered {status.name}"
                    connection.send(self._refuse(opaque, code, remark))

        self._context.durability.await_stored(self._end, flushed)
