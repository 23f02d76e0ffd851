"""``mqadmin offset``: show, reset."""

from typing import Annotated

from mqadmin.command.execution.online import offsets
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import Group, OnlyQueue, OnlyTopic
from mqadmin.command.framework.declare import Noun, Option
from mqadmin.command.saved_offsets.run import UndoFile, offset_change_view, run_offset_change
from mqadmin.output.view import View

NOUN = Noun(
    "offset",
    """Show, reset, export, import and clone consumer offsets.

    For each message queue a group commits a consumer offset, the queue offset of the next message
    to consume. Moving it forward skips messages, moving it back delivers them again. The valid
    range of a queue is from the min offset (oldest message) to the max offset (next message to be
    stored).
    """,
)

OFFSET_SHOW = View(
    "offset.show",
    (
        "topic",
        "brokerName",
        "queueId",
        "minOffset",
        "maxOffset",
        "consumerOffset",
        "lag",
        "lastTime",
        "state",
    ),
    keep=("consumerOffset",),
)
OFFSET_RESET = offset_change_view("offset.reset")


@NOUN.verb(
    "show",
    view=OFFSET_SHOW,
    examples=["mqadmin offset show billing", "mqadmin offset show billing --topic orders -o json"],
)
def show(
    session: Session,
    group: Group,
    topic: OnlyTopic = None,
) -> None:
    """Show the committed offsets of a group and the range of each queue."""
    listing = offsets(session.admin).show(group, topic=topic)
    session.emit_listing(
        OFFSET_SHOW,
        listing,
        nothing=f"group {group} has no offset on any broker",
        hint="mqadmin consumer list and mqadmin group list list the groups",
    )


@NOUN.verb(
    "reset",
    view=OFFSET_RESET,
    changes=True,
    plans=True,
    examples=[
        "mqadmin offset reset billing --topic orders --to earliest --dry-run",
        "mqadmin offset reset billing --topic orders --to '2026-01-02 03:04' --yes",
        "mqadmin offset reset billing --topic orders --to shift:-100 --queue 3",
        "mqadmin offset reset billing --topic orders --to file:undo.json",
    ],
)
def reset(
    session: Session,
    group: Group,
    topic: Annotated[
        str, Option("--topic", "-t", metavar="TOPIC", help="Topic to reset.", complete="topic")
    ],
    to: Annotated[
        str,
        Option(
            "--to",
            metavar="WHERE",
            help="earliest, latest, an offset, shift:-100, duration:1h, file:F or a time; bare "
            "digits are an offset, @1700000000 is a time.",
        ),
    ],
    queue: OnlyQueue = None,
    broker: Annotated[
        str | None, Option("--broker", "-b", metavar="NAME", help="Only this broker.")
    ] = None,
    undo_file: UndoFile = None,
) -> None:
    """Move the consumer offsets of a group on one topic.

    Prints the resolved time, and for each queue the current and the new offset and the number of
    messages skipped or repeated; writes the old offsets, including absent ones, to an undo file
    before any change (mqadmin offset undo FILE restores them); applies the reset and reads it
    back. If clients of the group are connected, they are notified.
    """
    run_offset_change(
        session,
        lambda: offsets(session.admin).plan_reset(group, topic, to, queue_id=queue, broker=broker),
        "reset",
        undo_file,
    )
