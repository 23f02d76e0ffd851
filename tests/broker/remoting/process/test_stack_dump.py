"""SIGQUIT writes the stacks of a daemon, which runs on."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from broker.remoting.process.stack_dump import stack_dump_on_sigquit, stacks

#: A daemon with a waiting thread; its event loop hangs until a byte arrives on stdin.
HUNG = """
import asyncio, logging, os, sys, threading
from broker.remoting.process import daemon

async def serve(stop):
    running = threading.Event()
    def wait_for_ever():
        running.set()
        threading.Event().wait()
    threading.Thread(target=wait_for_ever, name="flush-thread", daemon=True).start()
    await asyncio.get_running_loop().run_in_executor(None, running.wait)
    daemon.ready("ready")
    os.read(0, 1)  # the loop hangs
    sys.stdout.write("continues\\n")
    sys.stdout.flush()
    await stop.wait()
    return 0

daemon.configure_logging(daemon.LogOptions(name="x"))
sys.exit(daemon.run(serve))
"""

#: Threads call and return all the time, also while the main thread sleeps.
BUSY = """
import sys, threading, time
from broker.remoting.process.stack_dump import stack_dump_on_sigquit

def call(depth):
    return depth and call(depth - 1)

def work():
    while True:
        call(50)
        time.sleep(0)

with stack_dump_on_sigquit():
    for _ in range(2):
        threading.Thread(target=work, daemon=True).start()
    print("ready", flush=True)
    time.sleep(600)
"""


def daemon_of(program: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("event_loop_name")
def test_a_daemon_with_a_hung_event_loop_writes_its_stacks_and_continues() -> None:
    process = daemon_of(HUNG)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        tasks = Path(f"/proc/{process.pid}/task")
        names = {(task / "comm").read_text().strip() for task in tasks.iterdir()}
        assert any(name.startswith("executor") for name in names), names
        process.send_signal(signal.SIGQUIT)
        lines = [process.stderr.readline()]
        while " in serve" not in lines[-1]:  # the main thread is last
            lines.append(process.stderr.readline())
            assert lines[-1], "stderr ended without the stacks"
        waiting = next(at for at, line in enumerate(lines) if " flush-thread (" in line)
        assert any("in wait_for_ever" in line for line in lines[waiting:])
        process.stdin.write("x")
        process.stdin.flush()
        assert process.stdout.readline() == "continues\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_threads_that_run_at_the_signal_do_no_harm() -> None:
    process = daemon_of(BUSY)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        for _ in range(300):
            process.send_signal(signal.SIGQUIT)
            while " MainThread (" not in (line := process.stderr.readline()):
                assert line, process.wait()
        process.kill()


def test_an_unread_stderr_does_not_hold_up_the_daemon() -> None:
    process = daemon_of(HUNG)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    with process:
        assert process.stdout.readline() == "ready\n"
        fd = os.open(f"/proc/{process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(fd, bytes(4096))
        os.close(fd)
        process.send_signal(signal.SIGQUIT)
        process.stdin.write("x")
        process.stdin.flush()
        assert process.stdout.readline() == "continues\n"
        process.kill()


def blocked() -> set[int]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_without_stderr_or_outside_the_main_thread_nothing_waits_for_the_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = blocked()
    found = []

    def run() -> None:
        with stack_dump_on_sigquit():
            found.append(blocked())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    monkeypatch.setattr(sys, "__stderr__", None)
    run()
    assert found == [before, before]


def test_the_former_mask_is_restored() -> None:
    before, threads = blocked(), threading.active_count()
    with stack_dump_on_sigquit():
        assert blocked() == before | {signal.SIGQUIT}
        assert threading.active_count() == threads + 1
    assert blocked() == before
    assert threading.active_count() == threads


def test_stacks_have_the_names_of_the_threads() -> None:
    ended = threading.Event()
    other = threading.Thread(target=ended.wait, name="other-thread")
    other.start()
    try:
        text = stacks()
    finally:
        ended.set()
        other.join()
    assert " other-thread (most recent call last):\n" in text
    assert "MainThread" not in text  # which called stacks
