"""The run of a live command: once for scripts, or a screen until the user quits."""

from collections.abc import Callable
from typing import Annotated, TypeVar

from broker.errors import RocketMQError
from mqadmin.admin.result import Listing
from mqadmin.admin.session import AdminSession
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import duration_ms
from mqadmin.output.live import Screen, has_terminal, show
from mqadmin.output.view import View

MIN_INTERVAL_MS = 500

Row = TypeVar("Row")

Once = Annotated[bool, Option("--once", help="Print one table and exit, for scripts.")]
Interval = Annotated[
    int,
    Option(
        "--interval",
        metavar="DUR",
        help="Time between two measurements.",
        parse=duration_ms,
        shown="2s",
    ),
]


def run_top(
    session: Session,
    view: View,
    measure: Callable[[AdminSession], Listing[Row]],
    *,
    sort: str,
    once: bool,
    interval_ms: int,
    nothing: str,
) -> None:
    """Print one measurement, or show a screen; UsageFault without a terminal or --once."""
    if sort not in view.columns:
        raise UsageFault(f"--sort {sort}: not a column", "one of " + ", ".join(view.columns))
    if once or not session.is_table:
        listing = measure(session.admin)
        screen = Screen(view.columns, sort, view.texts)
        screen.take(listing.items)
        session.emit_listing(view, listing, items=screen.sorted_rows(), nothing=nothing)
        return
    if not has_terminal():
        raise UsageFault(
            f"{session.verb.path} shows a screen and needs a terminal",
            "--once prints one table",
        )
    if interval_ms < MIN_INTERVAL_MS:
        raise UsageFault(f"--interval must be at least {MIN_INTERVAL_MS}ms")
    admin = session.admin.without_deadline()
    screen = Screen(view.columns, sort, view.texts)

    def rows() -> tuple[list[Row], str]:
        admin.forget()
        try:
            listing = measure(admin)
        except RocketMQError as error:
            return [], error.message
        return list(listing.items), "; ".join(error.message for error in listing.errors)

    try:
        show(
            screen,
            lambda: f"{session.verb.path}   {';'.join(admin.namesrv_addresses)}",
            rows,
            interval_s=interval_ms / 1000,
            color=session.color,
        )
    finally:
        admin.close()
