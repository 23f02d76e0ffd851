"""Values that the client returns: send results, pull results, statuses of listeners.

**Source:** RocketMQ ``SendResult``, ``SendStatus``, ``PullStatus``, ``PopStatus``,
``ConsumeConcurrentlyStatus``, ``ConsumeOrderlyStatus``, ``LocalTransactionState``.
"""

from enum import Enum, StrEnum

from broker.remoting.rpc.send_response import SendResult as SendResult
from broker.remoting.rpc.send_response import SendStatus as SendStatus


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
