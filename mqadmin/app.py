"""The entry point of ``mqadmin``: selects the parser of a command line.

``--version`` and completion are handled before Typer is imported; correct command lines of known
commands go through the quick parser; all others (help, usage errors) through Typer.
"""

import os
import sys

TYPE_CHECKING = False  # importing typing would take most of the time of `mqadmin --version`
if TYPE_CHECKING:
    from typing import Any

COMPLETE_VARIABLE = "_MQADMIN_COMPLETE"


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except KeyboardInterrupt:
        from mqadmin.command.session import report_interrupted

        return report_interrupted()
    except OSError as error:  # the output of --version or a completion cannot be written
        from mqadmin.output.stdio import silence_closed_pipe, write_err

        if isinstance(error, BrokenPipeError):
            silence_closed_pipe()
            return 0
        write_err(f"error: cannot write the output: {error.strerror}\n")
        return 5


def _run(words: list[str]) -> int:
    if os.environ.get(COMPLETE_VARIABLE):
        from mqadmin.command.completion import answer

        return answer(os.environ)
    if words == ["--version"]:
        from mqadmin.command.version import version_line
        from mqadmin.output.stdio import write_out

        write_out(version_line(), flush=True)
        return 0
    _import_msgspec()
    from mqadmin.command.quick import parse

    parsed = parse(words)
    if parsed is not None:
        from mqadmin.command.session import run_verb

        return run_verb(*parsed)
    return _full(words)


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, a third of a short command's start-up.

    msgspec imports three names from typing_extensions, or from typing when it is absent; from
    Python 3.11 on both are the same. So the module is hidden during this import.
    """
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    modules["typing_extensions"] = None
    try:
        import msgspec  # noqa: F401
    finally:
        del modules["typing_extensions"]


def _full(words: list[str]) -> int:
    from mqadmin.command.typer_app import root_command

    try:
        root_command()(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
