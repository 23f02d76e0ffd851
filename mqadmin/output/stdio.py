"""stdout and stderr as byte streams; closed pipes are not an error."""

import os
import sys

TYPE_CHECKING = False  # importing typing would take most of the time of `mqadmin --version`
if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedIOBase
    from typing import TextIO

GATHER_BYTES = 64 * 1024  # text collected before it is passed to the stream


class OutputError(OSError):
    """The output cannot be written (for example a full disk) and is incomplete."""


class _StatusLine:
    """The line on stderr that shows progress; any other output erases it first."""

    shown = False


_STATUS = _StatusLine()
_ERASE = "\r\x1b[K"


def stdout_is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return _is_terminal(sys.stdout)


def stderr_is_terminal() -> bool:
    """Return whether stderr is a terminal."""
    return _is_terminal(sys.stderr)


def stdin_is_terminal() -> bool:
    """Return whether stdin is a terminal, so that a question can be answered."""
    return _is_terminal(sys.stdin)


def terminal_columns() -> int:
    """Return the width of the terminal; ``COLUMNS`` overrides it, 80 if unknown."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    return _columns(sys.stdout)


def _columns(stream: "TextIO | None") -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80 if stream is not None else 80
    except (OSError, ValueError, AttributeError):
        return 80


def _is_terminal(stream: "TextIO | None") -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # the stream is closed
        return False


def write_out(text: str, *, flush: bool = False) -> None:
    """Write ``text`` to stdout as UTF-8 in every locale: data must not depend on it."""
    if _STATUS.shown and stdout_is_terminal():
        erase_status()
    _write(sys.stdout, text, flush=flush)


def write_err(text: str) -> None:
    """Write ``text`` to stderr and flush it."""
    flush_out()  # keep the order of the lines when both streams go to one terminal
    if _STATUS.shown:
        text = _ERASE + text
        _STATUS.shown = False
    _write(sys.stderr, text, flush=True)


def write_status(text: str) -> None:
    """Replace the status line of the terminal on stderr; a longer text is cut to one row."""
    write_err(_ERASE + text[: _columns(sys.stderr) - 1])
    _STATUS.shown = True


def erase_status() -> None:
    """Erase the status line, if one is shown."""
    if _STATUS.shown:
        write_err("")


def end_interrupted_line() -> None:
    """Write a line break after the ``^C`` that a terminal shows for an interrupt."""
    if stderr_is_terminal():
        write_err("\n")


def write_gathered(pieces: "Iterator[str]", *, live: bool) -> int:
    """Write pieces in large chunks, or each immediately when ``live``; return their number."""
    count = size = 0
    held: list[str] = []
    try:
        for piece in pieces:
            count += 1
            if live:
                write_out(piece, flush=True)
                continue
            held.append(piece)
            size += len(piece)
            if size >= GATHER_BYTES:
                write_out("".join(held))
                held.clear()
                size = 0
    finally:
        if held:
            write_out("".join(held))
    flush_out()
    return count


def flush_out() -> None:
    """Flush the buffer of stdout."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _cut(error) from error


def _write(stream: "TextIO | None", text: str, *, flush: bool) -> None:
    if stream is None:  # started with the descriptor closed: there is no reader
        return
    buffer = getattr(stream, "buffer", None)
    try:
        if buffer is None:
            stream.write(text)
        else:
            stream.flush()
            # unpaired surrogates come from undecodable bytes in foreign data; keep them visible
            buffer.write(text.encode("utf-8", "backslashreplace"))
        if flush:
            stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _cut(error) from error


def _cut(error: OSError) -> OutputError:
    """Return the error to raise for a failed write; buffered output is discarded."""
    silence_closed_pipe()
    return OutputError(error.errno, error.strerror, "output")


def read_answer(question: str) -> str:
    """Write ``question`` to stderr and read one line from stdin; "" at end of file."""
    write_err(question)
    answer = sys.stdin.readline()
    if not answer:
        write_err("\n")  # Ctrl-D leaves the cursor on the line of the question
    return answer.strip()


def read_input() -> bytes:
    """Read all of stdin as bytes."""
    return sys.stdin.buffer.read()


def input_stream() -> "BufferedIOBase":
    """Return stdin as a stream of bytes; an empty one if it is closed."""
    buffer = getattr(sys.stdin, "buffer", None)
    if buffer is None:
        return open(os.devnull, "rb")
    return buffer  # type: ignore[no-any-return]


def silence_closed_pipe() -> None:
    """Redirect stdout to /dev/null, so that the interpreter's last flush cannot fail.

    Called after a write has failed, mostly with ``BrokenPipeError``: the reader (``head``, a pager)
    has closed the pipe, which is not an error.
    """
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
    except (OSError, ValueError, AttributeError):
        pass
