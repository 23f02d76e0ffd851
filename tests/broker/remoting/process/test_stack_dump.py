"""SIGQUIT writes the stacks of a daemon, which runs on."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from broker.remoting.process.stack_dump import stack_dump_on_sigquit

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


@pytest.mark.usefixtures("event_loop_name")
def test_a_daemon_with_a_hung_event_loop_writes_its_stacks_and_continues() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HUNG],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        tasks = Path(f"/proc/{process.pid}/task")
        names = {(task / "comm").read_text().strip() for task in tasks.iterdir()}
        assert any(name.startswith("executor") for name in names), names
        process.send_signal(signal.SIGQUIT)
        lines = []
        while not any("wait_for_ever" in line for line in lines) or " in serve" not in lines[-1]:
            lines.append(process.stderr.readline())
            assert lines[-1], "stderr ended without the stacks"
        process.stdin.write("x")
        process.stdin.flush()
        assert process.stdout.readline() == "continues\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert " flush-thread" in process.stderr.read()


def test_without_stderr_or_outside_the_main_thread_no_handler_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = signal.getsignal(signal.SIGQUIT)
    found = []

    def run() -> None:
        with stack_dump_on_sigquit():
            found.append(signal.getsignal(signal.SIGQUIT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    monkeypatch.setattr(sys, "__stderr__", None)
    run()
    assert found == [before, before]


def test_the_former_handler_is_restored() -> None:
    before = signal.getsignal(signal.SIGQUIT)
    with stack_dump_on_sigquit():
        assert signal.getsignal(signal.SIGQUIT) is not before
    assert signal.getsignal(signal.SIGQUIT) is before
