"""Values that the client returns: send results, pull results, statuses of listeners.

**Source:** RocketMQ ``SendResult``, ``SendStatus``, ``PullStatus``, ``PopStatus``,
``ConsumeConcurrentlyStatus``, ``ConsumeOrderlyStatus``, ``LocalTransactionState``.
"""

from enum import Enum, StrEnum

import msgspec

from broker.common.message_queue import MessageQueue


class SendStatus(StrEnum):
    """How a message was stored; every status means that it is stored."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message was stored.

    ``msg_id`` the unique key that the client created (of a batch: all, joined by commas),
    ``offset_msg_id`` the broker's id, ``transaction_id`` of a half message, ``recall_handle`` of a
    delayed message that can be recalled (5.x).
    """

    send_status: SendStatus
    msg_id: str
    offset_msg_id: str
    message_queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    recall_handle: str | None = None
    region_id: str | None = None
    trace_on: bool = True


class LocalTransactionState(Enum):
    """The decision about a half message; the value is ``commitOrRollback`` of END_TRANSACTION."""

    UNKNOWN = 0
    COMMIT_MESSAGE = 8
    ROLLBACK_MESSAGE = 12


class ConsumeConcurrentlyStatus(Enum):
    """The result of a concurrent listener."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class ConsumeOrderlyStatus(Enum):
    """The result of an orderly listener.

    With ``context.auto_commit = False`` SUCCESS commits nothing: COMMIT commits everything since
    the last commit, ROLLBACK delivers it again. With automatic commit the two count as SUCCESS.
    """

    SUCCESS = "SUCCESS"
    ROLLBACK = "ROLLBACK"
    COMMIT = "COMMIT"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class PopStatus(StrEnum):
    """The outcome of a pop."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    POLLING_FULL = "POLLING_FULL"
    POLLING_NOT_FOUND = "POLLING_NOT_FOUND"


class PullStatus(StrEnum):
    """The outcome of a pull."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"
