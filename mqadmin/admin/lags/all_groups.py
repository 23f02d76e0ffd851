"""The lag of every consumer group, one record per group and topic."""

from collections.abc import Sequence

import msgspec

from broker.common.group import is_system_group
from mqadmin.admin.lags.queues import queues_of_all_groups
from mqadmin.admin.offset.progress import AHEAD, NO_OFFSET, OK, UNKNOWN, QueueProgress
from mqadmin.admin.result import Listing
from mqadmin.admin.session import AdminSession

#: The state of a record is the first of these that a queue has.
_STATES = (UNKNOWN, NO_OFFSET, AHEAD)


class GroupLag(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One group on one topic over all brokers that responded.

    ``lag`` is the sum over the queues with a committed offset, ``maxLag`` the largest of them;
    None: no such queue. ``noOffset`` queues have messages and no committed offset: their lag is
    not known. ``lastTimestamp`` is the latest store time (ms) of a consumed message. ``state``:
    ``ok``, ``noOffset`` (some queue), ``ahead`` (an offset past the end), ``unknown`` (a broker
    reported no offsets).
    """

    group: str
    topic: str
    queues: int
    lag: int | None
    max_lag: int | None
    no_offset: int
    last_timestamp: int | None
    state: str


def all_lags(admin: AdminSession, *, include_system: bool = False) -> Listing[GroupLag]:
    """Return one record per group and topic; a broker that fails is an error of the listing."""
    found = queues_of_all_groups(admin)
    by_topic: dict[tuple[str, str], list[QueueProgress]] = {}
    for group, queues in found.groups.items():
        if include_system or not is_system_group(group):
            for one in queues:
                by_topic.setdefault((group, one.queue.topic), []).append(one)
    return Listing(
        items=[
            _record(group, topic, queues) for (group, topic), queues in sorted(by_topic.items())
        ],
        errors=found.errors,
    )


def _record(group: str, topic: str, queues: Sequence[QueueProgress]) -> GroupLag:
    # a queue committed past its end must not reduce the sum
    lags = [max(0, one.lag) for one in queues if one.lag is not None]
    states = {one.state for one in queues}
    return GroupLag(
        group=group,
        topic=topic,
        queues=len(queues),
        lag=sum(lags) if lags else None,
        max_lag=max(lags, default=None),
        no_offset=sum(one.state == NO_OFFSET for one in queues),
        last_timestamp=max((one.last_timestamp or 0 for one in queues), default=0) or None,
        state=next((state for state in _STATES if state in states), OK),
    )
