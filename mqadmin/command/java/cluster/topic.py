"""Java's queries of topics: list, route, clusters, status, queue units, allocation."""

from datetime import datetime

from broker.common.java import INT32_MAX
from mqadmin.admin.brokers.statistics import put_tps
from mqadmin.admin.namesrv.library import ORDER_TOPIC_CONFIG, NamesrvAdmin
from mqadmin.admin.result import Plan
from mqadmin.admin.topic import TopicAdmin
from mqadmin.admin.topics.queries import (
    allocate,
    clusters_of,
    consumers_of,
    queue_units,
    route_data,
    topic_names,
)
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.command.java.pretty import compact_json, pretty_json

ROUTE_ROW = "%-45s %-32s %-50s %-10s %-11s %-5s"
STATUS_ROW = "%-32s  %-4s  %-20s  %-20s    %s"
TOPIC_ROW = "%-20s  %-64s  %-64s"
RULE = "======================================"

RETRY_AND_DLQ = ("%RETRY%", "%DLQ%")
"""Prefixes of the topics that ``topicList -c`` leaves out."""


@java_command("topicList")
def topic_list(call: JavaCall) -> None:
    """Print the topics, with -c one row per topic and group that consumes it.

    **Source:** RocketMQ ``TopicListSubCommand``.
    """
    names = topic_names(call.admin)
    if not call.flag("c"):
        for name in names:
            call.line(name)
        return
    call.line(TOPIC_ROW % ("#Cluster Name", "#Topic", "#Consumer Group"))
    own = [name for name in names if not name.startswith(RETRY_AND_DLQ)]
    for name, (clusters, groups) in consumers_of(call.admin, own).items():
        for group in groups or [""]:
            call.line(TOPIC_ROW % (",".join(clusters), name, group))


@java_command("topicClusterList")
def topic_cluster_list(call: JavaCall) -> None:
    """Print the clusters of a topic.

    **Source:** RocketMQ ``TopicClusterSubCommand``.
    """
    for cluster in clusters_of(call.admin, call.text("t")):
        call.line(cluster)


@java_command("topicRoute")
def topic_route(call: JavaCall) -> None:
    """Print the route of a topic as JSON, or with -l as a list.

    **Source:** RocketMQ ``TopicRouteSubCommand``.
    """
    route = route_data(call.admin, call.text("t"))
    if not call.flag("l"):
        call.line(pretty_json(route.to_wire()))
        return
    queues = {queue.broker_name: queue for queue in route.queue_datas}
    header = ("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    call.line(ROUTE_ROW % header)
    reads = writes = 0
    for broker in sorted(route.broker_datas, key=lambda item: (item.cluster, item.broker_name)):
        addresses = ", ".join(f"{key}={text}" for key, text in broker.broker_addrs.items())
        queue = queues.get(broker.broker_name)
        cells: tuple[object, ...] = ("-", "-", "-")
        if queue is not None:
            reads += queue.read_queue_nums
            writes += queue.write_queue_nums
            cells = (queue.read_queue_nums, queue.write_queue_nums, queue.perm)
        call.line(ROUTE_ROW % (broker.cluster, broker.broker_name, f"{{{addresses}}}", *cells))
    call.line("-" * 158)
    call.line(ROUTE_ROW % ("Total:", len(queues), "", reads, writes, ""))


@java_command("topicStatus")
def topic_status(call: JavaCall) -> None:
    """Print minimum and maximum offset of each queue, and the rate of the topic.

    **Source:** RocketMQ ``TopicStatusSubCommand``, whose rate is always 0.
    """
    topic = call.text("t")
    listing = TopicAdmin(call.admin).status(topic, route_of=call.get("c"))
    call.line(STATUS_ROW % ("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated"))
    for item in listing.items:
        updated = _time(item.last_update_timestamp)
        call.line(
            STATUS_ROW
            % (item.broker_name, item.queue_id, item.min_offset, item.max_offset, updated)
        )
    if listing.items:
        call.line()
        call.line(f"Topic Put TPS: {put_tps(call.admin, topic):.1f}")
    call.errors(listing.errors, some_worked=bool(listing.items))


def _time(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return ""
    time = datetime.fromtimestamp(timestamp_ms // 1000).astimezone()
    return f"{time:%Y-%m-%d %H:%M:%S},{timestamp_ms % 1000:03}"


@java_command("queryCq")
def query_cq(call: JavaCall) -> None:
    """Print units of a ConsumeQueue.

    **Source:** RocketMQ ``QueryConsumeQueueCommand``.
    """
    index = call.whole("i")
    body = queue_units(
        call.admin,
        call.text("t"),
        call.whole("q", highest=INT32_MAX),
        index,
        call.whole("c", 10, lowest=1, highest=INT32_MAX),
        address=call.get("b"),
        group=call.get("g"),
    )
    if body.subscription_data is not None:
        call.line("Subscription data: ")
        call.line(compact_json(body.to_wire()["subscriptionData"]))
        call.line(RULE)
    if body.filter_data:
        call.line("Filter data: ")
        call.line(body.filter_data)
        call.line(RULE)
    call.line("Queue data: ")
    call.line(f"max: {body.max_queue_index}, min: {body.min_queue_index}")
    call.line(RULE)
    for number, unit in enumerate(body.queue_data or [], index):
        passes = "true" if unit.eval else "false"
        call.line(f"idx: {number}")
        call.line(
            f"ConsumeQueueData{{physicOffset={unit.physic_offset}, "
            f"physicSize={unit.physic_size}, tagsCode={unit.tags_code}, "
            f"extendDataJson='{_or_null(unit.extend_data_json)}', "
            f"bitMap='{_or_null(unit.bit_map)}', eval={passes}, msg='{_or_null(unit.msg)}'}}"
        )
        call.line(RULE)


def _or_null(text: str | None) -> str:
    return "null" if text is None else text


@java_command("allocateMQ")
def allocate_mq(call: JavaCall) -> None:
    """Print the queues that each client would get with the average strategy.

    **Source:** RocketMQ ``AllocateMQSubCommand``.
    """
    clients = [word.strip() for word in call.text("i").split(",")]
    result = {
        client: [
            {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
            for queue in queues
        ]
        for client, queues in allocate(call.admin, call.text("t"), clients).items()
    }
    call.line(compact_json({"result": result}))


@java_command("updateOrderConf", changes=True)
def update_order_conf(call: JavaCall) -> None:
    """Get, put or delete the order configuration of a topic.

    **Source:** RocketMQ ``UpdateOrderConfCommand``.
    """
    topic, method = call.text("t"), call.choice("m", ("get", "put", "delete"))
    library = NamesrvAdmin(call.admin)
    if method == "get":
        found = library.kv_get(ORDER_TOPIC_CONFIG, topic)
        call.errors(found.errors, some_worked=bool(found.items))
        if not found.items and not found.errors:
            raise call.nothing(f"topic {topic} has no order configuration")
        for value in {item.value for item in found.items}:
            call.line(f"get orderConf success. topic=[{topic}], orderConf=[{value}] ")
        return
    plan: Plan
    if method == "put":
        order = call.get("v")
        if not order:
            raise call.fault("v", "missing: BROKER:QUEUES;BROKER:QUEUES")
        plan = library.plan_kv_put(ORDER_TOPIC_CONFIG, topic, order)
        text = f"update orderConf success. topic=[{topic}], orderConf=[{order}]"
    else:
        plan = library.plan_kv_delete(ORDER_TOPIC_CONFIG, topic)
        text = f"delete orderConf success. topic=[{topic}]"
    if call.apply(library, plan):
        call.line(text)
