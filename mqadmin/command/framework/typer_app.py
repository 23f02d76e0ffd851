"""The Typer layer: nouns and verbs built from their declarations when they are called.

It parses the command lines that the quick parser declines: help, suggestions, usage errors. The
root command knows only the names of the nouns; a noun's module is imported when a word selects
it. Global options are declared on the root and, hidden in the help, on every verb.
"""

import inspect
import os
import sys
from collections.abc import Callable, MutableMapping, Sequence
from typing import Annotated, Any, cast

import typer
from click import ClickException
from typer.core import TyperCommand, TyperGroup

from mqadmin import VERSION_LINE
from mqadmin.command.execution.failure import CHECK_NOUN, CHECK_UNKNOWN
from mqadmin.command.execution.session import emit_verb_schema, run_verb
from mqadmin.command.execution.status import INTERRUPTED, USAGE
from mqadmin.command.framework.completion import SCRIPTS
from mqadmin.command.framework.declare import Argument, Noun, Option, Parameter, Verb
from mqadmin.command.framework.nouns import NOUNS, WORDS, load_guide, load_noun
from mqadmin.command.framework.options import CHANGE_ONLY, GLOBALS, PLAN_ONLY, merged
from mqadmin.output.errors import ErrorReport, emit_error
from mqadmin.output.stdio import end_interrupted_line, silence_closed_pipe, write_err, write_out

GLOBALS_KEY = "mqadmin.globals"
_PREFIX = "global_"  # a verb may have an option of the same name, such as --context

EPILOG = (
    "Global options (-n, -o, --timeout, --context, -v and others) are accepted, too: "
    "mqadmin --help lists them."
)


class VerbCommand(TyperCommand):
    """A command; ``-o schema`` is handled before missing arguments are reported."""

    verb: Verb

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        # typer 0.25 drops the help of arguments on click >= 8.4, which has its own "help" field
        texts = {p.name: p.marker.help for p in self.verb.parameters if not p.is_option}
        for parameter in self.params:
            if parameter.name in texts:
                cast(Any, parameter).help = texts[parameter.name]

    def format_arguments(self, ctx: Any, formatter: Any) -> None:
        """Do nothing: typer prints its own arguments section; click >= 8.5 would repeat it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the schema for ``-o schema``, even when arguments are missing."""
        if _asks_schema(args):
            raise typer.Exit(emit_verb_schema(self.verb))
        return super().parse_args(ctx, args)


def _asks_schema(args: Sequence[str]) -> bool:
    for position, word in enumerate(args):
        if word == "--":
            return False
        if word in ("-oschema", "--output=schema"):
            return True
        if word in ("-o", "--output") and args[position + 1 : position + 2] == ["schema"]:
            return True
    return False


