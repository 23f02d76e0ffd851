"""Topics on a broker."""

from broker.remoting.protocol.header.fields import (
    Int32,
    ResponseHeader,
    TopicRequestHeader,
)


class TopicNameRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """Codes 202, 215, 217, 300 and 351: a topic.

    **Source:** RocketMQ ``GetTopicStatsInfoRequestHeader``, ``DeleteTopicRequestHeader``,
    ``RegisterTopicRequestHeader``, ``QueryTopicConsumeByWhoRequestHeader``,
    ``GetTopicConfigRequestHeader``.
    """

    topic: str


class CreateTopicRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """UPDATE_AND_CREATE_TOPIC (17), UPDATE_AND_CREATE_STATIC_TOPIC (513).

    ``attributes`` (5.x) comma list of ``+name=value`` and ``-name``; ``force`` static topics only.

    **Source:** RocketMQ ``CreateTopicRequestHeader``.
    """

    topic: str
    default_topic: str = "TBW102"
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class GetAllTopicConfigRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_ALL_TOPIC_CONFIG (21); without fields all topics are returned at once.

    ``topic_seq`` first topic of the page; ``data_version`` JSON.

    **Source:** RocketMQ ``GetAllTopicConfigRequestHeader`` (after 5.3.3).
    """

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 21 from a broker that supports paging.

    **Source:** RocketMQ ``GetAllTopicConfigResponseHeader`` (after 5.3.3).
    """

    total_topic_num: Int32 | None = None
