"""``mqadmin offset``: show, reset."""

from shlex import quote
from typing import Annotated, Any

from mqadmin.command.execution.failure import target_report, target_status
from mqadmin.command.execution.online import offsets
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import MOVED, PARTLY
from mqadmin.command.execution.window import local_time
from mqadmin.command.framework.common_options import Group, OnlyQueue, OnlyTopic
from mqadmin.command.framework.declare import Noun, Option
from mqadmin.output.view import Outcome, View

NOUN = Noun(
    "offset",
    """Show and reset consumer offsets.

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
OFFSET_RESET = View(
    "offset.reset",
    (
        "topic",
        "brokerName",
        "queueId",
        "currentOffset",
        "newOffset",
        "skipped",
        "repeated",
        "clamped",
        "readBack",
        "status",
    ),
    wide=(
        "group",
        "topic",
        "brokerName",
        "address",
        "queueId",
        "minOffset",
        "maxOffset",
        "currentOffset",
        "newOffset",
        "skipped",
        "repeated",
        "clamped",
        "readBack",
        "status",
    ),
    keep=("currentOffset", "newOffset"),
)


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
    undo_file: Annotated[
        str | None,
        Option(
            "--undo-file",
            metavar="FILE",
            help="File for the old offsets; default: a new file in this directory.",
            complete="file",
        ),
    ] = None,
) -> None:
    """Move the consumer offsets of a group on one topic.

    Prints the resolved time, and for each queue the current and the new offset and the number of
    messages skipped or repeated; writes the old offsets, including absent ones, to an undo file
    before any change (restore them with --to file:F); applies the reset and reads it back. If
    clients of the group are connected, they are notified.
    """
    session.require_consent()
    plan = offsets(session.admin).plan_reset(group, topic, to, queue_id=queue, broker=broker)
    session.announce(item.address for item in plan.items)
    if plan.to_timestamp is not None:
        session.note(f"to the first message stored at {local_time(plan.to_timestamp)} or later")
    for warning in plan.warnings:
        session.note(f"warning: {warning}")
    if session.dry_run:
        _show(session, plan)
        session.end_dry_run()
        return
    if plan.empty:
        _show(session, plan)
        if not plan.errors:
            session.note("nothing to do: every queue has that offset")
        return
    if not session.yes:
        _note_items(session, plan)
        if not session.consent(f"reset {len(plan.items)} queues of {topic} for group {group}?"):
            return
    done = offsets(session.admin).apply_reset(plan, undo_path=undo_file)
    _show(session, done)
    for warning in done.warnings[len(plan.warnings) :]:
        session.note(f"warning: {warning}")
    if done.undo_path and any(item.status in UNDONE_BY_FILE for item in done.items):
        place = quote(f"file:{done.undo_path}")
        session.note(
            f"undo: mqadmin offset reset {quote(group)} --topic {quote(topic)} --to {place}"
        )
    session.status = _status(done)


# Items that an undo file can restore; "pending" is a reset that the clients still have to apply.
UNDONE_BY_FILE = frozenset({"done", "differs", "pending"})


def _show(session: Session, plan: Any) -> None:
    outcome = Outcome(errors=[target_report(error).fields() for error in plan.errors])
    session.emit(OFFSET_RESET, plan.items, outcome)
    session.report_targets(plan.errors, some_worked=bool(plan.items))


def _note_items(session: Session, plan: Any) -> None:
    for item in plan.items:
        session.note(
            f"{item.broker_name} queue {item.queue_id}: {_shown(item.current_offset)} -> "
            f"{_shown(item.new_offset)}, {item.skipped} skipped, {item.repeated} repeated"
            + (", clamped" if item.clamped else "")
        )


def _shown(offset: int | None) -> str:
    return "-" if offset is None else str(offset)


def _status(done: Any) -> int:
    if done.ok:
        return 0
    statuses = {item.status for item in done.items}
    if statuses & {"differs", "moved"}:
        return MOVED
    if statuses & {"done", "pending"}:
        return PARTLY
    errors = [item.error for item in done.items if item.error is not None] + list(done.errors)
    if not errors:
        return PARTLY
    return target_status(errors[0].kind, errors[0].response_code)