class LazyGroup(TyperGroup):
    """The root: nouns with their summaries; a module is imported when its noun is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, entry in NOUNS.items():
            self.commands.setdefault(
                name, TyperCommand(name, help=entry.summary, rich_markup_mode=None)
            )
        for word, sentence in WORDS.items():
            self.commands[word] = TyperCommand(word, help=sentence, rich_markup_mode=None)

    def load(self, name: str, verb: str = "") -> Any:
        """Import a noun and replace its stub by the real group."""
        noun = load_noun(name, verb)
        command = noun_group(noun)
        if () in noun.verbs:  # a command of one word: mqadmin apply FILE
            command = command.commands[name]
        self.commands[name] = command
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Load the noun that the first word selects, or a plugin; else a usage error."""
        if args and args[0] in NOUNS:
            return args[0], self.load(args[0], args[1] if len(args) > 1 else ""), args[1:]
        if args and args[0] in WORDS:
            self.commands.update(load_guide().guide_commands())
        elif args and args[0] not in self.commands:
            load_guide().start_plugin(args, ctx.meta.get(GLOBALS_KEY) or ctx.params)
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and exit with its status; usage errors in the project's format."""
        words = list(sys.argv[1:] if args is None else args)
        try:
            status = super().main(
                args=words,
                prog_name=prog_name or "mqadmin",
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except ClickException as error:
            status = usage_error(error, words)
        except typer.Abort:
            end_interrupted_line()
            status = INTERRUPTED
        except BrokenPipeError:
            silence_closed_pipe()
            status = 0
        except SystemExit as end:  # click exits with status 1 on a closed pipe
            status = 0 if "PacifyFlush" in type(sys.stdout).__name__ else end.code
        sys.exit(status if isinstance(status, int) else 0)

    def _main_shell_completion(
        self,
        ctx_args: MutableMapping[str, Any],
        prog_name: str,
        complete_var: str | None = None,
    ) -> None:
        """Do nothing: completion (``completion.py``) is handled before typer is imported."""


def usage_error(error: Any, words: Sequence[str]) -> int:
    """Print a usage error as ``error:`` and ``hint:``, or as one JSON object; return status 2."""
    ctx = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and ctx is not None:
        write_err(ctx.get_help() + "\n")
        return USAGE
    hint = ""
    if ctx is not None:
        hint = f"{ctx.command_path} --help shows the options and an example"
    emit_error(ErrorReport("usage", error.format_message(), hint), form=form_in(words))
    is_check = ctx is not None and ctx.command_path.split()[1:2] == [CHECK_NOUN]
    return CHECK_UNKNOWN if is_check else USAGE


def form_in(words: Sequence[str]) -> str:
    """Return the value of -o on a command line that could not be parsed, else the default."""
    form = os.environ.get("MQADMIN_OUTPUT", "table")
    for position, word in enumerate(words):
        if word in ("-o", "--output"):
            form = words[position + 1] if position + 1 < len(words) else form
        elif word.startswith("--output="):
            form = word.partition("=")[2]
        elif word.startswith("-o") and len(word) > 2:
            form = word[2:]
    return form


def _group_sentence(noun: Noun, first: str) -> str:
    """Return the help of the verbs with the same first word: "Show or set: mqadmin … VERB."."""
    *others, last = [one.words[-1] for one in noun.verbs.values() if one.words[:1] == (first,)]
    verbs = f"{', '.join(others)} or {last}" if others else last
    return f"{verbs.capitalize()}: mqadmin {noun.name} {first} VERB."


def noun_group(noun: Noun) -> Any:
    """Build the group of one noun with all its verbs."""
    app = _typer_app(noun.name, noun.paragraphs)
    inner: dict[str, typer.Typer] = {}
    for verb in noun.verbs.values():
        target = app
        if len(verb.words) == 2:
            first = verb.words[0]
            if first not in inner:
                inner[first] = _typer_app(first, [_group_sentence(noun, first)])
                app.add_typer(inner[first], name=first)
            target = inner[first]
        target.command(
            verb.words[-1] if verb.words else noun.name,
            cls=_command_class(verb),
            help=verb_help(verb),
            short_help=verb.paragraphs[0],
            epilog=EPILOG,
            context_settings={"help_option_names": ["-h", "--help"]},
        )(_callback(verb))
    group = typer.main.get_group(app)  # get_command would not make a group of a single verb
    group.name = noun.name
    return group


def _command_class(verb: Verb) -> type[VerbCommand]:
    return type("VerbCommand", (VerbCommand,), {"verb": verb})


def _typer_app(name: str, paragraphs: list[str], **options: Any) -> typer.Typer:
    return typer.Typer(
        name=name,
        help="\n\n".join(paragraphs),
        short_help=paragraphs[0],
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        suggest_commands=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **options,
    )


def verb_help(verb: Verb) -> str:
    """Return the help of a verb: its sentence, its paragraphs, its worked examples."""
    head, *rest = verb.paragraphs
    examples = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in verb.examples)
    return "\n\n".join([head, *rest, examples])


def _callback(verb: Verb) -> Callable[..., None]:
    """Build the function that Typer calls for a verb."""

    def call(ctx: typer.Context, **given: Any) -> None:
        own = {p.name: given[p.name] for p in verb.parameters}
        after = {p.name: given[_PREFIX + p.name] for p in GLOBALS}
        options = merged(ctx.find_root().meta.get(GLOBALS_KEY, {}), after)
        raise typer.Exit(run_verb(verb, options, own))

    shown = CHANGE_ONLY if verb.changes else frozenset()
    shown |= PLAN_ONLY if verb.plans else frozenset()
    declared = [_typer_parameter(p, p.name) for p in verb.parameters]
    taken = frozenset(
        name for p in verb.parameters if isinstance(p.marker, Option) for name in p.marker.names
    )
    declared += [
        _typer_parameter(p, _PREFIX + p.name, hidden=p.name not in shown, without=taken)
        for p in GLOBALS
    ]
    return _with_signature(call, declared)


