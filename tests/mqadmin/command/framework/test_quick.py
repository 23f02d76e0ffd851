"""The quick parser by itself; that it agrees with the face is shown in test_declare."""

from pathlib import Path
from typing import Any

import pytest

from mqadmin.command.framework.options import GLOBALS, merged
from mqadmin.command.framework.quick import consent_words, parse


def parsed(line: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    found = parse(line.split())
    assert found is not None
    verb, options, values = found
    given = {name: value for name, value in options.items() if value not in (None, False)}
    return verb.path, given, values


def test_global_options_are_accepted_before_the_noun_and_after_the_verb() -> None:
    for line in (
        "-n h:1 --output json topic show t",
        "topic show t -n h:1 --output=json",
        "-nh:1 topic show -ojson t",
        "-n h:1 topic show -o json t",
    ):
        assert parsed(line) == ("topic show", {"namesrv": "h:1", "output": "json"}, {"topic": "t"})


def test_the_later_place_wins() -> None:
    _, given, _ = parsed("-n first:1 topic show t -n second:2 -n third:3")
    assert given == {"namesrv": "third:3"}


def test_short_flags_may_be_combined() -> None:
    _, given, _ = parsed("topic perm t rw -yv")
    assert given == {"yes": True, "verbose": True}
    _, given, _ = parsed("topic perm t rw -vnh:1")
    assert given == {"namesrv": "h:1", "verbose": True}


def test_verbs_of_two_words() -> None:
    path, _, values = parsed("broker config show broker-a --key a --key b")
    assert path == "broker config show"
    assert values["keys"] == ["a", "b"]


def test_negative_forms_and_absent_flags() -> None:
    assert parsed("topic update t --no-order")[2]["order"] is False
    assert parsed("topic update t --order")[2]["order"] is True
    assert parsed("topic update t")[2]["order"] is None


def test_two_dashes_end_the_options() -> None:
    assert parsed("topic show -- -t")[2] == {"topic": "-t"}


def test_a_value_may_begin_with_a_dash() -> None:
    assert parsed("topic create t --attribute -old")[2]["attributes"] == ["-old"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "topic",
        "topic nosuch",
        "nosuch list",
        "topic list --help",
        "topic list --nosuch",
        "topic list a extra",
        "topic show",
        "topic show t --namesrv",
        "topic list --user=yes",
        "topic list -o xml",
        "topic list -o schema",
        "topic create t --queues x",
        "topic create t --queues 0",
        "topic list -n=h:1",
        "-- topic list",
        "topic list -x",
    ],
)
def test_everything_else_is_left_to_the_face(line: str) -> None:
    assert parse(line.split()) is None


def test_every_global_option_has_a_value_even_when_not_given() -> None:
    found = parse(["topic", "list"])
    assert found is not None
    assert list(found[1]) == [p.name for p in GLOBALS]


def test_merging_keeps_values_that_the_later_source_does_not_set() -> None:
    assert merged({"a": 1, "b": True}, {"a": None, "b": False, "c": 2}) == {
        "a": 1,
        "b": True,
        "c": 2,
    }


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "mqadmin").mkdir()
    (tmp_path / "mqadmin" / "config.toml").write_text(
        '[contexts.prod]\nprotected = true\n[contexts.test]\nnamesrv = "h:1"\n'
    )
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("topic create T --yes prod", "topic create T --yes-context prod"),
        ("topic create T -y prod", "topic create T --yes-context prod"),
        ("--yes prod topic create T", "--yes-context prod topic create T"),
        ("topic create T --yes=prod", "topic create T --yes-context prod"),
        ("topic create T --yes=other", "topic create T --yes-context other"),
        ("topic create --yes test", "topic create --yes test"),
        ("topic create --yes T", "topic create --yes T"),
        ("topic create T --yes", "topic create T --yes"),
        ("topic create -- --yes prod", "topic create -- --yes prod"),
        ("topic list", "topic list"),
    ],
)
def test_yes_takes_the_name_of_a_guarded_context_only(
    environ: dict[str, str], line: str, expected: str
) -> None:
    assert consent_words(line.split(), environ) == expected.split()
