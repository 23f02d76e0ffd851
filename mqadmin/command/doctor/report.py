"""Print findings and set the status."""

from collections.abc import Sequence

from mqadmin.admin.doctor.finding import Finding, is_serious
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.output.view import View

COLUMNS = ("severity", "kind", "target", "message", "cause", "fix")


def report(session: Session, view: View, findings: Sequence[Finding], scope: str) -> None:
    """Print the findings; status 1 if one of them requires an action."""
    session.emit(view, findings, quiet=True)
    serious = sum(is_serious(one) for one in findings)
    notices = len(findings) - serious
    session.note(f"{scope}: {serious} findings that require an action, {notices} notices")
    if serious:
        session.status = NO
