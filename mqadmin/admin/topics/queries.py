"""Queries of topics in addition to those of :class:`~mqadmin.admin.topic.TopicAdmin`."""

from collections.abc import Sequence

import msgspec

from broker.client.rebalance.strategies import AllocateAveragely
from broker.common.message_queue import MessageQueue
from broker.common.topic import is_readable
from broker.errors import ClientError
from broker.remoting.protocol.body.consumer.consume import QueryConsumeQueueResponseBody
from broker.remoting.protocol.body.namesrv.route import TopicRouteData
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.session import AdminSession


class AllocationRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue, and the client that would get it."""

    client_id: str
    broker_name: str
    queue_id: int


def topic_names(admin: AdminSession) -> list[str]:
    """Return the names of the topics that the name server knows, sorted."""
    names = admin.ask_namesrv(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).value.topic_list
    return sorted(names)


def route_data(admin: AdminSession, topic: str) -> TopicRouteData:
    """Return the route of a topic as the name server sent it; BrokerError without one."""
    data = admin.ask_namesrv(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, accept_standard_json_only=True
    ).value
    assert isinstance(data, TopicRouteData), type(data)
    return data


def clusters_of(admin: AdminSession, topic: str) -> list[str]:
    """Return the clusters of the brokers in a topic's route, sorted."""
    return sorted({broker.cluster for broker in route_data(admin, topic).broker_datas})


def consumers_of(
    admin: AdminSession, topics: Sequence[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """Return topic → (clusters, groups that consume it), over all brokers; empty where unknown.

    **Source:** RocketMQ ``TopicListSubCommand``, which asks only the first broker of a route.
    """
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    namesrv = admin.namesrv_addresses[0]
    found: dict[str, tuple[list[str], list[str]]] = {}
    requests: list[tuple[str, str]] = []
    for begin in range(0, len(topics), 256):
        part = topics[begin : begin + 256]
        asked = [
            (namesrv, build_request(code, {"topic": name, "accept_standard_json_only": True}))
            for name in part
        ]
        for name, answer in zip(part, admin.call_all(asked), strict=True):
            clusters: list[str] = []
            if isinstance(answer, Reply):
                brokers = answer.value.broker_datas
                clusters = sorted({broker.cluster for broker in brokers})
                requests += [
                    (name, broker.broker_addrs[min(broker.broker_addrs)])
                    for broker in brokers
                    if broker.broker_addrs
                ]
            found[name] = (clusters, [])
    code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    for begin in range(0, len(requests), 256):
        pairs = requests[begin : begin + 256]
        asked = [(address, build_request(code, {"topic": name})) for name, address in pairs]
        for (name, _), answer in zip(pairs, admin.call_all(asked), strict=True):
            if isinstance(answer, Reply):
                groups = found[name][1]
                groups += [one for one in answer.value.group_list if one not in groups]
    for _, groups in found.values():
        groups.sort()
    return found


def queue_units(
    admin: AdminSession,
    topic: str,
    queue_id: int,
    index: int,
    count: int,
    *,
    address: str | None = None,
    group: str | None = None,
) -> QueryConsumeQueueResponseBody:
    """Return units of a ConsumeQueue from queue offset ``index`` on, of the broker ``address``.

    Default: the first broker of the topic's route. With ``group`` each unit is compared with the
    group's subscription.

    **Source:** RocketMQ ``QueryConsumeQueueCommand``.
    """
    if address is None:
        brokers = sorted(route_data(admin, topic).broker_datas, key=lambda item: item.broker_name)
        if not brokers or not brokers[0].broker_addrs:
            raise ClientError(f"topic {topic} has no broker", "mqadmin topic route shows its route")
        address = brokers[0].broker_addrs[min(brokers[0].broker_addrs)]
    reply = admin.call(
        address,
        RequestCode.QUERY_CONSUME_QUEUE,
        topic=topic,
        queue_id=queue_id,
        index=index,
        count=count,
        consumer_group=group,
    )
    body = reply.value
    assert isinstance(body, QueryConsumeQueueResponseBody), type(body)
    return body


def allocate(
    admin: AdminSession, topic: str, clients: Sequence[str]
) -> dict[str, list[MessageQueue]]:
    """Return client id → the queues that it would get with the average strategy.

    Queues and client ids are sorted, as clients sort them.

    **Source:** RocketMQ ``AllocateMQSubCommand`` and ``AllocateMessageQueueAveragely``.
    """
    if len(set(clients)) != len(clients) or not all(clients):
        raise ClientError(f"not a list of different client ids: {', '.join(clients)}")
    queues = [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route_data(admin, topic).queue_datas
        if is_readable(data.perm)
        for queue_id in range(data.read_queue_nums)
    ]
    ids = sorted(clients)
    strategy = AllocateAveragely()
    return {one: list(strategy.allocate("", one, sorted(queues), ids)) for one in ids}


def allocation_records(
    admin: AdminSession, topic: str, clients: Sequence[str]
) -> list[AllocationRecord]:
    """Return one record per queue, in the order of the clients; see :func:`allocate`."""
    return [
        AllocationRecord(client_id=client, broker_name=queue.broker_name, queue_id=queue.queue_id)
        for client, queues in allocate(admin, topic, clients).items()
        for queue in queues
    ]
