"""``mqadmin store watch``."""

import time
from typing import Annotated, Any

from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import count, duration_ms, interval_ms
from mqadmin.command.store.noun import NOUN, Path
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.growth import growth
from mqadmin.output.stdio import stdout_is_terminal
from mqadmin.output.view import View

WATCH = View("store.watch", single=True)
WATCH_TOPICS = View(
    "store.watch.topics",
    ("topic", "messages", "bytes", "messagesPerHour", "bytesPerHour", "share"),
)


@NOUN.verb(
    "watch",
    view=(WATCH, WATCH_TOPICS),
    examples=[
        "mqadmin store watch /data/store",
        "mqadmin store watch /data/store --window 6h --rounds 1 -o json",
    ],
)
def watch(
    session: Session,
    path: Path,
    window: Annotated[
        int,
        Option(
            "--window",
            metavar="DUR",
            help="Duration over which growth is measured.",
            parse=duration_ms,
            shown="1h",
        ),
    ] = 3_600_000,
    interval: Annotated[
        int,
        Option(
            "--interval",
            metavar="DUR",
            help="Interval between measurements.",
            parse=interval_ms,
            shown="10s",
        ),
    ] = 10_000,
    rounds: Annotated[
        int | None,
        Option(
            "--rounds",
            metavar="N",
            help="Number of measurements; default: endless on a terminal, else 1.",
            parse=count,
        ),
    ] = None,
) -> None:
    """Watch a store grow: messages and bytes per topic, hours until the disk is full.

    Brokers delete expired files at any hour above 75 percent disk usage, unexpired ones above 85,
    and refuse messages above 90 (diskMaxUsedSpaceRatio and related settings).
    """

    if rounds is None:
        rounds = 0 if stdout_is_terminal() else 1
    done = 0
    while True:
        now = int(time.time() * 1000)
        _show_growth(session, growth(StoreDirectory(path), now - window, now))
        done += 1
        if rounds and done >= rounds:
            return
        time.sleep(interval / 1000)


def _show_growth(session: Session, found: Any) -> None:
    if not session.is_table:
        session.emit_one(WATCH, found)
        return
    hours = {"75": found.hours_to_75, "85": found.hours_to_85, "90": found.hours_to_90}
    left = ", ".join(
        f"{limit} % {'is reached' if value == 0 else 'never' if value is None else f'in {value} h'}"
        for limit, value in hours.items()
    )
    session.emit(WATCH_TOPICS, found.topics, quiet=True)
    session.note(
        f"{found.messages} messages, {found.bytes} bytes in the window"
        f" ({found.bytes_per_hour:.0f} bytes an hour); disk {found.disk_used_ratio:.1%} used:"
        f" {left}"
    )
