import errno
import io
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mqadmin.output import stdio


def test_output_is_utf8_in_every_locale() -> None:
    code = "from mqadmin.output.stdio import write_out; write_out('\\xfc\\u2192', flush=True)"
    environ = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=environ, check=True
    )
    assert done.stdout.decode() == "ü→"


def test_a_closed_stdout_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    stdio.write_out("x", flush=True)
    stdio.flush_out()
    assert not stdio.stdout_is_terminal()


def test_a_closed_pipe_is_silent_at_the_end_of_the_process() -> None:
    code = (
        "from mqadmin.output.stdio import *\n"
        "try:\n"
        "    for _ in range(100000): write_out('x' * 100 + '\\n')\n"
        "    flush_out()\n"
        "except BrokenPipeError:\n"
        "    silence_closed_pipe()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == 0


def test_a_status_line_is_one_row_and_erased_by_the_next_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdio.write_status("x" * 200)
    assert capsys.readouterr().err == "\r\x1b[K" + "x" * 79
    stdio.write_err("error\n")
    stdio.write_err("hint\n")
    assert capsys.readouterr().err == "\r\x1b[Kerror\nhint\n"
    stdio.erase_status()
    assert capsys.readouterr().err == ""
    stdio.write_status("y")
    stdio.write_out("row\n")  # stdout is a file: the line stays
    stdio.erase_status()
    assert capsys.readouterr().err == "\r\x1b[Ky\r\x1b[K"
    stdio.write_status("z")
    monkeypatch.setattr(stdio, "stdout_is_terminal", lambda: True)
    stdio.write_out("row\n")
    assert capsys.readouterr().err == "\r\x1b[Kz\r\x1b[K"


class Stream(io.StringIO):
    """A text stream whose writes fail with an error, or that counts its flushes."""

    def __init__(self, error: OSError | None = None) -> None:
        super().__init__()
        self.error = error
        self.flushes = 0

    def write(self, text: str) -> int:
        if self.error is not None:
            raise self.error
        return super().write(text)

    def flush(self) -> None:
        self.flushes += 1


def test_a_full_disk_is_an_output_error_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "silence_closed_pipe", lambda: None)
    monkeypatch.setattr(sys, "stdout", Stream(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(stdio.OutputError) as caught:
        stdio.write_out("x")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "output")


def test_a_closed_pipe_is_not_an_output_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(BrokenPipeError(errno.EPIPE, "Broken pipe")))
    with pytest.raises(BrokenPipeError):
        stdio.write_out("x")


def test_unpaired_surrogates_stay_visible(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    stdio.write_out("a\udcffb\n", flush=True)
    assert capsysbinary.readouterr().out == b"a\\udcffb\n"


@pytest.mark.parametrize(
    ("columns", "width"), [("120", 120), ("0", 80), ("-5", 80), ("wide", 80), ("", 80), ("²", 80)]
)
def test_the_width_is_that_of_the_variable_or_80(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setattr(sys, "stdout", Stream())
    monkeypatch.setenv("COLUMNS", columns)
    assert stdio.terminal_columns() == width


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_a_closed_or_missing_stream_is_not_a_terminal(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    closed = io.StringIO()
    closed.close()
    is_terminal = getattr(stdio, f"{name}_is_terminal")
    for stream in (closed, None, io.StringIO()):
        monkeypatch.setattr(sys, name, stream)
        assert is_terminal() is False


def test_pieces_are_gathered_into_large_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(stdio, "write_out", lambda text, *, flush=False: written.append(text))
    monkeypatch.setattr(stdio, "GATHER_BYTES", 10)
    assert stdio.write_gathered(iter(["abcd"] * 7), live=False) == 7
    assert written == ["abcdabcdabcd", "abcdabcdabcd", "abcd"]


def test_live_pieces_are_flushed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        stdio, "write_out", lambda text, *, flush=False: written.append((text, flush))
    )
    assert stdio.write_gathered(iter(["a", "b"]), live=True) == 2
    assert written == [("a", True), ("b", True)]


def test_pieces_before_an_error_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(stdio, "write_out", lambda text, *, flush=False: written.append(text))

    def pieces() -> Iterator[str]:
        yield "row 1\n"
        raise ValueError("the broker failed")

    with pytest.raises(ValueError, match="the broker failed"):
        stdio.write_gathered(pieces(), live=False)
    assert written == ["row 1\n"]


def test_no_pieces_write_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    monkeypatch.setattr(sys, "stdout", stream)
    assert stdio.write_gathered(iter(()), live=False) == 0
    assert stream.getvalue() == ""


def test_an_answer_is_one_line_without_blanks_and_empty_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("  yes \nmore"))
    assert stdio.read_answer("really? ") == "yes"
    assert stdio.read_answer("") == "more"
    assert stdio.read_answer("") == ""
    assert capsys.readouterr().err == "really? \n"


def test_a_closed_input_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with stdio.input_stream() as stream:
        assert stream.read() == b""


def test_input_is_read_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\xff\n")))
    assert stdio.read_input() == b"a\xff\n"


def test_only_a_terminal_needs_the_line_break_after_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdio.end_interrupted_line()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(stdio, "stderr_is_terminal", lambda: True)
    stdio.end_interrupted_line()
    assert capsys.readouterr().err == "\n"
