"""Damage among rows: separated, folded per file, errors first, status 7."""

from typing import Any

import pytest

from mqadmin.command.store.damage_report import REPORT_LIMIT, DamageReport, by_severity, folded
from mqadmin.inspector.rows import DamageRow
from mqadmin.output.view import Outcome


def damage(severity: str = "error", kind: str = "magic", path: str = "a", at: int = 0) -> DamageRow:
    return DamageRow(
        kind=kind, severity=severity, path=path, physical_offset=at, length=4,
        detail="no record", suggestion="repair it",
    )  # fmt: skip


class Session:
    form = "table"

    def __init__(self, is_machine: bool = False) -> None:
        self.is_machine = is_machine
        self.status = 0
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def report(rows: list[DamageRow], session: Any) -> DamageReport:
    with DamageReport(session) as made:
        for row in rows:
            made.add(row)
    return made


def test_errors_come_first_and_the_order_within_a_severity_stays() -> None:
    rows = [damage("notice", at=1), damage("error", at=2), damage("warning", at=3),
            damage("error", at=4)]  # fmt: skip
    assert [row.physical_offset for row in by_severity(rows)] == [2, 4, 3, 1]


def test_only_damage_of_one_kind_severity_and_file_is_folded() -> None:
    rows = [damage(at=1), damage(at=2), damage(path="b"), damage(kind="crc"), damage("notice")]
    found = folded(rows)
    assert [row["count"] for row in found] == [2, 1, 1, 1]
    assert found[0]["physicalOffset"] == 1


def test_rows_pass_and_damage_is_kept_apart() -> None:
    outcome = Outcome()
    made = DamageReport(Session(), outcome)  # type: ignore[arg-type]
    assert list(made.apart(iter(["x", damage(), "y"]))) == ["x", "y"]
    assert len(made.rows) == len(outcome.errors) == 1
    assert not outcome.truncated


def test_a_limit_counts_rows_only_and_is_noticed_at_the_next_row() -> None:
    outcome = Outcome()
    made = DamageReport(Session(), outcome)  # type: ignore[arg-type]
    assert list(made.apart(iter(["x", "y", damage()]), 2)) == ["x", "y"]
    assert not outcome.truncated
    assert list(made.apart(iter(["x", "y", damage(), "z", damage()]), 2)) == ["x", "y"]
    assert (outcome.truncated, outcome.asked) == (True, True)
    assert "--limit 2" in outcome.reason


def test_rows_are_read_one_by_one() -> None:
    """A tail or a large store must not be read before its first row is printed."""
    made = DamageReport(Session())  # type: ignore[arg-type]
    read: list[int] = []
    rows = made.apart((read.append(number) or number for number in range(9)), 3)  # type: ignore[func-returns-value]
    assert (next(rows), read) == (0, [0])
    assert list(rows) == [1, 2]
    assert read == [0, 1, 2, 3]  # the fourth shows that the result is truncated


def test_damage_found_before_a_failure_is_reported_with_it() -> None:
    session = Session()
    with pytest.raises(ValueError, match="later"), DamageReport(session) as made:  # type: ignore[arg-type]
        made.add(damage())
        raise ValueError("later")
    assert session.status == 7


def test_without_damage_the_status_stays() -> None:
    session = Session()
    report([], session)
    assert session.status == 0


def test_people_see_folded_damage_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session()
    report([damage(at=5), damage(at=9)], session)
    text = capsys.readouterr().err
    assert session.status == 7
    assert "magic (a at physical offset 5, 4 bytes): no record" in text
    assert "(the first of 2 in this file)" in text
    assert "hint: repair it" in text


def test_programs_get_every_damage_record() -> None:
    session = Session(is_machine=True)
    made = report([damage(at=number) for number in range(REPORT_LIMIT + 20)], session)
    assert len(made.outcome.errors) == REPORT_LIMIT + 20
    assert session.notes == []


def test_lines_on_stderr_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session()
    report([damage(path=str(number)) for number in range(REPORT_LIMIT + 20)], session)
    assert capsys.readouterr().err.count("error: ") == REPORT_LIMIT
    assert session.notes == ["20 more damage records"]
