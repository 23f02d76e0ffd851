"""The end of a transaction: its validation, and the message that a commit stores.

**Source:** RocketMQ EndTransactionProcessor#checkPrepareMessage, #rejectCommitOrRollback,
#endMessageTransaction.
"""

from typing import Final, NamedTuple

from broker.common import sysflag
from broker.common.java import INT64_MAX, INT64_MIN, parse_number
from broker.message import message as props
from broker.message.message import MessageExt
from broker.message.transaction import real_place
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.header.transaction import EndTransactionRequestHeader
from broker.server.transaction.half import is_half
from broker.store.results import MessageExtBrokerInner

COMMIT: Final = sysflag.TRANSACTION_COMMIT
ROLLBACK: Final = sysflag.TRANSACTION_ROLLBACK


class Refusal(NamedTuple):
    """A response code and its remark."""

    code: int
    remark: str


NOT_FOUND: Final = Refusal(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")


def is_decision(header: EndTransactionRequestHeader) -> bool:
    """Return whether a request commits or rolls back; every other value leaves the half open."""
    return header.commit_or_rollback in (COMMIT, ROLLBACK)


def check_end(
    message: MessageExt, header: EndTransactionRequestHeader, now_ms: int, timeout_ms: int
) -> Refusal | None:
    """Return why a request may not end the transaction of ``message``, None if it may.

    Java accepts any record with these values; a record outside the half topic is refused here,
    because its queue offset would decide another half message.
    """
    if not is_half(message) or real_place(message) is None:
        return NOT_FOUND
    if not header.from_transaction_check and _immunity_over(message, now_ms, timeout_ms):
        return Refusal(
            ResponseCode.ILLEGAL_OPERATION, "the immunity time is over: wait for the check"
        )
    if message.get_property(props.PROPERTY_PRODUCER_GROUP) != header.producer_group:
        return Refusal(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if message.queue_offset != header.tran_state_table_offset:
        return Refusal(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
    if message.physical_offset != header.commit_log_offset:
        return Refusal(ResponseCode.SYSTEM_ERROR, "The commit log offset wrong")
    return None


def _immunity_over(message: MessageExt, now_ms: int, timeout_ms: int) -> bool:
    """Return whether a half message's own immunity time has passed: only checks end it then."""
    text = message.get_property(props.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS)
    if not text:
        return False
    seconds = parse_number(text, INT64_MIN, INT64_MAX)
    immunity_ms = max(timeout_ms, 0 if seconds is None else seconds * 1000)
    return now_ms - message.born_timestamp > immunity_ms


def committed(message: MessageExt) -> MessageExtBrokerInner:
    """Return the message that the commit of a half message stores in its real queue.

    TRAN_MSG, REAL_TOPIC and REAL_QID stay in its properties, as in Java.
    """
    place = real_place(message)
    assert place is not None, "check_end comes first"
    return MessageExtBrokerInner(
        topic=place[0],
        queue_id=place[1],
        body=message.body,
        properties=message.properties_raw,
        flag=message.flag,
        sys_flag=sysflag.with_transaction_type(message.sys_flag, sysflag.TRANSACTION_COMMIT),
        born_timestamp=message.born_timestamp,
        born_host=message.born_host_raw,
        store_host=message.store_host_raw,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.physical_offset,
    )
