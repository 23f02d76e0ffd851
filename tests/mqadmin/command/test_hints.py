"""Every command that a hint, note or error of the toolkit names is a command that exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqadmin.command.framework.declare import Option, Verb
from mqadmin.command.framework.nouns import NOUNS, load_noun
from mqadmin.command.framework.options import GLOBALS
from mqadmin.command.java.names import JAVA_NAMES

ROOT = Path(__file__).parents[3]
COMMAND = re.compile(r"mqadmin ([a-z][A-Za-z]*)((?: [^ ;,:()\"']+)*)")


def texts(tree: ast.AST) -> Iterator[str]:
    """Every string of a module but its docstrings; VALUE replaces inserted values."""
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in ast.walk(node) if part is not node)
            parts = [
                str(part.value) if isinstance(part, ast.Constant) else "VALUE"
                for part in node.values
            ]
            yield "".join(parts)
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documentation and id(node) not in inside:
            yield node.value


def named_commands() -> list[tuple[str, str, str]]:
    """(file, noun, words after it) of every command line in a text."""
    found = set()
    for path in sorted((ROOT / "mqadmin").rglob("*.py")):
        for text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            for noun, words in COMMAND.findall(text):
                if noun != "mqadmin":  # the completion script of bash
                    found.add((str(path.relative_to(ROOT)), noun, words.strip()))
    return sorted(found)


COMMANDS = named_commands()


def option_names(verb: Verb) -> set[str]:
    names = {"--help"}
    for parameter in (*verb.parameters, *GLOBALS):
        if isinstance(parameter.marker, Option):
            names.update(parameter.marker.names, {parameter.marker.negative})
    return names


def test_the_texts_are_found() -> None:
    assert len(COMMANDS) > 40
    assert ("mqadmin/admin/group.py", "group", "list --user shows the others") in COMMANDS


@pytest.mark.parametrize(("path", "noun", "words"), COMMANDS, ids=str)
def test_a_command_that_is_named_exists(path: str, noun: str, words: str) -> None:
    where = f"{path}: mqadmin {noun} {words}"
    name, *rest = words.split() or [""]
    if noun in ("help", "java") and (name == "VALUE" or name.lower() in JAVA_NAMES):
        return
    if noun not in NOUNS and noun.lower() in JAVA_NAMES:
        known = {f"-{option.short}" for option in JAVA_NAMES[noun.lower()].options}
        assert {word for word in (name, *rest) if word.startswith("-")} <= known, where
        return
    assert noun in NOUNS, where
    if not words:
        return  # the noun itself, as in "see 'mqadmin context'"
    found = load_noun(noun).find(words.split())
    assert found is not None, where
    options = set(re.findall(r"--[a-z][a-z-]*", words))
    assert options <= option_names(found[0]), where
