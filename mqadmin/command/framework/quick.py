"""The quick parser: parse valid command lines without importing Typer.

Commands often run from cron, and start-up is most of their cost. This parser uses the
declarations directly and supports no help, suggestions or usage errors: on an unknown word, an
invalid value or a missing argument it declines, and Typer parses the same words again and reports
the error. Both parsers return the same result for every line this one accepts; a test compares
them on random command lines.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mqadmin.command.framework.declare import Option, Parameter, Verb
from mqadmin.command.framework.nouns import NOUNS, load_java_verb, load_noun
from mqadmin.command.framework.options import GLOBALS, merged
from mqadmin.settings import GUARD_WORDS, config_path, load_contexts

_YES = ("--yes", "-y")


class Declined(Exception):
    """This command line is left to Typer."""


Parsed = tuple[Verb, dict[str, Any], dict[str, Any]]


def parse(words: Sequence[str]) -> Parsed | None:
    """Return verb, global options and the verb's values, or None to decline."""
    try:
        return _parse(list(words))
    except Declined:
        return None


def _parse(words: list[str]) -> Parsed:
    before = _Reader(GLOBALS)
    rest = before.read(words, stop_at_argument=True)
    if not rest:
        raise Declined
    noun = load_noun(rest[0], rest[1] if len(rest) > 1 else "") if rest[0] in NOUNS else None
    found = noun.find(rest[1:]) if noun is not None else None
    if found is None:
        return _parse_java(before, rest)
    verb, count = found
    own = _Reader((*GLOBALS, *verb.parameters))  # a verb's option overrides a global one
    own.read(rest[1 + count :])
    own.fill_arguments(verb.parameters)
    values = {p.name: own.value_of(p) for p in verb.parameters}
    global_names = {id(p) for p in GLOBALS}
    after = {p.name: value for p, value in own.given() if id(p) in global_names}
    options = merged({p.name: value for p, value in before.given()}, after)
    if options.get("output") == "schema":
        raise Declined  # Typer prints the schema even when arguments are missing
    return verb, {p.name: options.get(p.name, p.default) for p in GLOBALS}, values


def _parse_java(before: "_Reader", words: list[str]) -> Parsed:
    """Parse a command with a Java name (``mqadmin java topicRoute``); decline all others."""
    java = load_java_verb(words)
    if java is None:
        raise Declined
    verb, line = java
    options = merged({p.name: value for p, value in before.given()}, line.options)
    return verb, {p.name: options.get(p.name, p.default) for p in GLOBALS}, {"line": line}


class _Reader:
    """Parses words against a list of parameters."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.by_name: dict[str, tuple[Parameter, bool]] = {}
        self.values: dict[int, Any] = {}
        self.parameters = {id(p): p for p in parameters}
        self.arguments: list[str] = []
        for parameter in parameters:
            if isinstance(parameter.marker, Option):
                for name in parameter.marker.names:
                    self.by_name[name] = (parameter, True)
                if parameter.marker.negative:
                    self.by_name[parameter.marker.negative] = (parameter, False)

    def read(self, words: list[str], *, stop_at_argument: bool = False) -> list[str]:
        """Parse options and arguments.

        With ``stop_at_argument`` parsing stops at the first argument; return the words from it on.
        """
        position = 0
        while position < len(words):
            word = words[position]
            position += 1
            if word == "--":
                if stop_at_argument:
                    raise Declined
                self.arguments.extend(words[position:])
                return []
            if word.startswith("--"):
                position = self._long(word, words, position)
            elif word.startswith("-") and len(word) > 1:
                position = self._short(word, words, position)
            elif stop_at_argument:
                return words[position - 1 :]
            else:
                self.arguments.append(word)
        return []

    def _long(self, word: str, words: list[str], position: int) -> int:
        name, equals, text = word.partition("=")
        parameter, positive = self._known(name)
        if parameter.is_flag:
            if equals:
                raise Declined
            self._set(parameter, positive)
            return position
        if equals:
            self._take(parameter, text)
            return position
        return self._take_next(parameter, words, position)

    def _short(self, word: str, words: list[str], position: int) -> int:
        for place in range(1, len(word)):
            parameter, positive = self._known("-" + word[place])
            if parameter.is_flag:
                self._set(parameter, positive)
                continue
            attached = word[place + 1 :]
            if not attached:
                return self._take_next(parameter, words, position)
            if attached.startswith("="):
                raise Declined
            self._take(parameter, attached)
            return position
        return position

    def _take_next(self, parameter: Parameter, words: list[str], position: int) -> int:
        if position >= len(words):
            raise Declined
        self._take(parameter, words[position])
        return position + 1

    def _known(self, name: str) -> tuple[Parameter, bool]:
        found = self.by_name.get(name)
        if found is None:
            raise Declined
        return found

    def _take(self, parameter: Parameter, text: str) -> None:
        try:
            value = parameter.value(text)
        except ValueError as error:
            raise Declined from error
        self._set(parameter, value)

    def _set(self, parameter: Parameter, value: Any) -> None:
        if parameter.multiple:
            self.values.setdefault(id(parameter), []).append(value)
        else:
            self.values[id(parameter)] = value

    def fill_arguments(self, parameters: Sequence[Parameter]) -> None:
        """Assign the words that are not options to the arguments in order; decline too many."""
        words = self.arguments
        for parameter in parameters:
            if parameter.is_option:
                continue
            if parameter.multiple:
                for word in words:
                    self._take(parameter, word)
                words = []
            elif words:
                self._take(parameter, words[0])
                words = words[1:]
        if words:
            raise Declined

    def given(self) -> list[tuple[Parameter, Any]]:
        """Return the parameters that occurred, with their values."""
        return [(self.parameters[key], value) for key, value in self.values.items()]

    def value_of(self, parameter: Parameter) -> Any:
        """Return the value or default of a parameter; decline if a required one is missing."""
        if id(parameter) in self.values:
            return self.values[id(parameter)]
        if parameter.required:
            raise Declined
        return parameter.default


def consent_words(words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the command line with ``--yes CONTEXT`` and ``--yes=CONTEXT`` as ``--yes-context``.

    ``--yes CONTEXT`` confirms a change by the name of a protected context. ``--yes`` is a flag, so
    only the name of a protected or read-only context after it belongs to it.
    """
    if not any(word in _YES or word.startswith("--yes=") for word in words):
        return list(words)
    contexts = load_contexts(config_path(environ)).named
    guarded = {
        name for name, kept in contexts.items() if any(kept.get(word) for word in GUARD_WORDS)
    }
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*found, word, *rest]
        if word.startswith("--yes="):
            found += ["--yes-context", word.partition("=")[2]]
        elif word in _YES and rest and rest[0] in guarded:
            found += ["--yes-context", rest.pop(0)]
        else:
            found.append(word)
    return found
