"""Create a topic where it is missing and update it where it exists, in one plan."""

from collections.abc import Sequence

import msgspec

from broker.common.topic import TopicConfig
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Change, Plan
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import (
    DEFAULT_QUEUES,
    TopicAdmin,
    check_config,
    check_name,
    merged_attributes,
    topic_change,
)


class TopicFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a topic that a command names; None: keep, or the default of a new topic."""

    read_queue_nums: int | None = None
    write_queue_nums: int | None = None
    perm: int | None = None
    order: bool | None = None
    topic_sys_flag: int | None = None
    attributes: Sequence[str] = ()


def plan_put(
    admin: AdminSession,
    topic: str,
    fields: TopicFields,
    *,
    cluster: str | None = None,
    broker: str | None = None,
) -> Plan:
    """Plan to create ``topic`` on the targets that do not have it, and to update it on the others.

    Targets: ``broker`` (a name or an address), else the masters of ``cluster``. The Java tool
    resets the fields that are not named; here an existing topic keeps them.

    **Source:** RocketMQ ``UpdateTopicSubCommand``.
    """
    check_name(topic)
    named = {
        name: value
        for name in fields.__struct_fields__
        if name != "attributes" and (value := getattr(fields, name)) is not None
    }
    new = TopicConfig(
        topic_name=topic, read_queue_nums=DEFAULT_QUEUES, write_queue_nums=DEFAULT_QUEUES
    )
    changes: list[Change] = []
    targets = admin.topology.writers(cluster=cluster, broker=broker)
    good, errors = part_errors(targets, TopicAdmin(admin).configs(targets, topic))
    for target, config in good:
        base = new if config is None else config
        after = msgspec.structs.replace(
            base, **named, attributes=merged_attributes(base.attributes, fields.attributes)
        )
        check_config(after)
        changes.append(topic_change(target, config, after, fields.attributes))
    return Plan(kind="topic.put", subject=topic, changes=changes, errors=errors)
