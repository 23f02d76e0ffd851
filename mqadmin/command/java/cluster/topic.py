"""Java's queries of topics: topicRoute."""

from broker.remoting.protocol.codes import RequestCode
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.command.java.pretty import pretty_json

ROUTE_ROW = "%-45s %-32s %-50s %-10s %-11s %-5s"


@java_command("topicRoute")
def topic_route(call: JavaCall) -> None:
    """Print the route of a topic as JSON, or with -l as a list.

    **Source:** RocketMQ ``TopicRouteSubCommand``.
    """
    reply = call.admin.ask_namesrv(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=call.text("t"), accept_standard_json_only=True
    )
    route = reply.value
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
        cells = ("-", "-", "-")
        if queue is not None:
            reads += queue.read_queue_nums
            writes += queue.write_queue_nums
            cells = (queue.read_queue_nums, queue.write_queue_nums, queue.perm)
        call.line(ROUTE_ROW % (broker.cluster, broker.broker_name, f"{{{addresses}}}", *cells))
    call.line("-" * 158)
    call.line(ROUTE_ROW % ("Total:", len(queues), "", reads, writes, ""))
