"""The time window of a query, declared once for every command that has one."""

from datetime import datetime, timedelta, timezone
from typing import Annotated

from broker.common.times import format_time
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import time_ms, time_range

Begin = Annotated[
    int | None,
    Option(
        "--since",
        "--begin",
        metavar="T",
        help="Only messages stored at T or later.",
        parse=time_ms,
    ),
]
End = Annotated[
    int | None,
    Option("--until", "--end", metavar="T", help="Only messages stored before T.", parse=time_ms),
]
Time = Annotated[
    str | None,
    Option(
        "--time",
        metavar="START..END",
        help="Same as --since START --until END; either may be empty.",
        parse=time_range,
    ),
]


def window(
    session: Session, begin: int | None, end: int | None, time: str | None
) -> tuple[int | None, int | None]:
    """Return begin and end in epoch ms, None for an open end, and note them on stderr.

    UsageFault when both forms are given or the window ends before it begins.
    """
    if time is not None:
        if begin is not None or end is not None:
            raise UsageFault("--time and --since/--until exclude each other")
        start_text, _, end_text = time.partition("..")
        begin = time_ms(start_text) if start_text.strip() else None
        end = time_ms(end_text) if end_text.strip() else None
    if begin is not None and end is not None and end < begin:
        raise UsageFault(
            f"the window ends ({local_time(end)}) before it begins ({local_time(begin)})",
            "swap --since and --until",
        )
    if (begin is not None or end is not None) and not session.is_machine:
        shown_begin = local_time(begin) if begin is not None else "the beginning"
        shown_end = local_time(end) if end is not None else "the end"
        session.note(f"stored from {shown_begin} to {shown_end}")
    return begin, end


def local_time(epoch_ms: int) -> str:
    """Format a time in the local zone, in which times without a zone are read, with its offset."""

    offset = datetime.fromtimestamp(epoch_ms // 1000).astimezone().utcoffset() or timedelta()
    return format_time(epoch_ms, zone=timezone(offset))
