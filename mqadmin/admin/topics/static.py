"""Static topics (5.x): a fixed number of global queues, mapped to queues of brokers."""

from collections.abc import Sequence

import msgspec

from broker.common.topic import TopicConfig, topic_config_to_wire
from broker.errors import ClientError
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
)
from broker.remoting.protocol.body.topic import TopicConfigAndQueueMapping
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.brokers.one_shot import send_plan
from mqadmin.admin.result import Change, Outcome, Plan, Request
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import check_name
from mqadmin.admin.topics.mappings import Mappings, read_mappings
from mqadmin.admin.topology import Target

EPOCH_STEP = 1_000
"""A new epoch is larger than the old one by at least this. **Source:** TopicQueueMappingUtils."""


class StaticTopics:
    """Creation and extension of static topics."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def mappings(self, topic: str) -> dict[str, TopicConfigAndQueueMapping]:
        """Return broker name → configuration with mapping, for the brokers that have the topic.

        See :func:`~mqadmin.admin.topics.mappings.read_mappings`.
        """
        return read_mappings(self._admin, topic)

    def plan(
        self,
        topic: str,
        total_queues: int,
        *,
        now_ms: int,
        brokers: Sequence[str] = (),
        clusters: Sequence[str] = (),
    ) -> Plan:
        """Plan a static topic with ``total_queues`` global queues, or more queues of one.

        New queues go to the broker with the fewest, of ``brokers`` (names) or ``clusters``.

        **Source:** RocketMQ ``UpdateStaticTopicSubCommand``,
        ``TopicQueueMappingUtils#createTopicConfigMapping``.
        """
        check_name(topic)
        present = self.mappings(topic)
        targets = self._targets(brokers, clusters, present)
        details = extended(topic, total_queues, list(targets), present, now_ms)
        changes = [
            _change(targets[name], topic, detail, present.get(name))
            for name, detail in details.items()
        ]
        kind = "topic.static.update" if present else "topic.static.create"
        return Plan(kind=kind, subject=topic, changes=changes)

    def apply(self, plan: Plan) -> Outcome:
        """Send the mapping to every broker; read it back with :meth:`mappings`."""
        return send_plan(self._admin, plan)

    def _targets(
        self, brokers: Sequence[str], clusters: Sequence[str], present: Mappings
    ) -> dict[str, Target]:
        topology = self._admin.topology
        chosen = [target for name in brokers for target in topology.writers(broker=name)]
        chosen += [target for name in clusters for target in topology.writers(cluster=name)]
        chosen += [target for name in present for target in topology.writers(broker=name)]
        return {target.label: target for target in chosen}


def extended(
    topic: str, total: int, names: Sequence[str], present: Mappings, now_ms: int
) -> dict[str, TopicQueueMappingDetail]:
    """Return broker name → mapping with ``total`` global queues; the present ones stay in place.

    ClientError if there are more already: queues of a static topic are never removed.
    """
    hosted: dict[str, dict[int, list[LogicQueueMappingItem]]] = {name: {} for name in names}
    local: dict[str, int] = dict.fromkeys(names, 0)
    epoch = now_ms
    known = 0
    for name, one in present.items():
        detail = one.mapping_detail
        assert detail is not None, name
        hosted[name] = dict(detail.hosted_queues or {})
        local[name] = one.topic_config.write_queue_nums
        epoch = max(epoch, detail.epoch + EPOCH_STEP)
        known = max(known, detail.total_queues)
    if total < known:
        raise ClientError(
            f"topic {topic} has {known} queues: a static topic cannot lose queues",
            f"give at least {known}",
        )
    for global_id in range(known, total):
        name = min(names, key=lambda one: (len(hosted[one]), one))
        item = LogicQueueMappingItem(queue_id=local[name], bname=name)
        hosted[name][global_id] = [item]
        local[name] += 1
    return {
        name: TopicQueueMappingDetail(
            topic=topic,
            bname=name,
            total_queues=total,
            epoch=epoch,
            hosted_queues=dict(sorted(hosted[name].items())),
        )
        for name in names
    }


def _change(
    target: Target,
    topic: str,
    detail: TopicQueueMappingDetail,
    present: TopicConfigAndQueueMapping | None,
) -> Change:
    queues = detail.hosted_queues or {}
    local = max((items[-1].queue_id + 1 for items in queues.values()), default=0)
    config = TopicConfig(topic_name=topic) if present is None else present.topic_config
    config = msgspec.structs.replace(
        config,
        read_queue_nums=max(local, config.read_queue_nums if present else 0),
        write_queue_nums=max(local, config.write_queue_nums if present else 0),
    )
    return mapping_change(target, config, detail, present)


def mapping_change(
    target: Target,
    config: TopicConfig,
    detail: TopicQueueMappingDetail,
    present: TopicConfigAndQueueMapping | None,
) -> Change:
    """Return the change that writes configuration and mapping to one broker."""
    wire = topic_config_to_wire(config, with_attributes=False)
    command = build_request(
        RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
        {
            "topic": config.topic_name,
            "read_queue_nums": config.read_queue_nums,
            "write_queue_nums": config.write_queue_nums,
            "perm": config.perm,
            "topic_filter_type": wire["topicFilterType"],
            "topic_sys_flag": config.topic_sys_flag,
            "order": config.order,
            "force": False,
        },
    )
    before = None
    if present is not None and present.mapping_detail is not None:
        before = mapping_state(present.mapping_detail)
    return Change(
        target=target.label,
        address=target.address,
        action="create" if present is None else "update",
        before=before,
        after=mapping_state(detail),
        request=Request(
            address=target.address,
            code=command.code,
            ext_fields=command.ext_fields,
            body=detail.to_bytes(),
        ),
    )


def mapping_state(detail: TopicQueueMappingDetail) -> dict[str, object]:
    """Return a mapping as the state of a change: per queue its segments as BROKER/QUEUE in order.

    Offsets are left out: those of a queue that moves are decided while it moves.
    """
    state: dict[str, object] = {"totalQueues": detail.total_queues}
    for queue_id, items in sorted((detail.hosted_queues or {}).items()):
        state[f"queue{queue_id}"] = " ".join(f"{one.bname}/{one.queue_id}" for one in items)
    return state
