"""A progress line on stderr, only on a terminal."""

import time
from types import TracebackType
from typing import Any

from mqadmin.output.stdio import erase_status, stderr_is_terminal, write_status

WIDTH = 24  # cells of the bar
PAUSE_S = 0.2  # minimum time between two updates
PATIENCE_S = 1.0  # shorter runs show no bar


class Progress:
    """Draws :meth:`show` as a bar with the time left; cleared on exit.

    Without a terminal, or without ``enabled``, nothing is shown.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self._on = enabled and stderr_is_terminal()
        self._began = self._last = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:
        erase_status()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def show(self, subject: str, done: int, total: int) -> None:
        """Draw the progress in bytes; ``total`` 0 means that the total is unknown."""
        if self._due():
            write_status(progress_line(subject, done, total, self.seconds))

    def show_part(self, subject: str, done: float, total: float) -> None:
        """Draw the progress in any unit; ``total`` 0 means that the total is unknown."""
        if self._due():
            write_status(part_line(subject, done, total, self.seconds))

    def _due(self) -> bool:
        now = time.monotonic()
        if not self._on or now - self._last < PAUSE_S or now - self._began < PATIENCE_S:
            return False
        self._last = now
        return True


def part_line(subject: str, done: float, total: float, seconds: float) -> str:
    """Format one line: a bar, the percentage, the time left."""
    if total <= 0:
        return subject
    part = min(done / total, 1.0)
    cells = round(part * WIDTH)
    left = seconds * (1 - part) / part if part else 0.0
    return f"{subject} [{'#' * cells}{'.' * (WIDTH - cells)}] {part:4.0%}  {left:.0f} s left"


def progress_line(subject: str, done: int, total: int, seconds: float) -> str:
    """Format one line: a bar, the percentage, megabytes per second, the time left."""
    pace = done / seconds if seconds > 0 else 0.0
    if total <= 0:
        return f"{subject}: {done / 1e6:.0f} MB, {pace / 1e6:.0f} MB/s"
    part = min(done / total, 1.0)
    cells = round(part * WIDTH)
    left = (total - done) / pace if pace > 0 else 0.0
    bar = "#" * cells + "." * (WIDTH - cells)
    return f"{subject} [{bar}] {part:4.0%}  {pace / 1e6:.0f} MB/s  {max(left, 0):.0f} s left"
