"""A broker process to be killed, stopped and started again over one store directory.

Unlike :class:`tests.support.broker_process.BrokerProcess` it can be killed while it starts, takes
limits of the kernel, and listens on a free port that it reports itself.
"""

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support import payer

READY_SECONDS = 60
GONE_SECONDS = 30

# Small files, so that a run of seconds rolls logs, queues and index files many times.
SETTINGS = {
    "brokerName": "under-fire",
    "mappedFileSizeCommitLog": "2097152",
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "2000",
    "maxIndexNum": "6000",
    "flushConsumeQueueThoroughInterval": "2000",
    "cleanFileForciblyEnable": "false",
    "diskMaxUsedSpaceRatio": "95",
    "diskSpaceWarningLevelRatio": "90",
    "fileReservedTime": "9999",
    "messageDelayLevel": "1s 2s",
    "enableMultiDispatch": "true",
    **payer.SETTINGS,
}


class Child:
    """One mqbroker process over one store directory, started as often as it is killed."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.config = folder / "broker.conf"
        self.address = ""
        self.ready_line = ""
        self.settings = settings
        self.limits: Callable[[], None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.configure(**settings)

    def configure(self, **settings: str) -> None:
        lines = {**SETTINGS, "storePathRootDir": str(self.store), **settings}
        self.config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def spawn(self) -> None:
        """Start the process; it serves later, if it lives that long."""
        with (self.folder / "broker.err").open("ab") as errors:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "broker.server.startup"),
                    *("-c", str(self.config), "--listen", "127.0.0.1:0"),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                preexec_fn=self.limits,
                cwd=self.folder,
            )

    def await_ready(self) -> None:
        """Wait for the ready line; a process that ends instead fails the test."""
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            assert selector.select(READY_SECONDS), "the broker does not get ready"
        self.ready_line = self._process.stdout.readline().decode()
        if "boot success" not in self.ready_line:
            raise AssertionError(
                f"status {self._process.wait(GONE_SECONDS)}: "
                + (self.folder / "broker.err").read_text()[-3000:]
            )
        self.address = self.ready_line.split(", ", 1)[1].split("]", 1)[0]

    def start(self) -> "Child":
        self.spawn()
        self.await_ready()
        return self

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = GONE_SECONDS) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout:
            return self._process.wait(seconds)

    def lives_for(self, seconds: float) -> bool:
        """Whether the process is still there after so long."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            self.wait()

    def forget_kernel(self) -> None:
        """Make the store look as if another kernel had written it: files prove themselves."""
        abort = self.store / "abort"
        if abort.exists():
            abort.write_text("1\n")
