"""Transactions: end, check, resume checking."""

from broker.remoting.protocol.header.fields import Int32, Int64, TopicRequestHeader


class EndTransactionRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """END_TRANSACTION (37).

    ``tran_state_table_offset`` queue offset of the half message; ``commit_log_offset`` its physical
    offset; ``commit_or_rollback`` 8 commit, 12 rollback, 0 unknown; ``msg_id`` unique key.

    **Source:** RocketMQ ``EndTransactionRequestHeader``.
    """

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None


class CheckTransactionStateRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """CHECK_TRANSACTION_STATE (39), broker to producer: query the state of a half message.

    **Source:** RocketMQ ``CheckTransactionStateRequestHeader``.
    """

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """RESUME_CHECK_HALF_MESSAGE (323): check a discarded half message again.

    ``msg_id`` offset message id of the record in TRANS_CHECK_MAX_TIME_TOPIC.

    **Source:** RocketMQ ``ResumeCheckHalfMessageRequestHeader``.
    """

    topic: str | None = None
    msg_id: str | None = None
