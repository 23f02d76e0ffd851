import os
import subprocess
import sys

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
