"""The sequence of a command that acts on single messages: plan, show, ask, act, report."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from mqadmin.command.execution.session import Session
from mqadmin.output.view import View

if TYPE_CHECKING:
    from mqadmin.admin.result import TargetError


class Item(Protocol):
    """One message: its broker, and the error if the action failed."""

    @property
    def address(self) -> str:
        """The address of the broker."""
        ...

    @property
    def error(self) -> "TargetError | None":
        """The error of the action."""
        ...


I = TypeVar("I", bound=Item)  # noqa: E741


def run_each(
    session: Session, view: View, items: Sequence[I], act: Callable[[I], I], question: str
) -> None:
    """Apply ``act`` to planned items one by one; a failed item does not affect the others.

    ``question`` is asked on a terminal. Status 5 when some failed.
    """
    session.announce(item.address for item in items)
    if session.dry_run:
        session.emit(view, items)
        session.end_dry_run()
        return
    if not session.consent(question):
        return
    done = [act(item) for item in items]
    session.emit(view, done)
    errors = [item.error for item in done if item.error is not None]
    session.report_targets(errors, some_worked=len(errors) < len(done))
