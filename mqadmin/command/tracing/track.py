"""``mqadmin msg track``."""

from typing import Annotated

from mqadmin.admin.result import Listing
from mqadmin.admin.tracing import track as library
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.found import emit_found
from mqadmin.command.execution.online import message_queries
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.values import int32, whole
from mqadmin.command.message import NOUN
from mqadmin.output.view import View

MSG_TRACK = View(
    "msg.track",
    (
        *("group", "trackType", "topic", "brokerName", "queueId", "queueOffset"),
        *("consumerOffset", "clients", "detail"),
    ),
)


@NOUN.verb(
    "track",
    view=MSG_TRACK,
    examples=[
        "mqadmin msg track 7F00000100002A9F0000000000000000",
        "mqadmin msg track --topic orders --queue 3 --offset 1200 --group billing",
    ],
)
def track(
    session: Session,
    message_id: Annotated[
        str | None, Argument("ID", help="An offsetMsgId, or a uniqKey with --topic.")
    ] = None,
    topic: Annotated[
        str | None,
        Option("--topic", "-t", metavar="TOPIC", help="Topic of the message.", complete="topic"),
    ] = None,
    queue: Annotated[
        int | None, Option("--queue", metavar="N", help="Queue of the message.", parse=int32)
    ] = None,
    offset: Annotated[
        int | None,
        Option("--offset", metavar="N", help="Queue offset of the message.", parse=whole),
    ] = None,
    broker: Annotated[
        str | None,
        Option("--broker", "-b", metavar="BROKER", help="Broker of the queue (name)."),
    ] = None,
    group: Annotated[
        str | None,
        Option("--group", "-g", metavar="GROUP", help="Only this group.", complete="group"),
    ] = None,
) -> None:
    """Show which groups have consumed a message.

    CONSUMED: the group committed an offset past the message. CONSUMED_BUT_FILTERED: it did, but it
    does not subscribe to the tag of the message. PULL, NOT_ONLINE, CONSUME_BROADCASTING: the broker
    cannot decide it; the committed offset is shown.
    """
    queries = message_queries(session.admin)
    if message_id is not None:
        if queue is not None or offset is not None or broker is not None:
            raise UsageFault("give an ID, or --topic with --queue and --offset, not both")
        found = queries.query_id(message_id, topic=topic)
    elif topic is None or queue is None or offset is None:
        raise UsageFault("no message is named", "give an ID, or --topic with --queue and --offset")
    else:
        found = queries.query_offset(topic, queue, offset, broker=broker)
    if found.kind != "found":
        emit_found(session, MSG_TRACK, found)
        return
    tracker = library.MessageTracker(session.admin)
    parts = [tracker.track(message, group=group) for message in found.items]
    listing = Listing(
        items=[record for part in parts for record in part.items],
        errors=[*found.errors, *(error for part in parts for error in part.errors)],
    )
    session.emit_listing(
        MSG_TRACK, listing, nothing=f"no group consumes topic {found.items[0].topic}"
    )
