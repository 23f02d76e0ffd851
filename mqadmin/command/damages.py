"""Damages among rows: set apart, reported with file, physical offset and length, status 7."""

from collections.abc import Iterator
from typing import Any

from mqadmin.command.failure import DAMAGED
from mqadmin.command.session import Session
from mqadmin.output.view import Outcome

REPORT_LIMIT = 100  # lines on stderr; JSON has them all


class Damages:
    """Collects the damages of a walk; ``outcome.errors`` gets each as its own record."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.rows: list[Any] = []

    def apart(self, rows: Iterator[Any]) -> Iterator[Any]:
        """Give the rows that are no damages."""
        for row in rows:
            if hasattr(row, "suggestion"):
                self.add(row)
            else:
                yield row

    def add(self, row: Any) -> None:
        """Note one damage."""
        self.rows.append(row)
        from mqadmin.output.values import plain

        self.outcome.errors.append(plain(row))

    def report(self, session: Session) -> None:
        """Say on stderr what is damaged and set the status."""
        from mqadmin.output.errors import ErrorReport, emit_error

        for row in self.rows[:REPORT_LIMIT]:
            place = (
                "" if row.physical_offset is None else f" at physical offset {row.physical_offset}"
            )
            length = "" if row.length is None else f", {row.length} bytes"
            emit_error(
                ErrorReport(
                    row.kind,
                    f"{row.kind} ({row.path}{place}{length}): {row.detail}",
                    row.suggestion,
                    path=row.path,
                    physical_offset=row.physical_offset,
                ),
                form=session.form,
            )
        if len(self.rows) > REPORT_LIMIT:
            session.note(f"{len(self.rows) - REPORT_LIMIT} more damages")
        if self.rows:
            session.status = DAMAGED
