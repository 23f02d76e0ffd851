"""The running information of a consumer, requested through the broker; times in ms."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from msgspec import field

from broker.common.message_queue import MessageQueue
from broker.common.subscription import SubscriptionData
from broker.remoting.protocol.body.base import Body


class ProcessQueueInfo(Body, frozen=True, kw_only=True):
    """A pulled queue in a client; ``droped`` is the wire spelling.

    **Source:** RocketMQ ``ProcessQueueInfo``.
    """

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = field(name="cachedMsgSizeInMiB", default=0)
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class PopProcessQueueInfo(Body, frozen=True, kw_only=True):
    """A popped queue in a client (5.x).

    **Source:** RocketMQ ``PopProcessQueueInfo``.
    """

    wait_ack_count: int = 0
    droped: bool = False
    last_pop_timestamp: int = 0


class ConsumeStatus(Body, frozen=True, kw_only=True):
    """Rates per second and times in ms of one topic in a client.

    **Source:** RocketMQ ``ConsumeStatus``.
    """

    pull_rt: float = field(name="pullRT", default=0.0)
    pull_tps: float = field(name="pullTPS", default=0.0)
    consume_rt: float = field(name="consumeRT", default=0.0)
    consume_ok_tps: float = field(name="consumeOKTPS", default=0.0)
    consume_failed_tps: float = field(name="consumeFailedTPS", default=0.0)
    consume_failed_msgs: int = 0


class ConsumerRunningInfo(Body, frozen=True, kw_only=True):
    """GET_CONSUMER_RUNNING_INFO (307).

    mqadmin needs the properties PROP_CONSUME_TYPE, PROP_CONSUMER_START_TIMESTAMP and
    PROP_CONSUMEORDERLY. ``jstack`` is set only on request.

    **Source:** RocketMQ ``ConsumerRunningInfo``.
    """

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionData] = []
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = {}
    status_table: dict[str, ConsumeStatus] = {}
    user_consumer_info: dict[str, str] = {}
    jstack: str | None = None


class ConsumeMessageDirectlyResult(Body, frozen=True, kw_only=True):
    """CONSUME_MESSAGE_DIRECTLY (309).

    ``consume_result`` CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION or
    CR_RETURN_NULL; ``spent_time_mills`` ms.

    **Source:** RocketMQ ``ConsumeMessageDirectlyResult``.
    """

    order: bool = False
    auto_commit: bool = True
    consume_result: str | None = None
    remark: str | None = None
    spent_time_mills: int = 0
