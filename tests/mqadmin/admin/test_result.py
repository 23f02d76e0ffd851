"""When a plan is empty and when its outcome is a success."""

import pytest

from mqadmin.admin.result import Change, ChangeResult, Outcome, Plan, Request, TargetError

REQUEST = Request(address="127.0.0.1:10911", code=17)


def change(request: Request | None) -> Change:
    return Change(target="broker-a", address="127.0.0.1:10911", action="create", request=request)


def test_a_plan_without_requests_is_empty() -> None:
    assert change(None).unchanged
    assert not change(REQUEST).unchanged
    assert Plan(kind="topic.create", subject="T").empty
    assert Plan(kind="topic.create", subject="T", changes=[change(None), change(None)]).empty
    assert not Plan(kind="topic.create", subject="T", changes=[change(None), change(REQUEST)]).empty


@pytest.mark.parametrize(
    ("statuses", "ok"),
    [
        ([], True),
        (["done", "unchanged"], True),
        (["done", "failed"], False),
        (["skipped"], False),
        (["moved"], False),
        (["differs"], False),
    ],
)
def test_an_outcome_is_ok_only_if_every_target_has_the_planned_state(
    statuses: list[str], ok: bool
) -> None:
    items = [
        ChangeResult(target="broker-a", address="-", action="create", status=status)
        for status in statuses
    ]
    assert Outcome(kind="topic.create", subject="T", items=items).ok is ok


def test_a_target_that_could_not_be_read_is_not_ok() -> None:
    error = TargetError(kind="timeout", message="no response")
    assert not Outcome(kind="topic.create", subject="T", errors=[error]).ok
