"""``mqadmin dlq``: list, show."""

from typing import Annotated, Literal

from mqadmin.command.declare import Argument, Noun, Option
from mqadmin.command.found import emit_found
from mqadmin.command.session import Session
from mqadmin.command.values import count, time_ms
from mqadmin.command.window import Begin, End, Time, window
from mqadmin.output.view import View

NOUN = Noun(
    "dlq",
    """Look at dead letters.

    A message that a consumer group could not process is tried again through the group's retry
    topic; after retryMaxTimes deliveries it is put into the topic %DLQ%group, where nobody reads
    it. Each dead letter keeps its body, its keys, and in its properties the topic and id it came
    from.
    """,
)

DLQ_LIST = View(
    "dlq.list",
    "mqadmin.admin.dlq:DlqRecord",
    ("group", "topic", "messages", "oldestTime", "newestTime", "growthPerHour"),
)
DLQ_SHOW = View(
    "dlq.show",
    "mqadmin.message_row:MessageRow",
    (
        "topic",
        "brokerName",
        "queueId",
        "queueOffset",
        "storeTime",
        "reconsumeTimes",
        "tags",
        "keys",
        "offsetMsgId",
        "body",
    ),
)


@NOUN.verb(
    "list",
    view=DLQ_LIST,
    examples=["mqadmin dlq list", "mqadmin dlq list billing --store /data/store"],
)
def list_dead_letters(
    session: Session,
    group: Annotated[
        str | None, Argument("GROUP", help="Only this group.", complete="group")
    ] = None,
    store: Annotated[
        str | None,
        Option("--store", metavar="DIR", help="Read a store directory.", complete="file"),
    ] = None,
) -> None:
    """List groups that have dead letters: how many, how old, how fast they grow.

    With --store nothing is asked over the network: the dead letters of a store directory are
    counted.
    """
    nothing = f"group {group} has no dead letters" if group else ""
    if store is not None:
        from mqadmin.inspector.directory import StoreDirectory

        rows = StoreDirectory(store).dead_letters(group=group, now_ms=time_ms("now"))
        session.emit(DLQ_LIST, rows, nothing=nothing)
        return
    session.emit_listing(DLQ_LIST, session.admin.dlq.list(group=group), nothing=nothing)


@NOUN.verb(
    "show",
    view=DLQ_SHOW,
    examples=["mqadmin dlq show billing", "mqadmin dlq show billing --begin -1d --body text"],
)
def show(
    session: Session,
    group: Annotated[str, Argument("GROUP", help="The consumer group.", complete="group")],
    begin: Begin = None,
    end: End = None,
    time: Time = None,
    maximum: Annotated[
        int, Option("--max", "-m", metavar="N", help="Show at most N messages.", parse=count)
    ] = 64,
    body: Annotated[
        Literal["none", "text", "hex", "base64"],
        Option("--body", help="Show the body in this form."),
    ] = "none",
    raw: Annotated[
        bool, Option("--raw", help="The stored bytes of the body, not decompressed.")
    ] = False,
) -> None:
    """Show the dead letters of a group, oldest first."""
    from mqadmin.admin.message import BodyView

    begin, end = window(session, begin, end, time)
    result = session.admin.dlq.show(
        group,
        max_items=maximum,
        begin_ms=begin or 0,
        end_ms=end,
        body=BodyView(encoding=body, raw=raw),
    )
    emit_found(session, DLQ_SHOW, result)
