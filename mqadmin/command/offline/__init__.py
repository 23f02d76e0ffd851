"""Options of commands that ask running brokers or, with --store, read a store directory."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option
from mqadmin.output.view import Outcome, View

OneCluster = Annotated[
    str | None, Option("--cluster", "-c", metavar="NAME", help="Only brokers of this cluster.")
]
OneBroker = Annotated[
    str | None, Option("--broker", "-b", metavar="BROKER", help="Only this broker.")
]
StoreDir = Annotated[
    str | None,
    Option("--store", metavar="DIR", help="Read a store directory.", complete="file"),
]


def refuse_online_options(**options: object) -> None:
    """UsageFault for an option of running brokers together with --store."""
    for name, value in options.items():
        if value is not None:
            raise UsageFault(f"--{name} is an option for running brokers", "omit it with --store")


def bounded(
    session: Session,
    view: View,
    rows: Iterable[Any],
    limit: int | None,
    default: int,
    *,
    nothing: str = "",
) -> None:
    """Print at most ``limit`` rows, ``default`` if None, and report a truncation."""
    outcome = Outcome()
    session.emit(view, _cut(rows, limit, default, outcome), outcome, nothing=nothing)


def _cut(rows: Iterable[Any], limit: int | None, default: int, outcome: Outcome) -> Iterator[Any]:
    for number, row in enumerate(rows):
        if number >= (limit or default):
            outcome.truncated = True
            outcome.asked = limit is not None
            outcome.reason = f"only the first {limit or default} rows are shown (--limit)"
            return
        yield row
