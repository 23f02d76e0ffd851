"""The noun ``check``: thresholds, statuses and output of monitoring plug-ins."""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated

from broker.errors import RocketMQError
from mqadmin.admin.checks.report import CheckRow, Status, prometheus, status_line, worst
from mqadmin.command.execution.failure import UsageFault, report_of
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.command.framework.values import duration_ms
from mqadmin.output.errors import emit_error
from mqadmin.output.stdio import write_out
from mqadmin.output.view import PROMETHEUS

NOUN = Noun(
    "check",
    """Check a cluster against thresholds, for monitoring systems.

    A check prints one line (CHECK STATUS - text | performance data) and exits with 0 ok, 1 warning,
    2 critical or 3 unknown, as Nagios and its successors expect. -o prometheus prints samples for
    the textfile collector, -o json the rows; --outfile FILE.prom replaces a file of samples at
    once. A value that cannot be measured is unknown, never ok. An invalid command line is 3, too.
    """,
)

Outfile = Annotated[
    str | None,
    Option(
        "--outfile",
        "--out",
        metavar="FILE",
        help="Replace this file atomically by samples for Prometheus.",
        complete="file",
    ),
]
Broker = Annotated[
    str | None,
    Argument("BROKER", help="Broker name or address; default: all brokers.", complete="broker"),
]
Cluster = Annotated[
    str | None, Option("--cluster", "-c", metavar="NAME", help="Only brokers of this cluster.")
]

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(B|KiB|MiB|GiB|TiB|K|M|G|T)?", re.IGNORECASE)
_FACTORS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def gap_limits(text: str) -> tuple[int | None, float | None]:
    """Parse ``64MiB``, ``30s`` or both with a comma; return (bytes, seconds)."""
    size: int | None = None
    seconds: float | None = None
    for part in (word.strip() for word in text.split(",")):
        found = _SIZE.fullmatch(part)
        try:
            if found is not None and not re.fullmatch(r"[0-9.]+m", part):
                factor = _FACTORS[(found[2] or "").lower().removesuffix("ib") or ""]
                size = int(float(found[1]) * factor)
            else:
                seconds = duration_ms(part) / 1000
        except (ValueError, KeyError):
            raise ValueError(f"{part!r} is not a size or a duration (example: 64MiB,30s)") from None
    return size, seconds


def gap_text(text: str) -> str:
    """Check a gap and return it; ValueError names the part that is invalid."""
    gap_limits(text)
    return text


def run_check(
    session: Session,
    check: str,
    measure: Callable[[], Sequence[CheckRow]],
    *,
    outfile: str | None = None,
) -> None:
    """Measure, print and set the status; a failed measurement is UNKNOWN."""
    try:
        rows = measure()
        if not rows:
            session.admin.topology.readers()  # ClientError without a broker: not measured
    except RocketMQError as error:
        rows = [CheckRow(name=check, status=Status.UNKNOWN.name, message=error.message)]
        if session.form in ("json", "ndjson"):
            emit_error(report_of(error), form=session.form)
        elif error.hint:
            session.note(f"hint: {error.hint}")
    session.status = int(worst(Status[row.status] for row in rows))
    if outfile is not None:
        replace_file(outfile, prometheus(check, rows))
    if session.form == PROMETHEUS:
        write_out(prometheus(check, rows), flush=True)
    elif session.is_table:
        write_out(status_line(check, rows) + "\n", flush=True)
    else:
        session.emit(session.verb.views[0], rows, quiet=True)


def replace_file(path: str, text: str) -> None:
    """Write a file under a temporary name and rename it; UsageFault if that fails.

    Pipes and devices (/dev/stdout) are written directly: a rename would replace them.

    A reader sees the old or the new samples, never a part. The temporary name does not end in
    ``.prom``: the collector ignores it. The mode follows the umask, as the collector runs as
    another user.
    """
    folder, name = os.path.split(path)
    special = os.path.exists(path) and not os.path.isfile(path)
    temporary = path if special else os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        if not special:
            os.replace(temporary, path)
    except OSError as error:
        if not special:
            with suppress(OSError):
                os.unlink(temporary)
        raise UsageFault(f"--outfile {path}: {error.strerror}", "name a writable folder") from error
