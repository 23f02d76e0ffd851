"""A run whose process or JVM is killed leaves no partial results, and can be repeated."""

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
from mqadmin.pipeline.spark import java
from mqadmin.pipeline.sinks.output import Output

victim = sys.argv[1]
jvms = []
connect, write = java.Gateway.connect, Output.write

def connected(self):
    jvms.append(self.process.pid)
    connect(self)

def written(self, *given):
    if list(self.staging.glob("*")):  # one table is complete
        if victim == "jvm":
            os.kill(jvms[0], signal.SIGKILL)
        elif victim == "terminated":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            print(jvms[0], flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    write(self, *given)

java.Gateway.connect, Output.write = connected, written
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_kill_leaves_no_final_files_and_the_next_run_resumes(
    mqadmin: Run, shared_session: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    root, out = str(store_roots["normal-stop-533"]), tmp_path / "out"
    words = ["pipeline", "run", "traffic", "--store", root, "--out", str(out)]

    def killed(victim: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, victim, *words, "--master", "local[2]"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=300,
            check=False,
        )
        (staging,) = out.iterdir()  # no table and no manifest
        assert staging.name.startswith(".mqadmin-")
        return done

    done = killed("jvm")
    assert done.returncode == 3, done.stderr
    assert done.stderr.count("\n") == 2, done.stderr
    error, hint = done.stderr.splitlines()
    assert error == ("error: job traffic: the Java virtual machine of Spark was killed by signal 9")
    assert "--memory" in hint
    done = killed("program")
    assert done.returncode == -signal.SIGKILL
    jvm = Path(f"/proc/{int(done.stdout)}")
    deadline = time.monotonic() + 60
    while jvm.exists():  # it ends because its standard input is closed
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert mqadmin(*words).status == 0
    assert {path.name for path in out.iterdir()} >= {"traffic", "skew", "manifest.json"}
    assert not list(out.glob(".mqadmin-*"))


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_sigterm_ends_a_run_as_ctrl_c_does(store_roots: dict[str, Path], tmp_path: Path) -> None:
    root, out, temporary = store_roots["normal-stop-533"], tmp_path / "out", tmp_path / "tmp"
    temporary.mkdir()
    words = ["pipeline", "run", "traffic", "--store", str(root), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, "terminated", *words, "--master", "local[2]"],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(temporary),
        },
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    assert not list(temporary.glob("mqadmin-spark-*"))
