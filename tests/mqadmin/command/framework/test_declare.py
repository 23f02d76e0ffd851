"""Every command: declared, documented, and read the same way by both readers."""

import random
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from mqadmin.command.execution.row_types import row_type
from mqadmin.command.framework.declare import Argument, Noun, Option, Options, Verb, parameters_of
from mqadmin.command.framework.nouns import NOUNS, load_noun
from mqadmin.command.framework.options import GLOBALS
from mqadmin.command.framework.quick import parse
from mqadmin.output.schema import view_schema

Run = Callable[..., Any]

# A table of these has a line per setting, which the records do not have.
LINE_PER_SETTING = ("broker.status", "broker.config.show", "namesrv.config.show")

VERBS = [verb for name in NOUNS for verb in load_noun(name).verbs.values()]


def name_of(verb: Verb) -> str:
    return verb.path


@pytest.mark.parametrize("name", NOUNS)
def test_a_noun_explains_its_concept_with_the_sentence_of_its_stub(name: str) -> None:
    noun = load_noun(name)
    assert noun.name == name
    assert noun.paragraphs[0] == NOUNS[name][1]
    _, explanation, *_ = noun.paragraphs
    assert len(explanation) > 150
    assert noun.verbs


@pytest.mark.parametrize("verb", VERBS, ids=name_of)
def test_a_verb_opens_with_a_sentence_and_shows_an_example(verb: Verb) -> None:
    first = verb.paragraphs[0]
    assert first[0].isupper()
    assert first.endswith(".")
    assert len(first) < 100
    assert verb.examples
    assert all(f"mqadmin {verb.path}" in example for example in verb.examples)


@pytest.mark.parametrize("verb", VERBS, ids=name_of)
def test_every_example_is_a_command_line_that_is_understood(verb: Verb) -> None:
    import shlex

    for example in verb.examples:
        words = shlex.split(example)
        parsed = parse(words[words.index("mqadmin") + 1 :])
        assert parsed is not None, example
        assert parsed[0] is verb


@pytest.mark.parametrize("verb", VERBS, ids=name_of)
def test_every_option_is_documented_and_clashes_with_no_global_one(verb: Verb) -> None:
    taken = {name for p in GLOBALS if isinstance(p.marker, Option) for name in p.marker.names}
    taken |= {"-h", "--help"}
    for parameter in verb.parameters:
        assert parameter.marker.help.endswith((".", "'.")), parameter.name
        if isinstance(parameter.marker, Option):
            names = {*parameter.marker.names} | {parameter.marker.negative} - {""}
            assert any(name.startswith("--") for name in names)
            assert not names & taken
            taken |= names
        else:
            assert isinstance(parameter.marker, Argument)
            assert parameter.marker.metavar.isupper()


@pytest.mark.parametrize("verb", VERBS, ids=name_of)
def test_every_verb_has_a_schema_named_after_it(verb: Verb) -> None:
    assert verb.views
    for view in verb.views:
        schema = view_schema(view, row_type(view))
        properties = schema["properties"]
        if not view.single:
            assert properties["items"]["items"].get("properties"), view.schema
        shown = properties if view.single else properties["items"]["items"]["properties"]
        if verb.changes or view.name in LINE_PER_SETTING:
            continue
        assert set(view.columns) | set(view.wide) <= set(shown), view.schema


@pytest.mark.parametrize("verb", VERBS, ids=name_of)
def test_help_shows_sentence_example_and_every_option(verb: Verb, mqadmin: Run) -> None:
    done = mqadmin(*verb.path.split(), "--help")
    assert done.status == 0
    assert verb.paragraphs[0].split()[0] in done.out
    assert "Examples:" in done.out
    for parameter in verb.parameters:
        if isinstance(parameter.marker, Option):
            assert parameter.marker.names[0] in done.out
        else:
            assert parameter.marker.help.split()[0] in done.out
    assert ("--dry-run  " in done.out) == verb.changes


def _words(verb: Verb, dice: random.Random) -> list[str]:
    """A command line for a verb: mostly right, sometimes wrong, options in any order."""
    texts = ["a", "orders", "7", "0", "-5", "-1", "rw", "1h", "json", "text", "none", "+k=v", "k=v"]
    texts += ["earliest", "", "--x", "2026-01-02", "ü"]
    pieces: list[list[str]] = []
    for parameter in (*verb.parameters, *GLOBALS):
        marker = parameter.marker
        likely = 0.9 if parameter.required else 0.25
        if dice.random() > likely:
            continue
        choices = [*parameter.choices] * 3 + texts
        if isinstance(marker, Option):
            name = dice.choice([*marker.names, marker.negative or marker.names[0]])
            if parameter.is_flag:
                pieces.append([name])
            elif name.startswith("--") and dice.random() < 0.4:
                pieces.append([f"{name}={dice.choice(choices)}"])
            elif not name.startswith("--") and dice.random() < 0.3:
                pieces.append([name + dice.choice(choices)])
            else:
                pieces.append([name, dice.choice(choices)])
        else:
            pieces.append([dice.choice(choices)])
    dice.shuffle(pieces)
    cut = dice.randrange(len(pieces) + 1) if dice.random() < 0.3 else 0
    words = [word for piece in pieces[:cut] for word in piece]
    words += verb.path.split()
    return words + [word for piece in pieces[cut:] for word in piece]


def test_both_readers_make_the_same_call_or_the_quick_one_declines(
    mqadmin: Run, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    calls: list[tuple[Any, ...]] = []

    def remember(verb: Verb, options: Any, values: Any) -> int:
        calls.append((verb, options, values))
        return 0

    monkeypatch.setattr("mqadmin.command.framework.typer_app.run_verb", remember)
    monkeypatch.setattr("mqadmin.command.framework.values.time.time", lambda: 1_700_000_000.0)
    seed = 20260102
    dice = random.Random(seed)
    accepted = 0
    for _ in range(250):
        words = _words(dice.choice(VERBS), dice)
        calls.clear()
        mqadmin(*words, face=True)
        quick = parse(words)
        if quick is None:
            continue
        accepted += 1
        assert calls, (seed, " ".join(words))
        assert calls[0][0] is quick[0], (seed, words)
        assert calls[0][1:] == quick[1:], (seed, words)
    assert accepted > 25, "the generator makes too few plain command lines"


class CopyOptions(Options):
    source: Annotated[str, Argument("FILE", help="The file.")]
    depth: Annotated[int, Option("--depth", help="Levels.")] = 2


def copy(
    session: Any,
    first: Annotated[bool, Option("--first", help="Only the first.")] = False,
    *,
    given: CopyOptions,
) -> None:
    session.append((first, given.source, given.depth))


def test_the_fields_of_options_are_parameters_in_their_order() -> None:
    found = parameters_of(copy)
    assert [(p.name, p.default, p.required) for p in found] == [
        ("first", False, False),
        ("source", None, True),
        ("depth", 2, False),
    ]


def test_a_verb_gathers_the_values_of_its_options() -> None:
    calls: list[Any] = []
    verb = Verb(Noun("x", "X."), "copy", copy, (), (), changes=False)
    verb.run(calls, {"first": True, "source": "a", "depth": 3})
    verb.run(calls, {"source": "b"})
    assert calls == [(True, "a", 3), (False, "b", 2)]


def test_options_take_exactly_their_fields() -> None:
    with pytest.raises(TypeError, match=r"missing=\{'source'\}"):
        CopyOptions(depth=1)
    with pytest.raises(TypeError, match=r"unknown=\{'width'\}"):
        CopyOptions(source="a", width=1)
