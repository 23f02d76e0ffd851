"""Damage records among rows: separated, and reported with file, physical offset and length.

A command that found any ends with status 7.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import DAMAGED
from mqadmin.inspector.rows import DamageRow
from mqadmin.output.errors import ErrorReport, emit_error
from mqadmin.output.values import plain
from mqadmin.output.view import Outcome

REPORT_LIMIT = 100  # lines on stderr; JSON contains all


_ORDER = {"error": 0, "warning": 1, "notice": 2}


def by_severity(rows: Iterable[Any]) -> list[Any]:
    """Sort damage records and findings, errors first; input order within one severity."""
    return sorted(rows, key=lambda row: _ORDER[row.severity])


def folded(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Sort by severity; combine rows of the same severity, kind and file, with a count."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in by_severity(rows):
        first = found.setdefault((row.severity, row.kind, row.path), {**plain(row), "count": 0})
        first["count"] += 1
    return list(found.values())


class DamageReport:
    """Collects the damage records of a scan; ``outcome.errors`` gets each of them."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.rows: list[DamageRow] = []

    def apart(self, rows: Iterator[Any], limit: int | None = None) -> Iterator[Any]:
        """Yield the rows that are not damage records, at most ``limit``; collect the others.

        When there are more rows, the outcome is truncated, as the user asked.
        """
        count = 0
        for row in rows:
            if isinstance(row, DamageRow):
                self.add(row)
            elif count == limit:
                self.outcome.truncated = self.outcome.asked = True
                self.outcome.reason = f"--limit {limit} is reached, more rows match"
                return
            else:
                count += 1
                yield row

    def add(self, row: DamageRow) -> None:
        """Add one damage record."""
        self.rows.append(row)

        self.outcome.errors.append(plain(row))

    def report(self, session: Session) -> None:
        """Report the damage on stderr, errors first, and set the status.

        Repeated damage of one kind in a file is combined, except in JSON and NDJSON.
        """
        if session.is_machine:
            shown = [{**plain(row), "count": 1} for row in by_severity(self.rows)]
        else:
            shown = folded(self.rows)
        for row in shown[:REPORT_LIMIT]:
            emit_error(_report_of(row), form=session.form)
        if len(shown) > REPORT_LIMIT and not session.is_machine:
            session.note(f"{len(shown) - REPORT_LIMIT} more damage records")
        if self.rows:
            session.status = DAMAGED


def _report_of(row: dict[str, Any]) -> Any:
    place = row["physicalOffset"]
    where = row["path"] if place is None else f"{row['path']} at physical offset {place}"
    if row["length"] is not None:
        where += f", {row['length']} bytes"
    message = f"{row['kind']} ({where}): {row['detail']}"
    if row["count"] > 1:
        message += f" (the first of {row['count']} in this file)"
    return ErrorReport(
        row["kind"], message, row["suggestion"], path=row["path"], physical_offset=place
    )
