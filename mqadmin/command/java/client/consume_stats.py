"""Java's brokerConsumeStats, and the names of its area that are refused with a reason."""

from mqadmin.admin.clients.consume_stats import ConsumeStatsAdmin
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.client.progress import local_time
from mqadmin.command.java.declare import java_command

ROW = "%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s"


@java_command("brokerConsumeStats")
def broker_consume_stats(call: JavaCall) -> None:
    """Print the lag of every group of a broker.

    Queues with less than -l messages or without a consumed message are left out; the total is of
    the queues shown, Java's of all.

    **Source:** RocketMQ ``BrokerConsumeStatsSubCommad``.
    """
    if call.get("t") is not None:
        raise call.fault("t", "the timeout is the global option --timeout")
    listing = ConsumeStatsAdmin(call.admin).stats(
        broker=call.text("b"), min_lag=call.whole("l"), order=bool(call.truth("o", False))
    )
    titles = ("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset")
    call.line(ROW % (*titles, "#Diff", "#LastTime"))
    total = 0
    for item in listing.items:
        total += item.lag
        if item.last_timestamp is not None:
            place = (item.topic, item.group, item.broker_name, item.queue_id)
            offsets = (item.broker_offset, item.consumer_offset, item.lag)
            call.line(ROW % (*place, *offsets, local_time(item.last_timestamp)))
    call.line()
    call.line(f"Diff Total: {total}")
    call.errors(listing.errors, some_worked=bool(listing.items))


@java_command("startMonitoring")
def start_monitoring(call: JavaCall) -> None:
    """Refuse the endless monitor, which writes its findings to a log file only.

    **Source:** RocketMQ ``StartMonitoringSubCommand``.
    """
    raise UsageFault(
        "startMonitoring never ends and prints nothing: it is not available",
        "run mqadmin consumer stats --min-lag N or mqadmin consumerProgress from cron",
    )
