"""The kind of a result names the reason why nothing was found."""

import pytest

from mqadmin.admin.message.result import failed_result, no_such_topic
from mqadmin.admin.result import TargetError


def error(kind: str, hint: str = "") -> TargetError:
    return TargetError(kind=kind, message=f"a {kind} error", hint=hint)


@pytest.mark.parametrize(
    ("kinds", "expected", "named"),
    [
        (["refused"], "refused", "refused"),
        (["protocol"], "refused", "protocol"),
        (["timeout"], "unreachable", "timeout"),
        (["notPermitted", "refused"], "notPermitted", "notPermitted"),
        # a broker that may have the message comes before one that refused
        (["refused", "notPermitted", "timeout"], "unreachable", "timeout"),
        (["timeout", "unreachable"], "unreachable", "unreachable"),
    ],
)
def test_of_several_failures_the_least_conclusive_determines_the_kind(
    kinds: list[str], expected: str, named: str
) -> None:
    errors = [error(kind) for kind in kinds]
    result = failed_result(errors)
    assert result.kind == expected
    assert result.detail == f"incomplete search: a {named} error"
    assert list(result.errors) == errors


def test_of_equal_failures_the_first_is_described() -> None:
    first, second = error("refused", "first hint"), error("refused", "second hint")
    assert failed_result([first, second]).hint == "first hint"


def test_a_failure_without_a_hint_leads_to_the_brokers() -> None:
    assert "mqadmin cluster list" in failed_result([error("refused")]).hint


def test_an_unknown_topic_names_every_queried_name_server() -> None:
    result = no_such_topic("Orders", ["127.0.0.1:9876", "127.0.0.1:9877"])
    assert result.kind == "noSuchTopic"
    assert "topic Orders has no route at 127.0.0.1:9876, 127.0.0.1:9877" in result.detail
