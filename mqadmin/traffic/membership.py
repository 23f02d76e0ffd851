"""Joining a group that has members: every member must have the same subscription.

A broker keeps one subscription per group, that of the latest heartbeat. A member with another
filter makes the other members lose the messages that its filter excludes; a member without one of
the group's topics is allocated queues of that topic, which are not read then.

**Source:** RocketMQ ``ConsumerGroupInfo#updateSubscription``, ``AllocateMessageQueueAveragely``.
"""

import msgspec

from broker.common.group import MODEL_BROADCASTING
from broker.common.subscription import EXPRESSION_SQL92, SUB_ALL, split_tag_expression
from broker.common.topic import retry_topic
from broker.errors import ClientError
from mqadmin.admin.connections import ConsumerConnections, Subscription, consumer_connections
from mqadmin.admin.session import AdminSession


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a topic that a consumer gets: ``sql`` replaces ``tags``."""

    tags: str = SUB_ALL
    sql: str | None = None

    def __str__(self) -> str:
        return f"SQL {self.sql!r}" if self.sql is not None else f"tags {self.tags!r}"


def filter_to_join(
    admin: AdminSession, group: str, topic: str, *, tags: str | None, sql: str | None
) -> Filter:
    """Return the filter with which a consumer of ``topic`` joins ``group``.

    Without ``tags`` and ``sql`` it is that of the connected members, every message if there are
    none. ClientError if the connected members subscribe to other topics or with another filter, or
    broadcast.
    """
    wanted = None if tags is None and sql is None else Filter(tags=tags or SUB_ALL, sql=sql)
    return joined_filter(consumer_connections(admin, group), topic, wanted)


def joined_filter(members: ConsumerConnections, topic: str, wanted: Filter | None) -> Filter:
    """Return the filter that fits the connected members; ClientError if none does."""
    if not members.connections:
        return wanted or Filter()
    hint = "without --group messages are read without joining, or use another group"
    place = f"group {members.group}"
    if members.message_model == MODEL_BROADCASTING:
        raise ClientError(f"{place} is broadcasting: its members share no queues", hint)
    own = retry_topic(members.group)
    found = {one.topic: one for one in members.subscriptions if one.topic != own}
    if set(found) != {topic}:
        names = ", ".join(sorted(found)) or "no topic"
        raise ClientError(
            f"the members of {place} subscribe to {names}, not only to {topic}:"
            " a member must read every topic of its group",
            hint,
        )
    present = _filter_of(found[topic])
    if wanted is not None and _normal(wanted) != _normal(present):
        raise ClientError(
            f"the members of {place} consume {topic} with {present}, not with {wanted}:"
            " all members of a group need the same filter",
            f"omit --tag and --sql to use that of the members; {hint}",
        )
    return present


def _filter_of(one: Subscription) -> Filter:
    if one.expression_type == EXPRESSION_SQL92:
        return Filter(sql=one.sub_string)
    return Filter(tags=one.sub_string or SUB_ALL)


def _normal(one: Filter) -> tuple[str, ...]:
    if one.sql is not None:
        return (EXPRESSION_SQL92, one.sql.strip())
    tags = [SUB_ALL] if one.tags.strip() == SUB_ALL else split_tag_expression(one.tags)
    return ("TAG", *sorted(set(tags)))
