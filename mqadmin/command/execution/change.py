"""The sequence of every change: plan, show, ask, apply, read back."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mqadmin.command.execution.failure import target_report, target_status
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import MOVED, NO, PARTLY
from mqadmin.output.values import cell
from mqadmin.output.view import Outcome, View

if TYPE_CHECKING:
    from mqadmin.admin.result import Change, ChangeResult, Plan
    from mqadmin.admin.result import Outcome as Applied
    from mqadmin.admin.session import AdminSession

COLUMNS = ("target", "address", "action", "change", "status", "note")
KEEP = ("target", "action", "change", "status")


def change_view(name: str) -> View:
    """Declare the output of a command that changes something: one row per target."""
    return View(name, COLUMNS, keep=KEEP)


class Library(Protocol):
    """The library of a noun whose objects can be changed."""

    def apply(self, plan: "Plan") -> "Applied":
        """Apply a plan."""
        ...


L = TypeVar("L", bound=Library)


def run_change(
    session: Session,
    library_of: Callable[["AdminSession"], L],
    make_plan: Callable[[L], "Plan"],
    question: str,
) -> None:
    """Run a change from plan to read-back; ``question`` is asked on a terminal.

    Status 0 when every target is as planned, 5 when some are, 8 when the state moved or the
    read-back differs, else the status of the error.
    """
    session.require_consent()
    library = library_of(session.admin)
    plan = make_plan(library)
    # Not the later steps: their addresses are name servers, not brokers.
    session.announce(change.address for change in plan.changes if change.step <= 0)
    for warning in plan.warnings:
        session.note(f"warning: {warning}")
    planned = [_planned(plan, change) for change in plan.changes]
    if session.changes_nothing:
        _show(session, planned, plan.errors)
        session.end_without_change(plan)
        return
    if plan.empty:
        _show(session, planned, plan.errors)
        if not plan.errors:
            session.note(f"nothing to do: {_idle_reason(plan)}")
        return
    if not session.yes:
        for row in planned:
            session.note(f"{row['target']}: {row['action']} {row['change']}")
        if not session.consent(question):
            return
    show_applied(session, library.apply(plan))


def _idle_reason(plan: "Plan") -> str:
    if plan.kind.endswith(".create"):
        # --if-not-exists: the object may differ from the options, which the warnings report
        return f"every target has {plan.subject} already; left unchanged"
    return "every target is as asked"


def show_plan(session: Session, plan: "Plan") -> None:
    """Print the planned changes, and the targets that could not be read."""
    _show(session, [_planned(plan, change) for change in plan.changes], plan.errors)


def show_applied(session: Session, applied: "Applied") -> None:
    """Print the result of a plan and set the status."""
    _show(session, [_result(item) for item in applied.items], applied.errors)
    session.status = _status(applied)


def _show(session: Session, rows: list[dict[str, Any]], errors: Sequence[Any]) -> None:
    view = session.verb.views[0]
    if not session.is_table:
        rows = [{name: row[name] for name in row if name != "change"} for row in rows]
    outcome = Outcome(errors=[target_report(error).fields() for error in errors])
    session.emit(view, rows, outcome)
    session.report_targets(errors, some_worked=bool(rows))


def _planned(plan: "Plan", change: "Change") -> dict[str, Any]:
    return {
        "target": plan.target_name(change),
        "address": change.address,
        "action": change.action,
        "change": difference(change.before, change.after),
        "before": change.before,
        "after": change.after,
        "readBack": None,
        "status": "unchanged" if change.unchanged else "planned",
        "note": change.note or None,
    }


def _result(item: "ChangeResult") -> dict[str, Any]:
    return {
        "target": item.target,
        "address": item.address,
        "action": item.action,
        "change": difference(item.before, item.after),
        "before": item.before,
        "after": item.after,
        "readBack": item.read_back,
        "status": item.status,
        "note": item.error.message if item.error is not None else None,
    }


def difference(before: Any, after: Any) -> str:
    """Format a change for one cell: ``perm 6 -> 4``, only the fields that change."""
    if after is None:
        return "exists -> gone" if before is not None else "-"
    if before is None:
        return " ".join(f"{name}={_short(value)}" for name, value in after.items())
    moved = [
        f"{name} {_short(before.get(name))} -> {_short(value)}"
        for name, value in after.items()
        if before.get(name) != value
    ]
    return ", ".join(moved) or "-"


def _short(value: Any) -> str:
    return cell(value)


def _status(applied: "Applied") -> int:
    if applied.ok:
        return 0
    statuses = {item.status for item in applied.items}
    if statuses & {"moved", "differs"}:
        return MOVED
    if statuses & {"done", "unchanged"}:
        return PARTLY
    errors = [item.error for item in applied.items if item.error is not None]
    errors.extend(applied.errors)
    if not errors:
        return NO
    return target_status(errors[0].kind, errors[0].response_code)
