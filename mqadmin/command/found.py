"""How the answer to a search for messages is shown: never a bare "nothing"."""

from typing import Any

from mqadmin.command.failure import (
    NO,
    NOT_PERMITTED,
    PARTLY,
    REFUSED,
    UNREACHABLE,
    USAGE,
    target_report,
)
from mqadmin.command.session import Session
from mqadmin.output.view import Outcome, View

# mqadmin.admin.message.QueryResult.kind → exit status; "found" is 0
KINDS: dict[str, int] = {
    "notInIndex": NO,
    "outsideWindow": NO,
    "dataDeleted": NO,
    "notWritten": NO,
    "noSuchTopic": NO,
    "notFound": NO,
    "refused": REFUSED,
    "notPermitted": NOT_PERMITTED,
    "unreachable": UNREACHABLE,
    "badId": USAGE,
}

# Why the rows of a window end early.
MORE = "more messages match than --max lets through; narrow the window, or raise --max"


def emit_found(session: Session, view: View, result: Any) -> None:
    """Print the messages of a ``QueryResult``, or say which kind of no it is."""
    errors = [target_report(error) for error in result.errors]
    outcome = Outcome(
        truncated=result.truncated,
        reason=(result.detail if result.kind == "found" else "") or MORE,
        errors=[report.fields() for report in errors],
    )
    session.emit(view, result.items, outcome, quiet=True)
    _conclude(session, result, errors)


def emit_one_found(session: Session, view: View, result: Any) -> None:
    """Print the one message that was asked for; others of the same id are counted."""
    if result.items:
        session.emit_thing(view, result.items[0])
        if len(result.items) > 1:
            session.note(
                f"{len(result.items) - 1} more with this id: mqadmin msg query --id shows all"
            )
    _conclude(session, result, [target_report(error) for error in result.errors])


def _conclude(session: Session, result: Any, errors: list[Any]) -> None:
    from mqadmin.output.errors import ErrorReport, emit_error

    for report in errors:
        emit_error(report, form=session.form)
    if result.kind == "found":
        if errors or result.truncated:
            session.status = PARTLY
        return
    message = result.detail or f"no message: {result.kind}"
    said = any(report.kind == result.kind or report.message in message for report in errors)
    if not said:
        emit_error(ErrorReport(result.kind, message, result.hint), form=session.form)
    session.status = PARTLY if result.truncated else KINDS.get(result.kind, NO)
