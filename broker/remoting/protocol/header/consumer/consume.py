"""Consumption state: lag, subscribers, time spans, statistics."""

from broker.remoting.protocol.header.fields import Int64, RequestHeader


class GetConsumeStatsRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_CONSUME_STATS (208); ``topic_list`` (5.x) contains topics separated by ``;``.

    **Source:** RocketMQ ``GetConsumeStatsRequestHeader``.
    """

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class GetBrokerConsumeStatsRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_BROKER_CONSUME_STATS (317).

    **Source:** RocketMQ ``GetConsumeStatsInBrokerHeader``.
    """

    is_order: bool


class QueryConsumeTimeSpanRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """QUERY_CONSUME_TIME_SPAN (303).

    **Source:** RocketMQ ``QueryConsumeTimeSpanRequestHeader``.
    """

    topic: str
    group: str


class QueryCorrectionOffsetRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """QUERY_CORRECTION_OFFSET (308); ``filter_groups`` separated by commas.

    **Source:** RocketMQ ``QueryCorrectionOffsetHeader``.
    """

    filter_groups: str | None = None
    compare_group: str
    topic: str


class QueryTopicsByConsumerRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """QUERY_TOPICS_BY_CONSUMER (343).

    **Source:** RocketMQ ``QueryTopicsByConsumerRequestHeader``.
    """

    group: str


class QuerySubscriptionByConsumerRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345).

    **Source:** RocketMQ ``QuerySubscriptionByConsumerRequestHeader``.
    """

    group: str
    topic: str | None = None


class ViewBrokerStatsDataRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """VIEW_BROKER_STATS_DATA (315), e.g. TOPIC_PUT_NUMS and a topic.

    **Source:** RocketMQ ``ViewBrokerStatsDataRequestHeader``.
    """

    stats_name: str
    stats_key: str


class CheckRocksdbCqWriteProgressRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CHECK_ROCKSDB_CQ_WRITE_PROGRESS (354); ``check_store_time`` ms.

    **Source:** RocketMQ ``CheckRocksdbCqWriteProgressRequestHeader``.
    """

    topic: str
    check_store_time: Int64 | None = None
