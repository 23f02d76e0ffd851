"""``mqadmin offset``: export, import, clone, undo, at."""

from typing import Annotated

from mqadmin.admin.offset.transfer import OffsetTransfer
from mqadmin.command.execution.online import offsets
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.window import local_time
from mqadmin.command.framework.common_options import Group, OnlyTopic, Topic
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.values import time_ms
from mqadmin.command.offset import NOUN
from mqadmin.command.saved_offsets.run import UndoFile, offset_change_view, run_offset_change
from mqadmin.output.view import View

OFFSET_EXPORT = View(
    "offset.export", ("topic", "queueId", "consumerOffset", "brokerName"), keep=("consumerOffset",)
)
OFFSET_AT = View(
    "offset.at",
    ("topic", "brokerName", "queueId", "minOffset", "offset", "maxOffset", "messages"),
)

OffsetsFile = Annotated[str, Argument("FILE", help="Offsets file, JSON or CSV.", complete="file")]


@NOUN.verb(
    "export",
    view=OFFSET_EXPORT,
    examples=[
        "mqadmin offset export billing --out billing.csv",
        "mqadmin offset export billing --topic orders -o json",
    ],
)
def export(
    session: Session,
    group: Group,
    topic: OnlyTopic = None,
    out: Annotated[
        str | None,
        Option(
            "--out",
            metavar="FILE",
            help="New file: CSV if its name ends in .csv, else JSON; default: print.",
            complete="file",
        ),
    ] = None,
) -> None:
    """Export the committed offsets of a group.

    A CSV file has the form of Kafka's kafka-consumer-groups, without a header and with the broker
    name added: topic,queueId,offset,brokerName. A queue without a committed offset has an empty
    one. 'offset import' reads both files and the output of -o json and -o csv.
    """
    library = offsets(session.admin)
    nothing = f"group {group} has no offset on any broker"
    hint = "mqadmin consumer list and mqadmin group list list the groups"
    if out is None:
        listing = library.saved(group, topic=topic)
        session.emit_listing(OFFSET_EXPORT, listing, nothing=nothing, hint=hint)
        return
    listing = library.export(group, out, topic=topic)
    if not session.is_table or not listing.items:
        session.emit_listing(OFFSET_EXPORT, listing, nothing=nothing, hint=hint)
    else:
        session.report_targets(listing.errors, some_worked=True)
    if listing.items:
        session.note(f"{len(listing.items)} queues of group {group} are in {out}")


@NOUN.verb(
    "import",
    view=offset_change_view("offset.import"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin offset import billing billing.csv --dry-run",
        "mqadmin offset import billing-copy billing.json --topic orders --yes",
    ],
)
def import_offsets(
    session: Session,
    group: Group,
    path: OffsetsFile,
    topic: OnlyTopic = None,
    undo_file: UndoFile = None,
) -> None:
    """Set the consumer offsets of a group from a file.

    Queues that the file does not name keep their offsets; a queue with an empty offset (null in
    JSON) has none afterwards. CSV of Kafka's kafka-consumer-groups (topic,partition,offset) is
    accepted for topics on one broker.
    """
    transfer = OffsetTransfer(session.admin)
    run_offset_change(
        session, lambda: transfer.plan_import(group, path, topic=topic), "set", undo_file
    )


@NOUN.verb(
    "clone",
    view=offset_change_view("offset.clone"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin offset clone billing billing-copy --dry-run",
        "mqadmin offset clone billing billing-copy --topic orders --yes",
    ],
)
def clone(
    session: Session,
    source: Annotated[str, Argument("SOURCE", help="Group to copy from.", complete="group")],
    target: Annotated[str, Argument("TARGET", help="Group that is changed.", complete="group")],
    topic: OnlyTopic = None,
    undo_file: UndoFile = None,
) -> None:
    """Set the consumer offsets of a group to those of another group.

    The target group must exist. Queues in which the source has no committed offset are left alone,
    as is the retry topic of the source.
    """
    transfer = OffsetTransfer(session.admin)
    run_offset_change(
        session, lambda: transfer.plan_clone(source, target, topic=topic), "set", undo_file
    )


@NOUN.verb(
    "undo",
    view=offset_change_view("offset.undo"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin offset undo offset-undo-billing-orders-1700000000000.json --dry-run",
        "mqadmin offset undo offset-undo-billing-orders-1700000000000.json --yes",
    ],
)
def undo(
    session: Session,
    path: Annotated[str, Argument("FILE", help="Undo file of a change.", complete="file")],
    topic: OnlyTopic = None,
    undo_file: UndoFile = None,
) -> None:
    """Restore the consumer offsets that a change replaced.

    The undo file names the group. Offsets that were absent before the change are removed again,
    which needs a group without connected clients. The undo writes an undo file, too.
    """
    transfer = OffsetTransfer(session.admin)
    run_offset_change(session, lambda: transfer.plan_undo(path, topic=topic), "restore", undo_file)


@NOUN.verb(
    "at",
    view=OFFSET_AT,
    examples=[
        "mqadmin offset at orders --since -2h",
        "mqadmin offset at orders --since '2026-01-02 03:04' -o csv",
    ],
)
def at(
    session: Session,
    topic: Topic,
    begin: Annotated[
        int,
        Option(
            "--since",
            "--begin",
            metavar="T",
            help="The time: RFC 3339, now, -2h, @1700000000.",
            parse=time_ms,
        ),
    ],
) -> None:
    """Show the offset of each queue at a time: of the first message stored then or later.

    It is maxOffset in a queue without such a message. 'messages' is the number from there to the
    end of the queue.
    """
    session.note(f"at {local_time(begin)}")
    listing = OffsetTransfer(session.admin).at(topic, begin)
    session.emit_listing(OFFSET_AT, listing, nothing=f"topic {topic} has no queues")
