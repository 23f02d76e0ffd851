"""stdout and stderr: bytes out, closed pipes kept quiet."""

import os
import sys

TYPE_CHECKING = False  # typing alone would be most of what `mqadmin --version` costs
if TYPE_CHECKING:
    from typing import TextIO


class OutputError(OSError):
    """The output cannot be written (a full disk): what was to be said is cut."""


def stdout_is_terminal() -> bool:
    """Say whether a person looks at stdout."""
    return _is_terminal(sys.stdout)


def stderr_is_terminal() -> bool:
    """Say whether a person looks at stderr."""
    return _is_terminal(sys.stderr)


def stdin_is_terminal() -> bool:
    """Say whether somebody can be asked on stdin."""
    return _is_terminal(sys.stdin)


def terminal_columns() -> int:
    """Give the width of the terminal; ``COLUMNS`` beats it, 80 where nobody knows."""
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80


def _is_terminal(stream: "TextIO | None") -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # the stream is closed
        return False


def write_out(text: str, *, flush: bool = False) -> None:
    """Write ``text`` to stdout as UTF-8 whatever the locale says: data must not depend on it."""
    _write(sys.stdout, text, flush=flush)


def write_err(text: str) -> None:
    """Write ``text`` to stderr and flush it."""
    flush_out()  # keep the order a person sees when both streams end on one screen
    _write(sys.stderr, text, flush=True)


def flush_out() -> None:
    """Push what is buffered for stdout to its reader."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _cut(error) from error


def _write(stream: "TextIO | None", text: str, *, flush: bool) -> None:
    if stream is None:  # started with the descriptor closed: nobody reads, nothing to say
        return
    buffer = getattr(stream, "buffer", None)
    try:
        if buffer is None:
            stream.write(text)
        else:
            stream.flush()
            # lone surrogates come from undecodable bytes in foreign data; keep them visible
            buffer.write(text.encode("utf-8", "backslashreplace"))
        if flush:
            stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _cut(error) from error


def _cut(error: OSError) -> OutputError:
    """What to raise for a failed write; what is still buffered goes nowhere."""
    silence_closed_pipe()
    return OutputError(error.errno, error.strerror, "output")


def read_answer(question: str) -> str:
    """Ask ``question`` on stderr and read one line from stdin; "" at its end."""
    write_err(question)
    return sys.stdin.readline().strip()


def read_input() -> bytes:
    """Read all of stdin as bytes."""
    return sys.stdin.buffer.read()


def silence_closed_pipe() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot fail.

    Called once a write has failed, mostly with ``BrokenPipeError``: the reader (``head``, a pager)
    has seen enough, which is no error.
    """
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
    except (OSError, ValueError, AttributeError):
        pass
