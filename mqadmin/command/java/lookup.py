"""Parse a command line with a Java name, as commons-cli does, and find its command.

Accepted are ``-t v``, ``-tv``, ``-t=v``, ``--topic v``, ``--topic=v``, ``-topic v``, unambiguous
prefixes of long names, several flags in one word (``-am``), negative numbers as values, and the
global options of this project under their long names. Words that commons-cli would ignore are
refused, except ``true`` after a flag, which users of the Java tool often write.

**Source:** commons-cli 1.5 ``DefaultParser``; RocketMQ ``MQAdminStartup#main0``.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option, Parameter, Verb
from mqadmin.command.framework.options import GLOBALS
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import COMMANDS, JavaCommand
from mqadmin.command.java.names import JAVA_NAMES, JavaName, JavaOption
from mqadmin.command.java.noun import NOUN
from mqadmin.output.stdio import write_out

_HELP = JavaOption("h", "help", False, False, "")
_NAMESRV = JavaOption("n", "namesrvAddr", True, False, "")

#: Global options that have no meaning here: the output is Java's, a change runs at once.
_REFUSED = {"output", "dry_run"}


class JavaLine(NamedTuple):
    """A parsed command line: the values of the options, the global options, or the fault."""

    name: JavaName
    values: dict[str, str]
    options: dict[str, Any]
    wants_help: bool
    fault: UsageFault | None


def java_verb(words: Sequence[str]) -> tuple[Verb, JavaLine] | None:
    """Return the command of ``words`` and its parsed options; None if it has no Java name.

    ``words`` start with ``java NAME``, ``NAME`` or ``help NAME``.
    """
    wants_help = words[0] == "help"
    explicit = words[0] == "java"
    rest = list(words[1:] if wants_help or explicit else words)
    name = JAVA_NAMES.get(rest[0].lower()) if rest else None
    if name is None or (wants_help and len(rest) > 1):
        return None
    if name.name not in COMMANDS:
        import_module(f"mqadmin.command.java.{name.module}")
    command = COMMANDS[name.name]
    line = _parsed(name, rest[1:])
    if wants_help:
        line = line._replace(wants_help=True)

    def function(session: Session, line: JavaLine) -> None:
        run_java(session, command, line)

    changes = command.changes
    return Verb(NOUN, name.name, function, (), (), changes=changes, has_dry_run=False), line


def run_java(session: Session, command: JavaCommand, line: JavaLine) -> None:
    """Run a command, or print its usage."""
    if line.wants_help:
        write_out(usage(line.name))
        return
    if line.fault is not None:
        raise line.fault
    name = line.name.name
    if session.options.get("output"):
        raise UsageFault(f"{name}: --output does not apply to Java's columns", _instead(line.name))
    if command.changes:
        session.guard_change()
    command.function(JavaCall(session, line.name, line.values))


def _instead(name: JavaName) -> str:
    return f"mqadmin {name.equivalent} has it" if name.equivalent else "mqadmin --help"


def usage(name: JavaName) -> str:
    """Return the usage of a command: its options, and the equivalent with noun and verb."""
    rows = [f"usage: mqadmin {name.name} [OPTIONS]"]
    for option in (*name.options, _NAMESRV, _HELP):
        names = ",".join(option.shown.split("/")) + (" VALUE" if option.takes_value else "")
        notes = ["required"] if option.required else []
        if option.group:
            others = [item.shown for item in name.options if item.group == option.group]
            notes = [f"exactly one of {', '.join(others)}"]
        rows.append(f"  {names:<40}{'; '.join(notes)}".rstrip())
    if name.equivalent:
        rows.append(f"The same with noun and verb: mqadmin {name.equivalent}")
    return "\n".join(rows) + "\n"


def _parsed(name: JavaName, words: Sequence[str]) -> JavaLine:
    reader = _Reader(name)
    fault: UsageFault | None = None
    try:
        reader.read(words)
        if not reader.wants_help:
            reader.check()
    except UsageFault as error:
        fault = error
    return JavaLine(name, reader.values, reader.options, reader.wants_help, fault)


class _Reader:
    """Parses the words of one command."""

    def __init__(self, name: JavaName) -> None:
        self.name = name
        own = name.options
        taken = {option.short for option in own}
        self.known = [*own, *(item for item in (_NAMESRV, _HELP) if item.short not in taken)]
        self.short = {option.short: option for option in self.known if option.short}
        self.long = {option.long: option for option in self.known if option.long}
        self.globals = {
            names[2:]: parameter
            for parameter in GLOBALS
            if isinstance(parameter.marker, Option)
            for names in parameter.marker.names
            if names.startswith("--")
        }
        self.values: dict[str, str] = {}
        self.options: dict[str, Any] = {}
        self.wants_help = False

    def read(self, words: Sequence[str]) -> None:
        """Parse every word; UsageFault for an unknown option or a missing value."""
        rest = list(words)
        after_flag = False
        while rest:
            word = rest.pop(0)
            if not word.startswith("-") or word == "-":
                if not (after_flag and word.lower() == "true"):
                    raise self._fault(f"unexpected word {word!r}")
                after_flag = False
                continue
            after_flag = self._option(word, rest)

    def _option(self, word: str, rest: list[str]) -> bool:
        """Parse one option word; return True for a flag."""
        text, equals, value = word.partition("=")
        body = text.lstrip("-")
        option = self._find(text, body)
        if option is not None:
            return self._take(option, value if equals else None, rest)
        parameter = self._global(body) if text.startswith("--") else None
        if parameter is not None:
            self._take_global(parameter, value if equals else None, rest)
            return False
        first = None if text.startswith("--") else self.short.get(word[1:2])
        if first is not None and first.takes_value:
            return self._take(first, word[2:], rest)
        if first is not None and all(
            letter in self.short and not self.short[letter].takes_value for letter in body
        ):
            for letter in body:
                self._take(self.short[letter], None, rest)
            return True
        raise self._fault(f"unknown option {text}")

    def _find(self, text: str, body: str) -> JavaOption | None:
        """Return the option of a name: short, long, or the prefix of exactly one long name."""
        if not text.startswith("--") and body in self.short:
            return self.short[body]
        if body in self.long:
            return self.long[body]
        if text.startswith("--") and body in self.globals:
            return None
        if not text.startswith("--") and body[:1] in self.short:
            return None  # -tTOPIC, or several flags
        matching = [option for long, option in self.long.items() if long.startswith(body)]
        if len(matching) > 1:
            raise self._fault(f"{text} is ambiguous: {', '.join(o.shown for o in matching)}")
        return matching[0] if matching and body else None

    def _take(self, option: JavaOption, value: str | None, rest: list[str]) -> bool:
        if option is _HELP:
            self.wants_help = True
            return True
        if not option.takes_value:
            self.values[option.name] = "true"
            return True
        text = self._value(option.shown, value, rest)
        if option.short == "n":  # nameserverAddr in the commands about RocksDB
            self.options["namesrv"] = text
        else:
            self.values[option.name] = text.strip()
        return False

    def _global(self, body: str) -> Parameter | None:
        parameter = self.globals.get(body)
        if parameter is not None and parameter.name in _REFUSED:
            raise self._fault(f"--{body} does not apply to a command with a Java name")
        return parameter

    def _take_global(self, parameter: Parameter, value: str | None, rest: list[str]) -> None:
        if parameter.is_flag:
            self.options[parameter.name] = True
            return
        text = self._value(f"--{parameter.name}", value, rest)
        self.options[parameter.name] = parameter.value(text)

    def _value(self, shown: str, value: str | None, rest: list[str]) -> str:
        if value is not None:
            return value
        if not rest or (rest[0].startswith("-") and self._is_option(rest[0])):
            raise self._fault(f"{shown} needs a value")
        return rest.pop(0)

    def _is_option(self, word: str) -> bool:
        body = word.lstrip("-").partition("=")[0]
        if word.startswith("--"):
            return body in self.long or body in self.globals
        return body in self.short or body in self.long

    def check(self) -> None:
        """Refuse a line without a required option, or with two of an exclusive group."""
        for option in self.name.options:
            if option.required and option.name not in self.values:
                raise self._fault(f"{option.shown} is missing")
        for group in sorted({option.group for option in self.name.options if option.group}):
            members = [option for option in self.name.options if option.group == group]
            given = [option for option in members if option.name in self.values]
            shown = " or ".join(option.shown for option in members)
            if not given:
                raise self._fault(f"{shown} is missing")
            if len(given) > 1:
                raise self._fault(f"{shown} exclude each other")

    def _fault(self, reason: str) -> UsageFault:
        return UsageFault(
            f"{self.name.name}: {reason}", f"mqadmin help {self.name.name} shows the options"
        )
