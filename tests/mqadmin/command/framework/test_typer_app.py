"""The typer layer: help, schema without arguments, usage errors in the requested form."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.command.framework.nouns import NOUNS
from mqadmin.command.framework.typer_app import emit_script, form_in, noun_group, verb_help

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("topic list", "table"),
        ("topic list -o json --wrong", "json"),
        ("topic list -ojson", "json"),
        ("topic list --output yaml", "yaml"),
        ("topic list --output=csv", "csv"),
        ("-o json topic list -o yaml", "yaml"),  # the last one counts
        ("topic list -o", "table"),
        ("", "table"),
    ],
)
def test_the_form_of_a_usage_error_is_the_requested_one(line: str, form: str) -> None:
    assert form_in(line.split()) == form


def test_the_environment_gives_the_form_unless_an_option_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MQADMIN_OUTPUT", "json")
    assert form_in(["topic", "list"]) == "json"
    assert form_in(["topic", "list", "-o", "csv"]) == "csv"


def test_a_usage_error_is_one_json_object_if_json_was_requested(mqadmin: Run) -> None:
    done = mqadmin("topic", "list", "--wrong", "-o", "json", face=True)
    assert (done.status, done.out) == (2, "")
    error = json.loads(done.err)["error"]
    assert error["kind"] == "usage"
    assert "--wrong" in error["message"]


def test_a_usage_error_leads_to_the_help_of_its_command(mqadmin: Run) -> None:
    done = mqadmin("topic", "create", face=True)
    assert done.status == 2
    assert done.err.startswith("error: ")
    assert "hint: mqadmin topic create --help" in done.err


@pytest.mark.parametrize("words", [("-o", "schema"), ("--output", "schema"), ("-oschema",),
                                   ("--output=schema",)])  # fmt: skip
def test_the_schema_needs_no_arguments(mqadmin: Run, words: tuple[str, ...]) -> None:
    done = mqadmin("topic", "create", *words, face=True)
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["$schema"]


def test_after_two_dashes_a_word_is_an_argument(mqadmin: Run) -> None:
    done = mqadmin("topic", "show", "--", "-oschema", face=True)
    assert "$schema" not in done.out


def test_a_noun_without_a_verb_shows_its_help_and_is_a_usage_error(mqadmin: Run) -> None:
    done = mqadmin("topic", face=True)
    assert (done.status, done.out) == (2, "")
    assert "Usage: mqadmin topic" in done.err


def test_the_help_of_a_group_of_verbs_names_it(mqadmin: Run) -> None:
    help_text = mqadmin("topic", "static", "--help").out
    assert "Show, create, update or remap: mqadmin topic static VERB." in help_text


def test_an_unknown_noun_gets_a_suggestion(mqadmin: Run) -> None:
    done = mqadmin("topci", "list", face=True)
    assert done.status == 2
    assert "topci" in done.err
    assert "topic" in done.err


def test_the_root_help_lists_every_noun_with_its_sentence(mqadmin: Run) -> None:
    done = mqadmin("--help", face=True)
    assert done.status == 0
    for name, entry in NOUNS.items():
        assert any(line.split()[:1] == [name] for line in done.out.splitlines()), name
        assert entry.summary.split()[0] in done.out


def test_a_global_option_after_the_verb_wins(mqadmin: Run, admin: Any) -> None:
    from mqadmin.admin.result import Listing

    admin.answers["topic.list"] = Listing(items=())
    done = mqadmin("-n", "first:1", "--timeout", "3s", "topic", "list", "-n", "second:2", face=True)
    assert done.status == 0, done.err
    assert admin.settings.namesrv == ["second:2"]
    assert admin.settings.timeout_ms == 3000


def test_options_of_changes_are_shown_only_in_the_help_of_changes(mqadmin: Run) -> None:
    assert "--dry-run" in mqadmin("topic", "create", "--help", face=True).out
    assert "--dry-run" not in mqadmin("topic", "list", "--help", face=True).out


def test_an_invalid_value_names_option_and_reason(mqadmin: Run) -> None:
    done = mqadmin("store", "inspect", "x", "--limit", "many", face=True)
    assert done.status == 2
    assert "--limit" in done.err
    assert "many" in done.err


def test_an_unsupported_shell_is_refused_with_the_supported_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert emit_script("tcsh") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hint: one of bash, zsh, fish" in captured.err


@pytest.mark.parametrize("name", NOUNS)
def test_every_verb_is_a_command_with_its_examples_in_the_help(name: str) -> None:
    from mqadmin.command.framework.nouns import load_noun

    noun = load_noun(name)
    group = noun_group(noun)
    assert group.name == name
    for verb in noun.verbs.values():
        command = group
        for word in verb.words or (name,):
            command = command.commands[word]
        assert command.help == verb_help(verb)
        assert all(example in command.help for example in verb.examples)
