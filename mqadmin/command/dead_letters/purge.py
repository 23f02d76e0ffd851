"""``mqadmin dlq purge``."""

from typing import TYPE_CHECKING, Annotated

from mqadmin.command.dlq import NOUN
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.online import dlq_purger
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.common_options import Group
from mqadmin.command.framework.declare import Option
from mqadmin.command.saved_offsets.run import UndoFile, offset_change_view, run_offset_change
from mqadmin.output.view import Outcome

if TYPE_CHECKING:
    from mqadmin.admin.dlq.purge import DlqPurger
    from mqadmin.admin.offset.reset import ResetPlan

DLQ_PURGE = offset_change_view("dlq.purge")


@NOUN.verb(
    "purge",
    view=DLQ_PURGE,
    changes=True,
    examples=[
        "mqadmin dlq purge billing --export billing-dead.ndjson --dry-run",
        "mqadmin dlq purge billing --export billing-dead.ndjson --yes",
        "mqadmin dlq purge billing --reader dead-letter-alerts --no-export --yes",
    ],
)
def purge(
    session: Session,
    group: Group,
    export: Annotated[
        str | None,
        Option(
            "--export",
            metavar="FILE",
            help="New file for the skipped dead letters, written first.",
            complete="file",
        ),
    ] = None,
    no_export: Annotated[bool, Option("--no-export", help="Skip them without a copy.")] = False,
    reader: Annotated[
        str | None,
        Option(
            "--reader",
            metavar="GROUP",
            help="Group that reads the DLQ; default: the only one.",
            complete="group",
        ),
    ] = None,
    undo_file: UndoFile = None,
) -> None:
    """Skip the dead letters of a group: set the group that reads its DLQ to the end.

    No message is removed: RocketMQ has no request for that. The dead letters stay in %DLQ%GROUP,
    and 'dlq list' counts them, until their retention time (fileReservedTime) has passed;
    'topic delete %DLQ%GROUP' removes all of them at once.

    With --export the skipped dead letters are first written to FILE, with their bodies; no offset
    moves if one of them cannot be written. 'dlq replay --from FILE' sends them. 'offset undo'
    restores the offsets from the undo file.
    """
    if (export is None) == (not no_export):
        raise UsageFault(
            "dlq purge: one of --export FILE and --no-export is needed; nothing was changed",
            "--export FILE keeps a copy that 'dlq replay --from FILE' sends",
        )
    session.require_consent()
    purger = dlq_purger(session.admin)
    reading = reader or _only_reader(session, purger, group)
    if reading is None:
        return

    def save(plan: "ResetPlan") -> None:
        if export is not None:
            written = purger.export(plan, export)
            session.note(f"{written} dead letters of group {group} are in {export}")

    run_offset_change(
        session,
        lambda: purger.plan(group, reading),
        "skip the dead letters in",
        undo_file,
        before=save,
    )


def _only_reader(session: Session, purger: "DlqPurger", group: str) -> str | None:
    """Return the group that reads the DLQ; None if there is none, which is reported (status 1)."""
    found = purger.readers(group)
    if len(found.items) > 1:
        raise UsageFault(
            f"dlq purge: {len(found.items)} groups read the DLQ of {group}: "
            + ", ".join(found.items),
            "name one with --reader",
        )
    if found.errors:
        session.emit(DLQ_PURGE, [], Outcome(), quiet=True)
        session.report_targets(found.errors, some_worked=False)
        return None
    if not found.items:
        session.emit(DLQ_PURGE, [], quiet=True)
        session.report(
            NO,
            "notFound",
            f"no group reads %DLQ%{group}: there is no offset to move",
            "the messages expire after the retention time of the broker; "
            f"mqadmin topic delete %DLQ%{group} removes them at once",
        )
        return None
    return found.items[0]
