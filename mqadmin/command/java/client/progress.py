"""Java's consumerProgress: the lag of one group, or of all."""

import time

from mqadmin.admin.consumer import ConsumerAdmin, ConsumerRecord
from mqadmin.command.execution.failure import NoResults
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

#: The header of the last two columns has no space between them, as in Java.
HEADER = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s%s"
ROW = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %s"
CLIENT_HEADER = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %-20s%s"
CLIENT_ROW = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %-20s %s"
ALL_ROW = "%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s"

TYPES = {"CONSUME_PASSIVELY": "PUSH", "CONSUME_ACTIVELY": "PULL", "CONSUME_POP": "POP"}


@java_command("consumerProgress")
def consumer_progress(call: JavaCall) -> None:
    """Print the lag of a group per queue, or with no -g one row per group.

    A dash is an offset that was not committed or not reported; Java prints 0.

    **Source:** RocketMQ ``ConsumerProgressSubCommand``.
    """
    cluster = call.get("c")
    if cluster is not None:
        call.admin.topology.all(cluster=cluster)  # an error for a cluster that does not exist
    if call.get("g") is None:
        _print_all(call)
    else:
        _print_group(call, call.text("g"))


def _print_group(call: JavaCall, group: str) -> None:
    clients = bool(call.truth("s", False))
    listing = ConsumerAdmin(call.admin).lag(group, topic=call.get("t"), clients=clients)
    if not listing.items and not listing.errors:
        raise NoResults(
            f"no broker has an offset of group {group}", "mqadmin consumerProgress lists the groups"
        )
    titles = ("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset")
    last = ("#Diff", "#Inflight", "#LastTime")
    call.line(
        CLIENT_HEADER % (*titles, "#Client IP", *last) if clients else HEADER % (*titles, *last)
    )
    for item in listing.items:
        place = (item.topic, item.broker_name, item.queue_id)
        offsets = (_number(item.broker_offset), _number(item.consumer_offset))
        rest = (_number(item.lag), _number(item.inflight), local_time(item.last_timestamp))
        if clients:
            owner = item.client_id.split("@")[0] if item.client_id else "N/A"
            call.line(CLIENT_ROW % (*place, *offsets, owner, *rest))
        else:
            call.line(ROW % (*place, *offsets, *rest))
    call.line()
    call.line(f"Consume TPS: {ConsumerAdmin(call.admin).consume_tps(group):.2f}")
    call.line(f"Consume Diff Total: {_total([item.lag for item in listing.items])}")
    call.line(f"Consume Inflight Total: {_total([item.inflight for item in listing.items])}")
    call.errors(listing.errors, some_worked=bool(listing.items))


def _print_all(call: JavaCall) -> None:
    listing = ConsumerAdmin(call.admin).list()
    call.line(ALL_ROW % ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total"))
    for item in listing.items:
        call.line(ALL_ROW % _group_cells(item))
    call.errors(listing.errors, some_worked=bool(listing.items))


def _group_cells(item: ConsumerRecord) -> tuple[object, ...]:
    tps = "-" if item.consume_tps is None else int(item.consume_tps)
    return (
        item.group,
        _number(item.clients),
        item.version or "OFFLINE",
        TYPES.get(item.consume_type or "", item.consume_type or ""),
        item.message_model or "",
        tps,
        _number(item.lag),
    )


def _total(values: list[int | None]) -> str:
    known = [value for value in values if value is not None]
    return str(sum(known)) if known else "-"


def _number(value: int | None) -> object:
    return "-" if value is None else value


def local_time(timestamp_ms: int | None) -> str:
    """Format a time in the local zone, ``N/A`` if there is none."""
    if timestamp_ms is None:
        return "N/A"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp_ms / 1000))
