"""Pull requests."""

from broker.remoting.protocol.header.fields import (
    Int32,
    Int64,
    ResponseHeader,
    TopicRequestHeader,
)


class PullMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """PULL_MESSAGE (11), LITE_PULL_MESSAGE (361).

    ``queue_offset`` first requested offset; ``sys_flag`` 1 commit, 2 suspend, 4 subscription, 8
    class filter, 16 lite; ``commit_offset`` used with flag 1; ``suspend_timeout_millis`` ms, with
    flag 2; ``subscription`` with flag 4; ``sub_version`` ms; ``expression_type`` TAG or SQL92;
    5.x proxies set ``request_source`` and ``proxy_froward_client_id`` (Java's spelling).

    **Source:** RocketMQ ``PullMessageRequestHeader``.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None


class PullMessageResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to a pull with code 0, 19, 20 or 21.

    ``forbidden_type`` is set with NO_PERMISSION only: 1 broker, 2 group, 3 topic, 4 broadcast,
    5 subscription; ``offset_delta`` with static topics.

    **Source:** RocketMQ ``PullMessageResponseHeader``.
    """

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None
