"""Static topics (5.x): a fixed number of global queues, mapped to queues of brokers."""

from collections.abc import Mapping, Sequence

import msgspec

from broker.common.topic import TopicConfig, topic_config_to_wire
from broker.errors import BrokerError, ClientError, RocketMQError
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
)
from broker.remoting.protocol.body.topic import TopicConfigAndQueueMapping
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.brokers.one_shot import send_plan
from mqadmin.admin.result import Change, Outcome, Plan, Request
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import check_name
from mqadmin.admin.topology import Target

EPOCH_STEP = 1_000
"""A new epoch is larger than the old one by at least this. **Source:** TopicQueueMappingUtils."""

Mappings = Mapping[str, TopicConfigAndQueueMapping]


class StaticTopics:
    """Creation and extension of static topics."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def mappings(self, topic: str) -> dict[str, TopicConfigAndQueueMapping]:
        """Return broker name → configuration with mapping, for the brokers that have the topic.

        ClientError if it is not a static topic; the error of a broker that cannot answer, because
        a mapping made without it would be wrong.
        """
        targets = self._admin.topology.readers()
        fields = {"topic": topic, "lo": True}  # without lo a broker leaves out the mapping
        answers = self._admin.call_all(
            [
                (target.address, build_request(RequestCode.GET_TOPIC_CONFIG, fields))
                for target in targets
            ]
        )
        found: dict[str, TopicConfigAndQueueMapping] = {}
        for target, answer in zip(targets, answers, strict=True):
            if isinstance(answer, BrokerError) and answer.code == ResponseCode.TOPIC_NOT_EXIST:
                continue
            if isinstance(answer, RocketMQError):
                raise answer
            value = answer.value
            if getattr(value, "mapping_detail", None) is None:
                raise ClientError(
                    f"topic {topic} ({target.label}) is not a static topic",
                    "mqadmin topic update changes the queues of other topics",
                )
            found[target.label] = value
        return found

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
        return Plan(kind="topic.static", subject=topic, changes=changes)

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
    queues = detail.hosted_queues or {}
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
        before = {"queues": sorted(present.mapping_detail.hosted_queues or {})}
    return Change(
        target=target.label,
        address=target.address,
        action="create" if present is None else "update",
        before=before,
        after={"queues": sorted(queues)},
        request=Request(
            address=target.address,
            code=command.code,
            ext_fields=command.ext_fields,
            body=detail.to_bytes(),
        ),
    )
