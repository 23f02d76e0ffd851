"""The run of live commands: once for scripts, or a screen until the user quits.

The module imports rich and the online library: verbs load it when they run (``live_run``).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from broker.errors import RocketMQError
from mqadmin.admin.load.brokers import broker_loads
from mqadmin.admin.load.topics import topic_loads
from mqadmin.admin.result import Listing
from mqadmin.admin.session import AdminSession
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.output.screens.live import Screen, has_terminal, show
from mqadmin.output.view import View

MIN_INTERVAL_MS = 500

Row = TypeVar("Row")


def cluster_top(
    session: Session, view: View, cluster: str | None, *, once: bool, interval_ms: int
) -> None:
    """Show the load of brokers."""
    _run_top(
        session,
        view,
        lambda admin: broker_loads(admin, cluster=cluster),
        sort="inTps",
        once=once,
        interval_ms=interval_ms,
        nothing="no broker is registered at the name server",
    )


def topic_stats(
    session: Session, view: View, topics: Sequence[str], *, system: bool, lag: bool
) -> None:
    """Print the load of topics in the order of their names."""
    listing = topic_loads(session.admin, topics, include_system=system, lag=lag)
    session.emit_listing(view, listing, nothing="there is no topic")


def topic_top(
    session: Session,
    view: View,
    topics: Sequence[str],
    *,
    system: bool,
    lag: bool,
    once: bool,
    interval_ms: int,
) -> None:
    """Show the load of topics, busiest first."""
    _run_top(
        session,
        view,
        lambda admin: topic_loads(admin, topics, include_system=system, lag=lag),
        sort="inTps",
        once=once,
        interval_ms=interval_ms,
        nothing="there is no topic",
    )


def _run_top(
    session: Session,
    view: View,
    measure: Callable[[AdminSession], Listing[Row]],
    *,
    sort: str,
    once: bool,
    interval_ms: int,
    nothing: str,
) -> None:
    """Print one measurement, or show a screen; UsageFault without a terminal or --once.

    ``sort`` is the field of the default order, largest first.
    """
    screen = Screen(view.columns, sort, view.texts)
    arrangement = session.arrangement
    if once or not session.is_table:
        listing = measure(session.admin)
        screen.take(listing.items)
        # --sort, if given, sorts these rows again
        session.emit_listing(view, listing, items=screen.sorted_rows(), nothing=nothing)
        return
    if not has_terminal():
        raise UsageFault(
            f"{session.verb.path} shows a screen and needs a terminal",
            "--once prints one table",
        )
    if interval_ms < MIN_INTERVAL_MS:
        raise UsageFault(f"--interval must be at least {MIN_INTERVAL_MS}ms")
    if arrangement is not None:
        screen.arrange(arrangement)
    admin = session.admin.without_deadline()

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
