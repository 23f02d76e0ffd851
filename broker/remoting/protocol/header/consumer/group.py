"""Subscription groups on a broker."""

from broker.remoting.protocol.header.fields import Int32, RequestHeader, ResponseHeader


class DeleteSubscriptionGroupRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """DELETE_SUBSCRIPTIONGROUP (207).

    The field is named ``removeOffset`` in 4.9 and ``cleanOffset`` in 5.x: a caller sends both, a
    broker accepts either (``cleans``).

    **Source:** RocketMQ ``DeleteSubscriptionGroupRequestHeader``.
    """

    group_name: str
    clean_offset: bool | None = None
    remove_offset: bool | None = None

    @property
    def cleans(self) -> bool:
        """Whether to delete the group's offsets as well."""
        return bool(self.clean_offset or self.remove_offset)


class GetAllSubscriptionGroupRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201); without fields all groups are returned at once.

    **Source:** RocketMQ ``GetAllSubscriptionGroupRequestHeader`` (after 5.3.3).
    """

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 201 from a broker that supports paging.

    **Source:** RocketMQ ``GetAllSubscriptionGroupResponseHeader`` (after 5.3.3).
    """

    total_group_num: Int32 | None = None


class GetSubscriptionGroupConfigRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_SUBSCRIPTIONGROUP_CONFIG (352).

    **Source:** RocketMQ ``GetSubscriptionGroupConfigRequestHeader``.
    """

    group: str


class UpdateGroupForbiddenRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """UPDATE_AND_GET_GROUP_FORBIDDEN (353); without ``readable`` nothing is changed.

    **Source:** RocketMQ ``UpdateGroupForbiddenRequestHeader``.
    """

    group: str
    topic: str
    readable: bool | None = None
