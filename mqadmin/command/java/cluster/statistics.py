"""Java's statistics: statsAll, producer."""

from mqadmin.admin.brokers.producers import producers
from mqadmin.admin.brokers.statistics import statistics
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

HEADER = "%-64s  %-64s %12s %11s %11s %14s %14s"


@java_command("statsAll")
def stats_all(call: JavaCall) -> None:
    """Print rates and backlog per topic and group; -a only topics with messages.

    **Source:** RocketMQ ``StatsAllSubCommand``.
    """
    listing = statistics(call.admin, topic=call.get("t"))
    names = ("#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS")
    call.line(HEADER % (*names, "#InMsg24Hour", "#OutMsg24Hour"))
    for item in listing.items:
        if call.flag("a") and not (item.in_msg24_hour or item.out_msg24_hour):
            continue
        out = "" if item.out_tps is None else f"{item.out_tps:.2f}"
        day = "NO_CONSUMER" if item.group is None else item.out_msg24_hour
        call.line(
            HEADER
            % (
                item.topic,
                item.group or "",
                0 if item.group is None else _known(item.accumulation),
                f"{item.in_tps or 0.0:.2f}",
                out,
                _known(item.in_msg24_hour),
                day,
            )
        )
    call.errors(listing.errors, some_worked=bool(listing.items))


def _known(value: int | None) -> str:
    return "-" if value is None else str(value)


@java_command("producer")
def producer(call: JavaCall) -> None:
    """Print the producers that are connected to a broker.

    **Source:** RocketMQ ``ProducerSubCommand``.
    """
    listing = producers(call.admin, broker=call.text("b"))
    for item in listing.items:
        call.line(
            f"producer group ({item.producer_group}) instance : clientId={item.client_id},"
            f"remoteIP=/{item.client_addr}, language={item.language}, "
            f"version={item.version_code}, lastUpdateTimestamp={item.last_update_timestamp}"
        )
    call.errors(listing.errors, some_worked=bool(listing.items))
