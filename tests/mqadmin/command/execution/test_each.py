"""Actions on single messages: announced, confirmed, one result per item."""

from typing import Any

import pytest

from mqadmin.admin.result import TargetError
from mqadmin.command.execution.each import run_each
from mqadmin.output.view import Outcome, View

VIEW = View("timer.recall", ("address", "status"), keep=("status",))
FAILED = TargetError(kind="unreachable", message="no answer", address="b:1")


class Item:
    def __init__(self, address: str, error: TargetError | None = None) -> None:
        self.address = address
        self.error = error


class RecordingSession:
    """The calls of a session, in order; ``answer`` to the question."""

    def __init__(self, *, answer: bool = True, dry_run: bool = False) -> None:
        self.dry_run = dry_run
        self.envelope: list[str] = []
        self.calls: list[tuple[str, Any]] = []
        self._answer = answer

    def announce(self, addresses: Any) -> None:
        self.calls.append(("announce", list(addresses)))

    def consent(self, question: str) -> bool:
        self.calls.append(("consent", question))
        return self._answer

    def emit(self, view: View, rows: Any, outcome: Outcome) -> None:
        self.calls.append(("emit", [row.address for row in rows]))
        self.envelope = [error["message"] for error in outcome.errors]

    def end_dry_run(self) -> None:
        self.calls.append(("end_dry_run", None))

    def report_targets(self, errors: Any, *, some_worked: bool) -> None:
        self.calls.append(("report", (list(errors), some_worked)))


def run(session: RecordingSession, items: list[Item], failing: frozenset[str]) -> list[str]:
    """Run the action; returns the addresses it was called for."""
    acted: list[str] = []

    def act(item: Item) -> Item:
        acted.append(item.address)
        return Item(item.address, FAILED if item.address in failing else None)

    run_each(session, VIEW, items, act, "recall 2 messages?")  # type: ignore[arg-type]
    return acted


@pytest.mark.parametrize(
    ("failing", "report"),
    [
        (frozenset(), ([], True)),
        (frozenset({"a:1"}), ([FAILED], True)),
        (frozenset({"a:1", "b:1"}), ([FAILED, FAILED], False)),
    ],
)
def test_each_item_is_tried_and_each_failure_reported(
    failing: frozenset[str], report: tuple[list[TargetError], bool]
) -> None:
    session = RecordingSession()
    assert run(session, [Item("a:1"), Item("b:1")], failing) == ["a:1", "b:1"]
    assert session.calls == [
        ("announce", ["a:1", "b:1"]),
        ("consent", "recall 2 messages?"),
        ("emit", ["a:1", "b:1"]),
        ("report", report),
    ]
    assert session.envelope == [FAILED.message] * len(failing)


def test_an_item_that_failed_in_the_plan_is_reported_and_not_tried() -> None:
    session = RecordingSession()
    assert run(session, [Item("a:1", FAILED), Item("c:1")], frozenset()) == ["c:1"]
    assert session.calls[-2:] == [("emit", ["a:1", "c:1"]), ("report", ([FAILED], True))]


def test_without_an_item_to_try_nothing_is_asked() -> None:
    session = RecordingSession()
    assert run(session, [Item("a:1", FAILED)], frozenset()) == []
    assert session.calls == [
        ("announce", ["a:1"]),
        ("emit", ["a:1"]),
        ("report", ([FAILED], False)),
    ]


def test_without_consent_nothing_is_done() -> None:
    session = RecordingSession(answer=False)
    assert run(session, [Item("a:1")], frozenset()) == []
    assert [name for name, _ in session.calls] == ["announce", "consent"]


def test_a_dry_run_shows_the_plan_and_does_nothing() -> None:
    session = RecordingSession(dry_run=True)
    assert run(session, [Item("a:1")], frozenset()) == []
    assert [name for name, _ in session.calls] == ["announce", "emit", "end_dry_run", "report"]


def test_a_dry_run_reports_failures_of_the_plan() -> None:
    session = RecordingSession(dry_run=True)
    assert run(session, [Item("a:1", FAILED)], frozenset()) == []
    assert session.calls[-1] == ("report", ([FAILED], False))
    assert session.envelope == [FAILED.message]
