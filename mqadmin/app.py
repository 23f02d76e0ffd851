"""The entry point of ``mqadmin``: selects the parser of a command line.

``--version`` and completion are handled before Typer is imported; correct command lines of known
commands go through the quick parser; all others (help, usage errors) through Typer. Each branch
imports its modules when it is taken: this is where a run decides which modules to load.
"""

import os
import sys

from mqadmin import VERSION_LINE
from mqadmin.command.execution.status import INTERRUPTED, PARTLY
from mqadmin.output.stdio import end_interrupted_line, silence_closed_pipe, write_err, write_out

COMPLETE_VARIABLE = "_MQADMIN_COMPLETE"


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except KeyboardInterrupt:
        end_interrupted_line()
        return INTERRUPTED
    except BrokenPipeError:
        silence_closed_pipe()
        return 0
    except OSError as error:  # the output of --version or a completion cannot be written
        write_err(f"error: cannot write the output: {error.strerror}\n")
        return PARTLY


def _run(words: list[str]) -> int:
    if os.environ.get(COMPLETE_VARIABLE):
        from mqadmin.command.framework.completion import answer

        return answer(os.environ)
    if words == ["--version"]:
        write_out(VERSION_LINE, flush=True)
        return 0
    from mqadmin.command.framework.quick import consent_words, parse

    words = consent_words(words, os.environ)
    parsed = parse(words)
    if parsed is None:
        return run_typer(words)
    from mqadmin.command.execution.session import run_verb

    return run_verb(*parsed)


def run_typer(words: list[str]) -> int:
    """Run a command line with the Typer parser."""
    from mqadmin.command.framework.typer_app import root_command

    try:
        root_command()(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
