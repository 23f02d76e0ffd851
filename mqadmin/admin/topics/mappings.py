"""Reading the mappings of static topics: which queue of which broker has which offsets."""

from collections.abc import Mapping, Sequence

from broker.errors import BrokerError, ClientError, RocketMQError
from broker.remoting.protocol.body.namesrv.route import LogicQueueMappingItem
from broker.remoting.protocol.body.topic import TopicConfigAndQueueMapping
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.session import AdminSession

Mappings = Mapping[str, TopicConfigAndQueueMapping]
Items = Sequence[LogicQueueMappingItem]

_MOCK_PREFIX = "__syslo__"
_GLOBAL_SCOPE = "__global__"


def is_static(admin: AdminSession, topic: str) -> bool:
    """Whether the route of a topic has mappings of queues; False if there is no route."""
    route = admin.routes.find(topic)
    return route is not None and bool(route.data.topic_queue_mapping_by_broker)


def read_mappings(admin: AdminSession, topic: str) -> dict[str, TopicConfigAndQueueMapping]:
    """Return broker name → configuration with mapping, for the brokers that have the topic.

    ClientError if it is not a static topic; the error of a broker that cannot answer, because
    a mapping made without it would be wrong.
    """
    targets = admin.topology.readers()
    fields = {"topic": topic, "lo": True}  # without lo a broker leaves out the mapping
    answers = admin.call_all(
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


def newest_segments(topic: str, present: Mappings) -> dict[int, Items]:
    """Return global queue id → its segments, from the broker that knows the newest of them.

    ClientError if no broker has one of the queues.
    """
    found: dict[int, Items] = {}
    total = 0
    for one in present.values():
        detail = one.mapping_detail
        assert detail is not None
        total = max(total, detail.total_queues)
        for queue_id, items in (detail.hosted_queues or {}).items():
            known = found.get(queue_id)
            if items and (known is None or _rank(items[-1]) > _rank(known[-1])):
                found[queue_id] = items
    missing = sorted(set(range(total)) - set(found))
    if missing:
        raise ClientError(f"topic {topic}: no broker has queue {missing[0]} of {total}")
    return dict(sorted(found.items()))


def _rank(item: LogicQueueMappingItem) -> tuple[int, bool]:
    """The old owner of a queue does not get the first offset of its new segment."""
    return item.gen, item.logic_offset >= 0


def logical_offset(item: LogicQueueMappingItem, offset: int) -> int:
    """Return the offset in the static topic of an offset in the queue of a segment.

    **Source:** RocketMQ LogicQueueMappingItem#computeStaticQueueOffsetStrictly.
    """
    if item.end_offset >= 0:
        offset = min(offset, item.end_offset)
    return item.logic_offset + max(0, offset - item.start_offset)


def mock_broker_name(scope: str) -> str:
    """Return the broker name that clients see for queues of static topics.

    **Source:** RocketMQ TopicQueueMappingUtils#getMockBrokerName.
    """
    return _MOCK_PREFIX + (scope[2:] if scope == _GLOBAL_SCOPE else scope)
