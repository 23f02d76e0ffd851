"""The sequence of every change of consumer offsets: plan, show, ask, apply, read back, undo."""

from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from mqadmin.command.execution.failure import target_report, target_status
from mqadmin.command.execution.online import offsets
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import MOVED, PARTLY
from mqadmin.command.execution.window import local_time
from mqadmin.command.framework.declare import Option
from mqadmin.output.view import Outcome, View

if TYPE_CHECKING:
    from mqadmin.admin.offset.reset import ResetPlan

# Items that an undo file can restore; "pending" is a reset that the clients still have to apply.
UNDONE_BY_FILE = frozenset({"done", "differs", "pending"})

UndoFile = Annotated[
    str | None,
    Option(
        "--undo-file",
        metavar="FILE",
        help="File for the old offsets; default: a new file in this directory.",
        complete="file",
    ),
]


def offset_change_view(name: str) -> View:
    """Declare the output of a command that moves offsets: one row per queue."""
    columns = (
        *("topic", "brokerName", "queueId", "currentOffset", "newOffset", "skipped", "repeated"),
        *("clamped", "readBack", "status"),
    )
    wide = (
        *("group", "topic", "brokerName", "address", "queueId", "minOffset", "maxOffset"),
        *("currentOffset", "newOffset", "skipped", "repeated", "clamped", "readBack", "status"),
    )
    return View(name, columns, wide=wide, keep=("currentOffset", "newOffset"))


def run_offset_change(
    session: Session,
    make_plan: Callable[[], "ResetPlan"],
    verb: str,
    undo_file: str | None,
    *,
    before: Callable[["ResetPlan"], None] | None = None,
) -> None:
    """Run a change of offsets from plan to read-back; ``verb`` is the first word of the question.

    ``before`` is called with the plan after the consent; nothing is changed if it raises.

    Status 0 when every queue is as planned, 5 when some are, 8 when the state moved or the
    read-back differs, else the status of the error.
    """
    session.require_consent()
    view = session.verb.views[0]
    plan = make_plan()
    session.announce(item.address for item in plan.items)
    if plan.to_timestamp is not None:
        session.note(f"to the first message stored at {local_time(plan.to_timestamp)} or later")
    for warning in plan.warnings:
        session.note(f"warning: {warning}")
    if session.changes_nothing:
        show_offset_plan(session, view, plan)
        session.end_without_change(plan)
        return
    if plan.empty:
        show_offset_plan(session, view, plan)
        if not plan.errors:
            session.note("nothing to do: every queue has that offset")
        return
    if not session.yes:
        _note_items(session, plan)
        question = f"{verb} {len(plan.items)} queues of {plan.topic} for group {plan.group}?"
        if not session.consent(question):
            return
    if before is not None:
        before(plan)
    done = offsets(session.admin).apply_reset(plan, undo_path=undo_file)
    show_offset_result(session, view, plan, done)


def show_offset_result(session: Session, view: View, plan: "ResetPlan", done: "ResetPlan") -> None:
    """Print the result ``done`` of a plan with the undo command, and set the status."""
    show_offset_plan(session, view, done)
    for warning in done.warnings[len(plan.warnings) :]:
        session.note(f"warning: {warning}")
    if done.undo_path and any(item.status in UNDONE_BY_FILE for item in done.items):
        session.note(f"undo: mqadmin offset undo {quote(done.undo_path)}")
    session.status = _status(done)


def show_offset_plan(session: Session, view: View, plan: "ResetPlan") -> None:
    """Print a planned or applied change, and the targets that failed."""
    outcome = Outcome(errors=[target_report(error).fields() for error in plan.errors])
    session.emit(view, plan.items, outcome)
    session.report_targets(plan.errors, some_worked=bool(plan.items))


def _note_items(session: Session, plan: "ResetPlan") -> None:
    several = "," in plan.topic
    for item in plan.items:
        topic = f"{item.topic} " if several else ""
        session.note(
            f"{topic}{item.broker_name} queue {item.queue_id}: {_shown(item.current_offset)} -> "
            f"{_shown(item.new_offset)}, {item.skipped} skipped, {item.repeated} repeated"
            + (", clamped" if item.clamped else "")
        )


def _shown(offset: int | None) -> str:
    return "-" if offset is None else str(offset)


def _status(done: "ResetPlan") -> int:
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
