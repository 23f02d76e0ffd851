"""``mqadmin msg trace``."""

from typing import Annotated

from broker.common.topic import TRACE_TOPIC
from mqadmin.admin.tracing.trace import message_trace
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.window import Begin, End, window
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.message import NOUN
from mqadmin.output.view import View

MSG_TRACE = View(
    "msg.trace",
    (
        *("traceType", "time", "group", "topic", "clientHost", "status", "costMs"),
        *("retryTimes", "keys", "msgId"),
    ),
)


@NOUN.verb(
    "trace",
    view=MSG_TRACE,
    examples=[
        "mqadmin msg trace 7F00000126AD18B4AAC2799D5BAB0000",
        "mqadmin msg trace order-42 --trace-topic my_trace --since -2h -o json",
    ],
)
def trace(
    session: Session,
    text: Annotated[
        str, Argument("ID|KEY", help="The uniqKey of a message, or a business key of messages.")
    ],
    trace_topic: Annotated[
        str | None,
        Option(
            "--trace-topic",
            metavar="TOPIC",
            help=f"Topic of the trace; default {TRACE_TOPIC}.",
            complete="topic",
        ),
    ] = None,
    begin: Begin = None,
    end: End = None,
) -> None:
    """Show the recorded steps of a message: sent, delivered, consumed, decided, recalled.

    Clients with message trace enabled write them to the trace topic, some seconds later. --since
    and --until select by the time at which the broker stored the trace.
    """
    begin, end = window(session, begin, end, None)
    topic = trace_topic or TRACE_TOPIC
    listing = message_trace(session.admin, text, topic=topic, begin_ms=begin, end_ms=end)
    session.emit_listing(
        MSG_TRACE,
        listing,
        nothing=f"topic {topic} has no trace of {text}",
        hint="was message trace enabled in the clients, and is the id a uniqKey?",
    )
