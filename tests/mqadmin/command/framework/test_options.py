"""Global options: names, environment variables, precedence of the two places."""

import pytest

from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.options import CHANGE_ONLY, GLOBALS, merged
from mqadmin.settings import resolve


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"output": "json"}, {"output": None}, {"output": "json"}),
        ({"output": "json"}, {"output": "csv"}, {"output": "csv"}),
        ({"yes": True}, {"yes": False}, {"yes": True}),
        ({}, {"yes": True, "tls": False}, {"yes": True}),
        ({"timeout": "3s"}, {"timeout": ""}, {"timeout": ""}),  # given, although empty
    ],
)
def test_an_option_after_the_verb_wins_if_it_is_given(
    before: dict[str, object], after: dict[str, object], expected: dict[str, object]
) -> None:
    assert merged(before, after) == expected


def test_merging_changes_neither_side() -> None:
    before, after = {"output": "json"}, {"output": "csv"}
    merged(before, after)
    assert (before, after) == ({"output": "json"}, {"output": "csv"})


def test_names_and_variables_of_global_options_are_unique() -> None:
    markers = [one.marker for one in GLOBALS]
    assert all(isinstance(marker, Option) for marker in markers)
    names = [name for marker in markers if isinstance(marker, Option) for name in marker.names]
    variables = [m.env for m in markers if isinstance(m, Option) and m.env]
    assert len(names) == len(set(names))
    assert len(variables) == len(set(variables))
    assert set(variables) >= {"NAMESRV_ADDR", "MQADMIN_OUTPUT", "NO_COLOR"}


def test_options_of_changes_are_global_options() -> None:
    assert {one.name for one in GLOBALS} > CHANGE_ONLY


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        (one.name, one.marker.env)
        for one in GLOBALS
        if isinstance(one.marker, Option) and one.marker.env and not one.is_flag
        and one.name not in ("output", "context")
    ],
)  # fmt: skip
def test_an_option_replaces_its_variable(name: str, variable: str) -> None:
    """The variable in the help is the one that the settings read."""
    environ = {"HOME": "/nonexistent", variable: "/from/environment"}
    key = name.replace("_", "-")
    settings = resolve({}, environ)
    assert settings.effective[key].value == "/from/environment"
    assert variable in settings.effective[key].origin
    assert resolve({name: "/option"}, environ).effective[key].value == "/option"
