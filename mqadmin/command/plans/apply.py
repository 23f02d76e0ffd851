"""``mqadmin apply``."""

from typing import Annotated

from mqadmin.admin.plans.plan_file import PlanFile, load_plan
from mqadmin.admin.plans.runner import PlanRunner
from mqadmin.command.execution.change import change_view, show_applied, show_plan
from mqadmin.command.execution.failure import MovedFault
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.window import local_time
from mqadmin.command.framework.declare import Argument, Noun
from mqadmin.command.saved_offsets.run import (
    UndoFile,
    offset_change_view,
    show_offset_plan,
    show_offset_result,
)

NOUN = Noun(
    "apply",
    """Apply a plan that was written to a file.

    Commands that change topics, groups and offsets write their plan with --plan FILE instead of
    applying it. The file contains the state found, the state wanted and the requests in between.
    """,
)

APPLY = change_view("apply")
APPLY_OFFSETS = offset_change_view("apply.offsets")


@NOUN.verb(
    "",
    view=(APPLY, APPLY_OFFSETS),
    changes=True,
    examples=["mqadmin apply topics.plan --dry-run", "mqadmin apply topics.plan --yes"],
)
def apply(
    session: Session,
    path: Annotated[str, Argument("FILE", help="File written by --plan.", complete="file")],
    undo_file: UndoFile = None,
) -> None:
    """Apply exactly the plan of a file, or nothing if the state moved since (status 8).

    Every target is read again first. If one is neither as the plan found it nor as the plan wants
    it, or if a broker address now belongs to another broker or cluster, nothing is changed. A
    target that already has the planned state is no obstacle: rerun to resume. A plan of offsets
    writes an undo file.
    """
    session.require_consent()
    content = load_plan(path)
    session.announce(content.addresses)
    session.note(f"plan of 'mqadmin {content.verb}' from {local_time(content.created_timestamp)}")
    runner = PlanRunner(session.admin)
    moved = runner.scope_difference(content, session.admin.scope(content.addresses))
    if moved:
        raise MovedFault(
            f"plan file {path}: {moved}; nothing was changed",
            "select the cluster of the plan with --context or --namesrv, or make the plan again",
        )
    _show(session, content)
    if session.dry_run:
        session.end_dry_run()
        return
    if content.offsets is not None:
        if content.offsets.empty or session.consent(f"apply the plan of {path}?"):
            done = runner.apply_offsets(content.offsets, undo_path=undo_file)
            show_offset_result(session, APPLY_OFFSETS, content.offsets, done)
    elif content.change is not None and session.consent(f"apply the plan of {path}?"):
        show_applied(session, runner.apply_change(content.change))


def _show(session: Session, content: PlanFile) -> None:
    """Print the plan of a dry run, or before the question."""
    if not session.dry_run:
        if not session.yes:
            session.note(f"{len(content.addresses)} targets; --dry-run shows them")
        return
    if content.offsets is not None:
        show_offset_plan(session, APPLY_OFFSETS, content.offsets)
    elif content.change is not None:
        show_plan(session, content.change)
