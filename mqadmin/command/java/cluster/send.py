"""Java's measurements by sending: sendMsgStatus, clusterRT."""

from time import monotonic

from broker.errors import RocketMQError
from mqadmin.admin.message.send import Outgoing, SendRecord, send
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

RT_ROW = "%-24s  %-24s  %-8s  %-16s  %-16s"

MAX_BODY_BYTES = 4 * 1024 * 1024


@java_command("sendMsgStatus", changes=True)
def send_msg_status(call: JavaCall) -> None:
    """Send messages to the topic named like a broker, and print the time of each.

    **Source:** RocketMQ ``SendMsgStatusCommand``.
    """
    body = b"a" * _size(call)
    outgoing = Outgoing(topic=call.text("b"), body=body)
    send(call.admin, outgoing)  # the first one also opens the connection
    for _ in range(call.whole("c", 50, lowest=1)):
        began = monotonic()
        sent = send(call.admin, outgoing)
        call.line(f"rt={_ms(began)}ms, SendResult={result_text(sent)}")


def _size(call: JavaCall) -> int:
    size = call.whole("s", 128, lowest=1)
    if size > MAX_BODY_BYTES:
        raise call.fault("s", f"must be at most {MAX_BODY_BYTES}")
    return size


def _ms(began: float) -> int:
    return int((monotonic() - began) * 1000)


def result_text(sent: SendRecord) -> str:
    """Format the result of a send as Java does. **Source:** RocketMQ ``SendResult#toString``."""
    return (
        f"SendResult [sendStatus={sent.send_status}, msgId={sent.uniq_key}, "
        f"offsetMsgId={sent.offset_msg_id}, messageQueue=MessageQueue [topic={sent.topic}, "
        f"brokerName={sent.broker_name}, queueId={sent.queue_id}], "
        f"queueOffset={sent.queue_offset}, recallHandle=null]"
    )


@java_command("clusterRT", changes=True)
def cluster_rt(call: JavaCall) -> None:
    """Send messages to each broker of a cluster every -i seconds, and print the mean time.

    **Source:** RocketMQ ``CLusterSendMsgRTCommand``, which sends to every cluster without -c.
    """
    call.one_of("c", why="messages are sent to every broker of the cluster")
    call.admin.topology.all(cluster=call.text("c"))  # ClientError for an unknown cluster
    call.line(RT_ROW % ("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount"))
    call.repeat("i", lambda: _print_rt(call), default=10)


def _print_rt(call: JavaCall) -> None:
    cluster, amount, size = call.text("c"), call.whole("a", 100, lowest=1), _size(call)
    for name in call.admin.topology.clusters[cluster]:
        outgoing = Outgoing(topic=name, body=b"a" * size)
        good, failed, total_ms = 0, 0, 0.0
        for number in range(amount):
            began = monotonic()
            try:
                send(call.admin, outgoing)
                good += 1
            except RocketMQError as error:
                failed += 1
                if failed == 1:
                    call.session.note(f"{name}: {error.message}")
            if number:  # the first one also opens the connection
                total_ms += (monotonic() - began) * 1000
        mean_ms = f"{total_ms / max(amount - 1, 1):.2f}"
        if call.truth("p"):
            place = f"{call.get('m') or 'noname'}|{cluster}|{name}|{mean_ms}"
            call.line(f"{call.now_text()}|{place}")
        else:
            call.line(RT_ROW % (cluster, name, mean_ms, good, failed))
