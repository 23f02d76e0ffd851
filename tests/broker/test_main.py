"""The console scripts of the daemons, before the daemon handles signals."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 60

PROGRAM = """
import signal, sys
if {ignored}:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path.insert(0, {folder!r})
from broker.__main__ import {script}
import broker.{package}
broker.{package}.__path__.insert(0, {folder!r})
sys.exit({script}())
"""

# Replaces an import of the start, during which the signal comes.
STARTUP = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)

def main():
    return 7
"""


@pytest.mark.parametrize(("script", "package"), [("mqbroker", "server"), ("mqnamesrv", "namesrv")])
@pytest.mark.parametrize("ignored", [False, True])
def test_an_interrupt_while_a_daemon_is_imported_has_no_traceback(
    script: str, package: str, ignored: bool, tmp_path: Path
) -> None:
    (tmp_path / "startup.py").write_text(STARTUP)
    folder = str(tmp_path)
    program = PROGRAM.format(script=script, package=package, ignored=ignored, folder=folder)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert done.stderr == b""
    assert done.returncode == (7 if ignored else -signal.SIGINT)
