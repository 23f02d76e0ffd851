"""The progress line of bulk commands on a pseudo terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Topics = Callable[..., str]
Child = Callable[..., subprocess.Popen[bytes]]

COLUMNS = 70


class Terminal:
    """A pseudo terminal of ``COLUMNS``: the written bytes, and the rows that it shows."""

    def __init__(self) -> None:
        self._own, self.end = pty.openpty()
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        self.written = b""

    def read_until(self, wanted: Callable[[], bool], limit_s: float = 60) -> None:
        deadline = time.monotonic() + limit_s
        while not wanted():
            assert time.monotonic() < deadline, self.written
            self._read(0.1)

    def _read(self, wait_s: float) -> bool:
        ready = select.select([self._own], [], [], wait_s)[0]
        if ready:
            self.written += os.read(self._own, 65_536)
        return bool(ready)

    def rows(self) -> list[str]:
        """The rows of the screen: carriage returns and erased lines are applied."""
        while self._read(0):
            pass
        rows = [""]
        text = self.written.decode().replace("\r\n", "\n")
        for piece in text.split("\n"):
            rows[-1] = piece.rpartition("\r\x1b[K")[2]
            rows.append("")
        return rows[:-1]

    def close(self) -> None:
        os.close(self._own)
        os.close(self.end)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.fixture
def bodies(tmp_path: Path) -> Path:
    path = tmp_path / "bodies.txt"
    path.write_text("".join(f"{number:050}\n" for number in range(1_000)))
    return path


def ends(process: subprocess.Popen[bytes]) -> int:
    return process.wait(60)


def test_produce_draws_rate_and_time_left_on_stderr_and_erases_them(
    child: Child, new_topic: Topics, terminal: Terminal, bodies: Path
) -> None:
    words = ("--input-format", "lines", "--rate", "300/s", "--in-flight", "10")
    process = child(
        *("msg", "produce", new_topic("BarProduce"), "--from", str(bodies), *words),
        stderr=terminal.end,
    )
    terminal.read_until(lambda: b" s left" in terminal.written)
    line = terminal.written.decode().rpartition("\r\x1b[K")[2]
    assert "sent, " in line
    assert "/s [#" in line
    assert process.stdout is not None
    out = process.stdout.read()
    assert ends(process) == 0
    assert b"\x1b" not in out
    assert b"1000" in out
    assert terminal.rows() == [""]
    parts = [one for one in terminal.written.decode().split("\r\x1b[K") if one]
    assert all(len(one) < COLUMNS for one in parts)


def test_an_error_is_printed_on_its_own_row_above_the_progress(
    child: Child, new_topic: Topics, terminal: Terminal
) -> None:
    process = child("msg", "produce", new_topic("BarError"), stderr=terminal.end)
    assert process.stdin is not None
    lines = 0

    def is_shown() -> bool:
        nonlocal lines
        if b"sent, " in terminal.written:
            return True
        lines += 1
        process.stdin.write(b'{"body":"x"}\n')
        process.stdin.flush()
        return False

    terminal.read_until(is_shown)
    process.stdin.write(b"bad\n")
    process.stdin.close()
    assert ends(process) == 5
    rows = terminal.rows()
    assert [row for row in rows if row] == [
        f"error: stdin line {lines + 1}: the line is not JSON: bad",
        "hint: --input-format lines sends each line as a body",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_erases_the_progress_before_its_note(
    child: Child, new_topic: Topics, terminal: Terminal, bodies: Path, number: signal.Signals
) -> None:
    topic = new_topic(f"BarSignal{number.value}")
    words = ("--input-format", "lines", "--rate", "50/s")
    process = child("msg", "produce", topic, "--from", str(bodies), *words, stderr=terminal.end)
    terminal.read_until(lambda: b" s left" in terminal.written)
    process.send_signal(number)
    assert ends(process) == 128 + number
    (note,) = [row for row in terminal.rows() if row]
    assert "resume with --from" in note


def test_consume_draws_its_progress_while_the_messages_go_to_a_file(
    child: Child, new_topic: Topics, terminal: Terminal
) -> None:
    topic = new_topic("BarConsume", messages=20)
    for words in ((), ("-g", "bar")):
        terminal.written = b""
        process = child(
            *("msg", "consume", topic, "--start", "earliest", "--for", "3s", *words),
            *("-o", "ndjson"),
            stderr=terminal.end,
        )
        assert process.stdout is not None
        out = process.stdout.read()
        assert ends(process) == 0
        assert len(out.splitlines()) == 20
        assert terminal.rows() == [""]
        assert b"20 messages, " in terminal.written
        assert b" s left" in terminal.written


def test_bench_draws_its_progress_and_erases_it(
    child: Child, new_topic: Topics, terminal: Terminal
) -> None:
    process = child(
        *("bench", "produce", new_topic("BarBench"), "--duration", "2s", "--rate", "200/s"),
        *("--warm-up", "0s", "-o", "json"),
        stderr=terminal.end,
    )
    assert ends(process) == 0
    terminal.read_until(lambda: b" s left" in terminal.written)
    assert b" messages, " in terminal.written
    assert terminal.rows() == [""]


def test_messages_on_the_terminal_are_not_mixed_with_progress(
    child: Child, new_topic: Topics, terminal: Terminal
) -> None:
    process = child(
        *("msg", "consume", new_topic("BarBoth", messages=3), "--start", "earliest"),
        *("--for", "2s", "-o", "ndjson"),
        stderr=terminal.end,
        stdout=terminal.end,
    )
    assert ends(process) == 0
    assert len([row for row in terminal.rows() if row]) == 3
    assert b"\x1b" not in terminal.written


def test_without_a_terminal_nothing_is_drawn(child: Child, new_topic: Topics, bodies: Path) -> None:
    words = ("--input-format", "lines", "--rate", "500/s")
    process = child("msg", "produce", new_topic("BarNone"), "--from", str(bodies), *words)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert err == b""
