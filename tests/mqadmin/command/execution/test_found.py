"""Printing a query result: an empty one names its reason, a partial one has status 5."""

from typing import Any

import pytest

from mqadmin.admin.message import result as kinds
from mqadmin.admin.message.result import QueryResult
from mqadmin.admin.result import TargetError
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.found import KINDS, body_view, emit_found, emit_one_found
from mqadmin.output.view import View

VIEW = View("msg.query", ("topic",))


class Session:
    """Records rows, notes and status."""

    form = "table"

    def __init__(self) -> None:
        self.status = 0
        self.notes: list[str] = []
        self.rows: list[Any] = []
        self.outcome: Any = None

    def emit(self, view: View, rows: Any, outcome: Any, *, quiet: bool, hint: str) -> None:
        self.rows, self.outcome, self.hint = list(rows), outcome, hint

    def emit_one(self, view: View, row: Any) -> None:
        self.rows = [row]

    def note(self, text: str) -> None:
        self.notes.append(text)


class Row:
    topic, uniq_key = "orders", "KEY"


def result(kind: str, count: int = 0, **fields: Any) -> QueryResult:
    items: Any = [Row()] * count
    return QueryResult(kind=kind, items=items, **fields)


def shown(found: QueryResult, limit: int | None = None) -> Session:
    session = Session()
    emit_found(session, VIEW, found, limit)  # type: ignore[arg-type]
    return session


def test_every_kind_but_found_has_an_exit_status() -> None:
    constants = {name: value for name, value in vars(kinds).items() if name.isupper()}
    named = {value for value in constants.values() if isinstance(value, str)}
    assert set(KINDS) == named - {"found"}
    assert all(0 < status < 8 for status in KINDS.values())


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_result_prints_its_reason_and_has_its_status(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = shown(result(kind, detail="the reason", hint="the next step"))
    assert session.status == KINDS[kind]
    assert capsys.readouterr().err == "error: the reason\nhint: the next step\n"


def test_a_reason_that_a_target_has_already_given_is_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = TargetError(kind="refused", message="broker-a refused")
    shown(result("refused", detail="incomplete search: broker-a refused", errors=[error, error]))
    assert capsys.readouterr().err.count("broker-a refused") == 1


def test_found_messages_with_a_failed_target_are_partial() -> None:
    error = TargetError(kind="timeout", message="no response")
    assert shown(result("found", 2)).status == 0
    assert shown(result("found", 2, errors=[error])).status == 5


@pytest.mark.parametrize(
    ("limit", "status", "asked"), [(None, 5, False), (2, 0, True), (3, 5, False)]
)
def test_a_truncated_result_is_complete_only_at_the_requested_limit(
    limit: int | None, status: int, asked: bool
) -> None:
    session = shown(result("found", 2, truncated=True), limit)
    assert (session.status, session.outcome.asked) == (status, asked)
    assert session.outcome.reason == "more messages match"


def test_an_empty_truncated_search_is_partial() -> None:
    assert shown(result("notFound", truncated=True, detail="scanned 100")).status == 5


def test_of_several_messages_with_one_id_the_others_are_counted() -> None:
    session = Session()
    emit_one_found(session, VIEW, result("found", 3))  # type: ignore[arg-type]
    assert len(session.rows) == 1
    assert session.notes == [
        "2 more with this id: mqadmin msg query --topic orders --uniq-key KEY shows all"
    ]
    assert session.status == 0


def test_raw_without_a_body_is_refused() -> None:
    with pytest.raises(UsageFault, match="--raw"):
        body_view("none", raw=True)
    assert body_view("hex", raw=True).raw
