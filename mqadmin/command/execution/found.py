"""Printing the result of a message query; an empty result always names its reason."""

from typing import TYPE_CHECKING, Annotated, Any

from mqadmin.command.execution.failure import UsageFault, target_report
from mqadmin.command.execution.online import body_form
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO, NOT_PERMITTED, PARTLY, REFUSED, UNREACHABLE, USAGE
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import count
from mqadmin.output.errors import ErrorReport, emit_error
from mqadmin.output.view import Outcome, View

if TYPE_CHECKING:
    from mqadmin.admin.message.record import BodyView
    from mqadmin.admin.message.result import QueryResult

# mqadmin.admin.message.query.QueryResult.kind → exit status; "found" is 0
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

# Default reason of a truncated result, and the default hint.
MORE = "more messages match"
RAISE = "raise --limit, or narrow the window with --since and --until"

#: Default number of messages shown.
DEFAULT_LIMIT = 64

Limit = Annotated[
    int | None,
    Option(
        "--limit",
        "--max",
        "-m",
        metavar="N",
        help=f"Show at most N messages; default {DEFAULT_LIMIT}.",
        parse=count,
    ),
]


def body_view(encoding: str, raw: bool) -> "BodyView":
    """Return the body options of a query; UsageFault for --raw without a body."""
    if raw and encoding == "none":
        raise UsageFault("--raw applies to the body, but no body is shown", "add --body text")
    return body_form(encoding, raw=raw)


def emit_found(
    session: Session, view: View, result: "QueryResult", limit: int | None = None
) -> None:
    """Print the messages of a ``QueryResult``, or the reason of an empty one.

    ``limit`` is the value of --limit: a result truncated there is complete as requested.
    """
    errors = [target_report(error) for error in result.errors]
    is_found = result.kind == "found"
    outcome = Outcome(
        truncated=result.truncated,
        asked=limit is not None and len(result.items) >= limit,
        reason=(result.detail if is_found else "") or MORE,
        errors=[report.fields() for report in errors],
    )
    hint = (result.hint if is_found else "") or RAISE
    session.emit(view, result.items, outcome, quiet=True, hint=hint)
    _conclude(session, result, errors, cut=outcome.truncated and not outcome.asked)


def emit_one_found(session: Session, view: View, result: "QueryResult") -> None:
    """Print the requested message; report how many others have the same id."""
    if result.items:
        session.emit_one(view, result.items[0])
        if len(result.items) > 1:
            first = result.items[0]
            session.note(
                f"{len(result.items) - 1} more with this id: mqadmin msg query "
                f"--topic {first.topic} --uniq-key {first.uniq_key} shows all"
            )
    _conclude(session, result, [target_report(error) for error in result.errors], cut=False)


def _conclude(session: Session, result: "QueryResult", errors: list[Any], *, cut: bool) -> None:
    for text in dict.fromkeys(report.message for report in errors):
        # a broker that does not respond fails every queue with the same message: report it once
        emit_error(next(one for one in errors if one.message == text), form=session.form)
    if result.kind == "found":
        if errors or cut:
            session.status = PARTLY
        return
    message = result.detail or f"no message: {result.kind}"
    reported = any(report.kind == result.kind or report.message in message for report in errors)
    if not reported:
        emit_error(ErrorReport(result.kind, message, result.hint), form=session.form)
    session.status = PARTLY if result.truncated else KINDS.get(result.kind, NO)
