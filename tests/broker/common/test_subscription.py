import pytest

from broker.common.subscription import (
    SubscriptionData,
    build_subscription,
    is_tag_type,
    split_tag_expression,
    subscription_from_wire,
    subscription_to_wire,
)
from broker.errors import RemoteProtocolError


def test_tags_become_names_and_codes() -> None:
    data = build_subscription("T", "TagA || TagB|| TagA", sub_version=7)
    assert data.tags_set == {"TagA", "TagB"}
    assert data.code_set == {2598919, 2598920}
    assert (data.sub_string, data.sub_version) == ("TagA || TagB|| TagA", 7)


@pytest.mark.parametrize("expression", ["*", "", None])
def test_everything(expression: str | None) -> None:
    assert build_subscription("T", expression) == SubscriptionData("T")


def test_only_separators_are_an_error_but_blanks_are_not() -> None:
    for expression in ("||", "||||"):
        with pytest.raises(RemoteProtocolError, match="split"):
            build_subscription("T", expression)
    assert split_tag_expression(" || ") == []
    assert split_tag_expression("||a||") == ["a"]
    assert split_tag_expression("|||") == ["|"]


def test_sql_is_kept_as_text() -> None:
    data = build_subscription("T", "a > 5", "SQL92")
    assert (data.sub_string, data.expression_type) == ("a > 5", "SQL92")
    assert data.tags_set == data.code_set == frozenset()
    with pytest.raises(RemoteProtocolError, match="empty"):
        build_subscription("T", "", "SQL92")


def test_tag_type() -> None:
    assert is_tag_type(None)
    assert is_tag_type("")
    assert is_tag_type("TAG")
    assert not is_tag_type("SQL92")


def test_wire_form_round_trips() -> None:
    data = build_subscription("T", "b || a", sub_version=1700000000000)
    wire = subscription_to_wire(data)
    assert list(wire) == sorted(wire)
    assert wire["tagsSet"] == ["a", "b"]
    assert subscription_from_wire(wire) == data
    assert subscription_from_wire({"topic": "T", "tagsSet": None, "unknown": 1}) == (
        SubscriptionData("T")
    )
    with pytest.raises(RemoteProtocolError, match="codeSet"):
        subscription_from_wire({"codeSet": ["x"]})
