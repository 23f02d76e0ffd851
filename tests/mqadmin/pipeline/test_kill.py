"""Killed amid a run, by force: what is left, what is said, what the next run makes of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

KILLED = """
import os
import signal
import sys

from mqadmin.app import main
from mqadmin.pipeline import java
from mqadmin.pipeline.output import Output

whom = sys.argv[1]
machines = []
connect, write = java.Gateway.connect, Output.write

def connected(self):
    machines.append(self.process.pid)
    connect(self)

def written(self, *given):
    if list(self.waiting.glob("*")):  # one table stands
        if whom == "machine":
            os.kill(machines[0], signal.SIGKILL)
        else:
            print(machines[0], flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    write(self, *given)

java.Gateway.connect, Output.write = connected, written
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_kill_leaves_nothing_under_a_final_name_and_the_next_run_goes_on(
    mqadmin: Run, shared_session: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    root, out = str(store_roots["normal-stop-533"]), tmp_path / "out"
    words = ["pipeline", "run", "traffic", "--store", root, "--out", str(out)]

    def killed(whom: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, whom, *words, "--master", "local[2]"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=300,
            check=False,
        )
        (waiting,) = out.iterdir()  # no table and no manifest beside it
        assert waiting.name.startswith(".mqadmin-")
        return done

    done = killed("machine")
    assert done.returncode == 3, done.stderr
    error, hint = done.stderr.splitlines()
    assert error == ("error: job traffic: the Java virtual machine of Spark was killed by signal 9")
    assert "--memory" in hint
    done = killed("program")
    assert done.returncode == -signal.SIGKILL
    machine = Path(f"/proc/{int(done.stdout)}")
    gone = time.monotonic() + 60
    while machine.exists():  # its input closed: it ends by itself
        assert time.monotonic() < gone
        time.sleep(0.05)
    assert mqadmin(*words).status == 0
    assert {path.name for path in out.iterdir()} >= {"traffic", "skew", "manifest.json"}
    assert not list(out.glob(".mqadmin-*"))
