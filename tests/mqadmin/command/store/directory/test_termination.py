"""SIGTERM during a command."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mqadmin.command.store.directory.termination import interrupted_by_sigterm

# The audit hook sends SIGTERM when the copy opens the file of the log.
COPY = """
import os, signal, sys
from mqadmin.app import main

def hook(event, args):
    if event == "open" and str(args[0]).startswith(os.path.join(sys.argv[2], "commitlog")):
        os.kill(os.getpid(), signal.SIGTERM)

sys.addaudithook(hook)
sys.exit(main(["store", "copy", sys.argv[1], "--out", sys.argv[2]]))
"""


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_sigterm_raises_as_ctrl_c_does_and_the_default_returns() -> None:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with pytest.raises(KeyboardInterrupt), interrupted_by_sigterm():
        terminate()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_caller_that_ignores_it_is_not_overruled() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with interrupted_by_sigterm():
            terminate()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_other_threads_run_commands_without_it() -> None:
    seen: list[object] = []

    def run() -> None:
        with interrupted_by_sigterm():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


def test_a_copy_that_is_terminated_leaves_nothing(golden_store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [str(golden_store("normal-stop-533") / "store"), str(out)]
    done = subprocess.run(
        [sys.executable, "-c", COPY, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, out.exists()) == (130, False), done.stderr