def _with_signature(
    function: Callable[..., None], declared: list[inspect.Parameter]
) -> Callable[..., None]:
    context = inspect.Parameter(
        "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    signature = inspect.Signature([context, *declared])
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return function


def _typer_parameter(
    parameter: Parameter,
    name: str,
    *,
    hidden: bool = False,
    without: frozenset[str] = frozenset(),
) -> inspect.Parameter:
    """Declare a parameter; ``without`` are option names that the verb itself declares."""
    marker = parameter.marker
    info: Any
    if isinstance(marker, Option):
        info = typer.Option(
            *_declarations(marker, without),
            help=marker.help,
            metavar=None if parameter.is_flag else parameter.metavar(),
            hidden=hidden,
            show_default=marker.shown or bool(parameter.shown_default),
            envvar=None,
            parser=_parser(parameter),
        )
    else:
        info = typer.Argument(
            help=marker.help,
            metavar=_argument_metavar(marker, parameter),
            show_default=False,
            parser=_parser(parameter),
        )
    default = inspect.Parameter.empty if parameter.required else parameter.default
    annotation = parameter.annotation
    if marker.parse is not None:
        annotation = (
            list[str] if parameter.multiple else (str if parameter.required else str | None)
        )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[annotation, info],
    )


def _argument_metavar(marker: Argument, parameter: Parameter) -> str:
    return f"{marker.metavar}..." if parameter.multiple else marker.metavar


def _declarations(marker: Option, without: frozenset[str]) -> list[str]:
    names = [name for name in marker.names if name not in without]
    if marker.negative:
        names[-1] = f"{names[-1]}/{marker.negative}"
    return names


def _parser(parameter: Parameter) -> Callable[[str], Any] | None:
    """Wrap a parse function so that typer reports the reason of its ValueError."""
    parse = parameter.marker.parse
    if parse is None:
        return None

    def parsed(text: Any) -> Any:
        if not isinstance(text, str):  # click also converts defaults
            return text
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return parsed


def root_command() -> Any:
    """Build the root command, which loads nouns as they are called."""
    app = _typer_app("mqadmin", [ROOT_SENTENCE, *ROOT_TEXT], cls=LazyGroup)

    def root(ctx: typer.Context, **given: Any) -> None:
        if given.pop("version"):
            write_out(VERSION_LINE)
            raise typer.Exit(0)
        shell = given.pop("show_completion")
        if shell:
            raise typer.Exit(emit_script(shell))
        ctx.meta[GLOBALS_KEY] = given

    declared = [_typer_parameter(p, p.name) for p in GLOBALS]
    declared.append(_root_only("version", bool, False, "--version", help="Print the version."))
    declared.append(
        _root_only(
            "show_completion",
            str | None,
            None,
            "--show-completion",
            metavar="SHELL",
            help="Print the completion script for bash, zsh or fish.",
        )
    )
    app.callback(invoke_without_command=True)(_with_signature(root, declared))
    command = typer.main.get_command(app)
    command.name = "mqadmin"
    return command


def _root_only(
    name: str, annotation: Any, default: Any, *names: str, **attributes: Any
) -> inspect.Parameter:
    info = typer.Option(*names, show_default=False, **attributes)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[annotation, info],
    )


ROOT_SENTENCE = "Administer RocketMQ clusters and inspect their store files."

ROOT_TEXT = [
    (
        "A command is a noun and a verb: 'mqadmin topic list'. Online commands query name servers "
        "and brokers; 'mqadmin store' reads a store directory without them. 'mqadmin help' lists "
        "everyday tasks; a program mqadmin-NAME on PATH is the command 'mqadmin NAME'."
    ),
    (
        "Options below are accepted before the noun and after the verb. Precedence: option, "
        "context named by --context, environment, current context, default. Exit status: 0 done, "
        "1 no result, 2 usage, 3 unreachable, 4 refused, 5 partial, 6 not permitted, 7 damaged "
        "file, 8 state changed, 130 interrupted."
    ),
]


def emit_script(shell: str) -> int:
    """Print the completion script of a shell; status 2 for an unsupported shell."""
    script = SCRIPTS.get(shell)
    if script is None:
        hint = "one of " + ", ".join(SCRIPTS)
        emit_error(ErrorReport("usage", f"no completion script for {shell!r}", hint))
        return USAGE
    write_out(script, flush=True)
    return 0
