"""The words help, man and completion, and plug-ins, as commands of the Typer root."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from broker.errors import RocketMQError
from mqadmin.command.execution.failure import report_of, status_of
from mqadmin.command.framework.nouns import WORDS
from mqadmin.command.guide import pages, plugins, shell_setup
from mqadmin.output.errors import emit_error, emit_note
from mqadmin.output.stdio import flush_out, write_out


def _help(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Concept.")] = None,
) -> None:
    """Print tasks and the commands for them, or explain a concept."""
    _print(tasks_or_concept(topic))


def tasks_or_concept(topic: str | None) -> str:
    """Return the list of tasks, or the page of a concept."""
    return pages.tasks_text() if topic is None else pages.concept_text(topic)


def _man(
    page: Annotated[str, typer.Argument(metavar="PAGE", help="Page of the manual.")] = "mqadmin",
) -> None:
    """Show a page of the manual; mqadmin help lists the pages."""
    raise typer.Exit(pages.show_man(page))


def _completion(
    action: Annotated[str, typer.Argument(metavar="install", help="The word install.")],
    shell: Annotated[
        str | None,
        typer.Option("--shell", metavar="SHELL", help="bash, zsh or fish; default: SHELL."),
    ] = None,
) -> None:
    """Write the completion script to the folder from which the shell loads it."""
    if action != "install":
        raise typer.BadParameter(f"{action!r} is not install")
    path, step = shell_setup.install(shell_setup.shell_of(os.environ, shell), os.environ)
    _print(f"{path}\n")
    emit_note(f"next: {step}")


def _print(text: str) -> None:
    write_out(text)
    flush_out()


class GuideCommand(TyperCommand):
    """A command whose errors are reported in the format of the project."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; its RocketMQError becomes an exit status."""
        try:
            return super().invoke(ctx)
        except RocketMQError as error:
            emit_error(report_of(error))
            raise typer.Exit(status_of(error)) from error


def guide_commands() -> dict[str, Any]:
    """Build the commands by word."""
    functions: dict[str, Callable[..., None]] = {
        "help": _help,
        "man": _man,
        "completion": _completion,
    }
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    for word, function in functions.items():
        app.command(
            word,
            cls=GuideCommand,
            short_help=WORDS[word],
            context_settings={"help_option_names": ["-h", "--help"]},
        )(function)
    group = typer.main.get_group(app)
    return dict(group.commands)


def start_plugin(words: Sequence[str], options: Mapping[str, Any]) -> None:
    """Replace the process by the plug-in that the first word names; return if there is none."""
    path = plugins.plugin_path(words[0], os.environ) if words else None
    if path is None:
        return
    environ = dict(os.environ)
    if options.get("namesrv"):
        environ["NAMESRV_ADDR"] = str(options["namesrv"])
    flush_out()
    sys.stderr.flush()
    plugins.run_plugin(path, words[1:], environ)
