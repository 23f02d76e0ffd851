"""Java's queryMsgTraceById."""

import time
from collections import defaultdict

from broker.common.topic import TRACE_TOPIC
from mqadmin.admin.tracing.trace import message_trace
from mqadmin.command.execution.failure import NoResults
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.system_topics.trace import PUB, SUB_AFTER, TraceRow

ROW = "%-10s %-20s %-20s %-20s %-10s %-10s"


@java_command("queryMsgTraceById")
def query_trace(call: JavaCall) -> None:
    """Print the sends and the consumptions of a message as its clients traced them.

    **Source:** RocketMQ ``QueryMsgTraceByIdSubCommand``.
    """
    text = call.text("i")
    listing = message_trace(
        call.admin,
        text,
        topic=call.get("t") or TRACE_TOPIC,
        begin_ms=call.number("b"),
        end_ms=call.number("e"),
    )
    limit = call.number("c", lowest=1)
    rows = listing.items if limit is None else listing.items[:limit]
    if not rows and not listing.errors:
        raise NoResults(f"no trace of {text}", "the clients of the message must have trace enabled")
    consumed: dict[str, list[TraceRow]] = defaultdict(list)
    for row in rows:
        if row.trace_type == SUB_AFTER:
            consumed[row.group or ""].append(row)
    sent = [row for row in rows if row.trace_type == PUB]
    if sent:
        _table(call, "#ProducerGroup", "#SendTime", sent)
    for group in sorted(consumed):
        _table(call, "#ConsumerGroup", "#ConsumerTime", consumed[group])
    call.errors(listing.errors, some_worked=bool(rows))


def _table(call: JavaCall, group_title: str, time_title: str, rows: list[TraceRow]) -> None:
    call.line(ROW % ("#Type", group_title, "#ClientHost", time_title, "#CostTimes", "#Status"))
    for row in rows:
        call.line(
            ROW
            % (
                "Sub" if row.trace_type == SUB_AFTER else row.trace_type,
                row.group or "",
                (row.client_host or "").rpartition(":")[0] or row.client_host or "",
                _second(row.timestamp),
                "-" if row.cost_ms is None else f"{row.cost_ms}ms",
                row.status or "",
            )
        )
    call.line()


def _second(timestamp_ms: int | None) -> str:
    if not timestamp_ms:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(timestamp_ms // 1000))
