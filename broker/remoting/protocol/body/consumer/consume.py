"""Consumption: progress, time spans, ConsumeQueue units, statistics; times in ms."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from broker.common.message_queue import MessageQueue
from broker.common.subscription import SubscriptionData
from broker.remoting.protocol.body.base import Body


class OffsetWrapper(Body, frozen=True, kw_only=True):
    """One queue's progress: lag = broker - consumer offset, in flight = pull - consumer offset.

    ``pull_offset`` is 5.x; ``last_timestamp`` store time of the last consumed message, 0 if none.

    **Source:** RocketMQ ``OffsetWrapper``.
    """

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0


class ConsumeStats(Body, frozen=True, kw_only=True):
    """GET_CONSUME_STATS (208).

    **Source:** RocketMQ ``ConsumeStats``.
    """

    offset_table: dict[MessageQueue, OffsetWrapper] = {}
    consume_tps: float = 0.0


class ConsumeStatsList(Body, frozen=True, kw_only=True):
    """GET_BROKER_CONSUME_STATS (317): per entry a group and its statistics by topic.

    **Source:** RocketMQ ``ConsumeStatsList``.
    """

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    broker_addr: str | None = None
    total_diff: int = 0
    total_inflight_diff: int | None = None


class QueueTimeSpan(Body, frozen=True, kw_only=True):
    """Store times of one queue's first, last and consumed message; ``delay_time`` lag in ms.

    **Source:** RocketMQ ``QueueTimeSpan``.
    """

    message_queue: MessageQueue | None = None
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0


class QueryConsumeTimeSpanBody(Body, frozen=True, kw_only=True):
    """QUERY_CONSUME_TIME_SPAN (303); Java's formatted times are kept in ``extra``.

    **Source:** RocketMQ ``QueryConsumeTimeSpanBody``.
    """

    consume_time_span_set: list[QueueTimeSpan] = []


class QueryCorrectionOffsetBody(Body, frozen=True, kw_only=True):
    """QUERY_CORRECTION_OFFSET (308): queue id to queue offset.

    **Source:** RocketMQ ``QueryCorrectionOffsetBody``.
    """

    correction_offsets: dict[int, int] = {}


class QuerySubscriptionResponseBody(Body, frozen=True, kw_only=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345); no subscription when the group is offline.

    **Source:** RocketMQ ``QuerySubscriptionResponseBody``.
    """

    subscription_data: SubscriptionData | None = None
    group: str | None = None
    topic: str | None = None


class ConsumeQueueData(Body, frozen=True, kw_only=True):
    """One unit: physical offset, record size, tag hash; ``eval`` result of the filter.

    **Source:** RocketMQ ``ConsumeQueueData``.
    """

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueResponseBody(Body, frozen=True, kw_only=True):
    """QUERY_CONSUME_QUEUE (321).

    **Source:** RocketMQ ``QueryConsumeQueueResponseBody``.
    """

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] | None = None
    max_queue_index: int = 0
    min_queue_index: int = 0


class BrokerStatsItem(Body, frozen=True, kw_only=True):
    """Sum, rate per second and average per call of one window.

    **Source:** RocketMQ ``BrokerStatsItem``.
    """

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body, frozen=True, kw_only=True):
    """VIEW_BROKER_STATS_DATA (315).

    **Source:** RocketMQ ``BrokerStatsData``.
    """

    stats_minute: BrokerStatsItem = BrokerStatsItem()
    stats_hour: BrokerStatsItem = BrokerStatsItem()
    stats_day: BrokerStatsItem = BrokerStatsItem()
