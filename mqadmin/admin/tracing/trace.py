"""Message trace: the steps that clients recorded in the trace topic.

**Source:** RocketMQ QueryMsgTraceByIdSubCommand, DefaultMQAdminExt#queryMessage.
"""

from typing import Final

from broker.common.topic import TRACE_TOPIC
from mqadmin.admin.message.index import FOREVER_MS, KeyQuestion, ask_index
from mqadmin.admin.offset.progress import route_of
from mqadmin.admin.result import Listing
from mqadmin.admin.session import AdminSession
from mqadmin.system_topics.trace import SUB_AFTER, SUB_BEFORE, TraceRow, decode_trace

MAX_MESSAGES: Final = 1_000
_ORDER: Final = {SUB_BEFORE: 1, SUB_AFTER: 2}


def message_trace(
    admin: AdminSession,
    text: str,
    *,
    topic: str = TRACE_TOPIC,
    begin_ms: int | None = None,
    end_ms: int | None = None,
) -> Listing[TraceRow]:
    """Return the steps of a message by its id or of messages with a key, by time.

    ClientError if the trace topic has no route. A SubAfter record of a client before 5.0 has
    neither time nor group: those of its SubBefore record are used.
    """
    question = KeyQuestion(
        topic=topic,
        key=text,
        begin_ms=begin_ms or 0,
        end_ms=FOREVER_MS if end_ms is None else end_ms,
        max_items=MAX_MESSAGES,
    )
    hits = ask_index(admin, route_of(admin, topic), question)
    rows = [
        row
        for one in hits
        for message in one.records.values()
        for row in decode_trace(message.payload(), message.born_host)
        if row.concerns(text)
    ]
    started = {row.request_id: row for row in rows if row.trace_type == SUB_BEFORE}

    def place(row: TraceRow) -> tuple[int, int]:
        before = started.get(row.request_id) if row.trace_type == SUB_AFTER else None
        time = row.timestamp or (before.timestamp if before is not None else 0) or 0
        if before is not None:
            time = max(time, before.timestamp or 0)
        return time, _ORDER.get(row.trace_type, 0)

    return Listing(
        items=sorted(rows, key=place),
        errors=[one.error for one in hits if one.error is not None],
        truncated=any(one.more for one in hits),
    )
