"""Completion for bash, zsh and fish from the command declarations.

The scripts pass the words joined by newlines in ``_MQADMIN_WORDS``, the word under the cursor
last; the output is one candidate per line (with a tab and its help for zsh and fish), or
``:files`` where a file name is expected. Names of topics, groups and brokers are queried from the
cluster with a short deadline; if it does not respond, there are no candidates.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from mqadmin.command.framework.declare import Noun, Option, Parameter, Verb
from mqadmin.command.framework.nouns import NOUNS, WORDS, load_noun
from mqadmin.command.framework.options import GLOBALS
from mqadmin.output.stdio import flush_out, silence_closed_pipe, write_out

MAX_LIVE_NAMES = 1_000  # matching names; shells do not show longer lists

FILES = ":files"

Candidate = tuple[str, str]

BASH = """\
_mqadmin() {
    local IFS=$'\\n' answer
    local line="${COMP_LINE:0:COMP_POINT}"
    answer=$(_MQADMIN_COMPLETE=bash _MQADMIN_LINE="$line" \\
        _MQADMIN_WORDS="${COMP_WORDS[*]:0:COMP_CWORD+1}" "$1" 2>/dev/null)
    if [ "$answer" = ":files" ]; then
        compopt -o default 2>/dev/null
        COMPREPLY=()
        return 0
    fi
    COMPREPLY=($answer)
}
complete -F _mqadmin mqadmin
"""

ZSH = """\
#compdef mqadmin
_mqadmin() {
    local -a answer values
    local line
    answer=("${(@f)$(_MQADMIN_COMPLETE=zsh _MQADMIN_WORDS="${(pj:\\n:)words[1,CURRENT]}" \\
        "${words[1]}" 2>/dev/null)}")
    if [[ "${answer[1]}" == ":files" ]]; then
        _files
        return
    fi
    for line in "${answer[@]}"; do
        [[ -n "$line" ]] && values+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    _describe 'mqadmin' values
}
if [[ "$funcstack[1]" = "_mqadmin" ]]; then
    _mqadmin "$@"
else
    compdef _mqadmin mqadmin
fi
"""

FISH = """\
function __mqadmin_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l joined (string join \\n -- $words | string collect)
    set -l answer (_MQADMIN_COMPLETE=fish _MQADMIN_WORDS="$joined" _MQADMIN_CURRENT="$current" \\
        $words[1] 2>/dev/null)
    if test "$answer" = ":files"
        __fish_complete_path "$current"
    else if set -q answer[1]
        printf '%s\\n' $answer
    end
end
complete --command mqadmin --no-files --arguments '(__mqadmin_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def answer(environ: Mapping[str, str]) -> int:
    """Print the candidates for the last word of ``_MQADMIN_WORDS``."""
    shell = environ["_MQADMIN_COMPLETE"].removeprefix("complete_")
    words = _words(environ)
    current = words[-1]
    lines = []
    for value, help_text in candidates(words[1:], environ):
        if value == FILES:
            lines = [FILES + "\n"]
            break
        if shell == "bash":
            lines.append(f"{_bash_tail(value, current, environ)}\n")
        else:
            lines.append(f"{value}\t{help_text}\n")
    try:
        write_out("".join(lines))
        flush_out()
    except BrokenPipeError:
        silence_closed_pipe()
    return 0


def _words(environ: Mapping[str, str]) -> list[str]:
    """Read the words; bash also splits them at ``=``, so those are joined again."""
    if "_MQADMIN_WORDS" in environ:
        raw = environ["_MQADMIN_WORDS"].split("\n")
        if "_MQADMIN_CURRENT" in environ:  # fish trims newlines, so the last word is separate
            raw.append(environ["_MQADMIN_CURRENT"])
    else:  # the variables set by the scripts of click and typer
        raw = shlex.split(environ.get("COMP_WORDS", "mqadmin").replace("\n", " "))
        place = int(environ.get("COMP_CWORD") or len(raw))
        raw = [*raw[: place + 1], *([""] * (place + 1 - len(raw)))]
    words: list[str] = []
    for word in raw:
        joined = words and (word == "=" or words[-1].endswith("=")) and words[-1][:2] == "--"
        if joined:
            words[-1] += word
        else:
            words.append(word)
    return words if len(words) > 1 else [*words, ""]


def _bash_tail(value: str, current: str, environ: Mapping[str, str]) -> str:
    """Return the part of a candidate after the last ``=``: bash replaces only that part."""
    if "=" in current and "COMP_WORDS" not in environ:
        return value[current.rindex("=") + 1 :]
    return value


