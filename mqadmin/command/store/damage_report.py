"""Damage records among rows: separated, and reported with file, physical offset and length.

A command that found any ends with status 7.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
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
    """Collects the damage records of a scan and reports them at the end of the ``with`` block.

    ``outcome.errors`` gets each of them.
    """

    def __init__(self, session: Session, outcome: Outcome | None = None) -> None:
        self._session = session
        self.outcome = outcome or Outcome()
        self.rows: list[DamageRow] = []

    def __enter__(self) -> "DamageReport":
        return self

    def __exit__(self, *_: object) -> None:
        """Report, after an error too: the damage may be its cause."""
        self._report()

    def apart(self, rows: Iterable[Any], limit: int | None = None) -> Iterator[Any]:
        """Return the rows that are not damage records, at most ``limit``; collect the others.

        When there are more rows, the outcome is truncated, as the user asked. The iterators are
        those of the standard library: the scan runs directly below the loop that prints.
        """
        others = filter(self._is_other, rows)
        if limit is None:
            return others
        remaining = iter(range(limit))

        def is_within(_: Any) -> bool:
            if next(remaining, None) is not None:
                return True
            self.outcome.truncated = self.outcome.asked = True
            self.outcome.reason = f"--limit {limit} is reached, more rows match"
            return False

        return takewhile(is_within, others)

    def _is_other(self, row: Any) -> bool:
        if isinstance(row, DamageRow):
            self.add(row)
            return False
        return True

    def add(self, row: DamageRow) -> None:
        """Add one damage record."""
        self.rows.append(row)

        self.outcome.errors.append(plain(row))

    def _report(self) -> None:
        """Report the damage on stderr, errors first, and set the status.

        Repeated damage of one kind in a file is combined, except in JSON and NDJSON.
        """
        session = self._session
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
