"""Programs whose standard output is a closed pipe or a full disk."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


def run_without_output(command: Sequence[str], folder: Path) -> list[tuple[int, str]]:
    """Run a command in ``folder``: (status, stderr) with a closed pipe, and with a full disk."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed, open("/dev/full", "wb") as full:
        done = [
            subprocess.run(
                command, stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=folder, check=False
            )
            for stdout in (closed, full)
        ]
    return [(one.returncode, one.stderr) for one in done]