def candidates(words: list[str], environ: Mapping[str, str]) -> list[Candidate]:
    """Return the candidates for the last of ``words``, each with its help sentence."""
    line = _CommandLine(words[:-1])
    current = words[-1]
    if line.pending is not None:
        return _matching(current, _values(line.pending, line, environ, current))
    if current.startswith("--") and "=" in current:
        name, _, prefix = current.partition("=")
        parameter = line.option(name)
        if parameter is None or parameter.is_flag:
            return []
        found = _matching(prefix, _values(parameter, line, environ, prefix))
        return [(f"{name}={value}" if value != FILES else FILES, text) for value, text in found]
    if current.startswith("-") and not line.options_ended:
        return _matching(current, _option_names(line))
    if line.noun is None:
        return _matching(current, _summaries())
    if not line.at_verb:
        return _matching(current, _verb_words(line))
    argument = line.argument()
    if argument is None:
        return []
    return _matching(current, _values(argument, line, environ, current))


def _summaries() -> Iterator[Candidate]:
    for name, entry in NOUNS.items():
        yield name, entry.summary
    yield from WORDS.items()


def _matching(current: str, found: Iterator[Candidate]) -> list[Candidate]:
    return [pair for pair in found if pair[0] == FILES or pair[0].startswith(current)]


class _CommandLine:
    """The words before the one to complete, parsed: noun, verb, options, number of arguments.

    ``pending`` is the option whose value is the word to complete; ``options_ended`` is true after
    ``--``.
    """

    def __init__(self, words: list[str]) -> None:
        self.noun: Noun | None = None
        self.words: tuple[str, ...] = ()
        self.at_verb = False
        self.parameters: tuple[Parameter, ...] = ()
        self.given: dict[str, Any] = {}
        self.argument_count = 0
        self.options_ended = False
        self.pending: Parameter | None = None
        for word in words:
            self._step(word)

    def _step(self, word: str) -> None:
        if self.pending is not None:
            self.given[self.pending.name] = word
            self.pending = None
        elif word == "--":
            self.options_ended = True
        elif word.startswith("-") and len(word) > 1 and not self.options_ended:
            name, equals, text = word.partition("=")
            parameter = self.option(name)
            if parameter is None:
                return
            self.given[parameter.name] = text if equals else True
            if not parameter.is_flag and not equals:
                self.pending = parameter
        elif self.noun is None:
            if word in NOUNS:
                self.noun = load_noun(word)
                self._enter(self.noun.verbs.get(()))
        elif not self.at_verb:
            self._verb_word(word)
        else:
            self.argument_count += 1

    def _verb_word(self, word: str) -> None:
        assert self.noun is not None
        self.words = (*self.words, word)
        self._enter(self.noun.verbs.get(self.words))

    def _enter(self, verb: Verb | None) -> None:
        if verb is not None:
            self.at_verb = True
            self.parameters = verb.parameters

    def option(self, name: str) -> Parameter | None:
        """Return the option with this name, the verb's before a global one; None if unknown."""
        for parameter in (*self.parameters, *GLOBALS):
            marker = parameter.marker
            if isinstance(marker, Option) and (name in marker.names or name == marker.negative):
                return parameter
        return None

    def argument(self) -> Parameter | None:
        """Return the argument to complete, None if the command takes no further one."""
        arguments = [p for p in self.parameters if not p.is_option]
        if self.argument_count < len(arguments):
            return arguments[self.argument_count]
        return arguments[-1] if arguments and arguments[-1].multiple else None


def _option_names(line: _CommandLine) -> Iterator[Candidate]:
    for parameter in (*line.parameters, *GLOBALS):
        marker = parameter.marker
        if not isinstance(marker, Option):
            continue
        if parameter.name in line.given and not parameter.multiple:
            continue
        for name in (*marker.names, marker.negative):
            if name.startswith("--"):
                yield name, marker.help
    if line.at_verb or line.noun is None:
        yield "--help", "Show help and exit."
    if line.noun is None:
        yield "--version", "Print the version."
        yield "--show-completion", "Print the completion script of a shell."


def _verb_words(line: _CommandLine) -> Iterator[Candidate]:
    assert line.noun is not None
    depth = len(line.words)
    seen = set()
    for words, verb in line.noun.verbs.items():
        if words[:depth] == line.words and len(words) > depth and words[depth] not in seen:
            seen.add(words[depth])
            yield words[depth], verb.paragraphs[0]


def _values(
    parameter: Parameter, line: _CommandLine, environ: Mapping[str, str], prefix: str
) -> Iterator[Candidate]:
    for choice in parameter.choices:
        yield choice, ""
    source = parameter.marker.complete
    if source == "file":
        yield FILES, ""
    elif source:
        yield from _live(source, line.given, environ, prefix)


def _live(
    source: str, given: dict[str, Any], environ: Mapping[str, str], prefix: str
) -> Iterator[Candidate]:
    """Query the names that start with ``prefix``; no candidates on any error.

    The limit counts matching names only, so it does not hide a match among 5,000 topics.
    """
    try:
        from mqadmin.command.framework.live_names import live_names

        names = live_names(source, given, environ)
    except Exception:
        return
    for name in sorted(name for name in names if name.startswith(prefix))[:MAX_LIVE_NAMES]:
        yield name, ""
