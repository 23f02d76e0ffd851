"""The sequence of a command that acts on single messages: plan, show, ask, act, report."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from mqadmin.command.execution.failure import target_report
from mqadmin.command.execution.session import Session
from mqadmin.output.view import Outcome, View

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

    An item with an error in the plan is only reported. ``question`` is asked on a terminal, if an
    item is left. Status 5 when some failed.
    """
    session.announce(item.address for item in items)
    possible = any(item.error is None for item in items)
    if possible and not session.dry_run and not session.consent(question):
        return
    outcome = Outcome()
    errors: list[TargetError] = []

    def results() -> Iterator[I]:
        for item in items:
            done = item if session.dry_run or item.error is not None else act(item)
            if done.error is not None:
                errors.append(done.error)
                outcome.errors.append(target_report(done.error).fields())
            yield done

    session.emit(view, results(), outcome)
    if session.dry_run:
        session.end_dry_run()
    session.report_targets(errors, some_worked=len(errors) < len(items))
