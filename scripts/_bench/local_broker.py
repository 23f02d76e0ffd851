"""A broker process over a new store, ours or Java's, with the same settings."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from java import java_jars

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.ports import free_port  # noqa: E402

START_S = 120
TICKS = os.sysconf("SC_CLK_TCK")
OPENS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)


def broker_names() -> list[str]:
    """The brokers that can run here, Java's first."""
    return [name for name in ("java", "ours") if name == "ours" or shutil.which("java")]


class LocalBroker:
    """The broker ``name`` ("ours" or "java") in the folder ``work``; ready when constructed.

    ``settings`` are added to the common ones or replace them. Exits if it does not start.
    """

    def __init__(
        self,
        name: str,
        work: Path,
        settings: Mapping[str, object] | None = None,
        *,
        port: int | None = None,
        java_heap: str = "1g",
    ) -> None:
        self.name = name
        self.port = port or free_port()
        self._java_heap = java_heap
        work.mkdir(parents=True, exist_ok=True)
        pairs = {
            "brokerName": "b",
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": self.port,
            "haListenPort": self.port + 1,
            "storePathRootDir": work / "store",
            "storePathCommitLog": work / "store" / "commitlog",
            "flushDiskType": "ASYNC_FLUSH",
            "waitTimeMillsInSendQueue": 20_000,
            "rocksdbCQDoubleWriteEnable": "false",
            **(settings or {}),
        }
        conf = work / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
        self._out = work / "out"
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                self._command(work, conf),
                cwd=work,
                env={**os.environ, "ROCKETMQ_HOME": str(work)},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_S
        while "boot success" not in self._out.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                sys.exit(f"error: {name} does not start: {self._out.read_text()[-2000:]}")
            time.sleep(0.05)

    def _command(self, work: Path, conf: Path) -> list[str]:
        if self.name == "ours":
            return [str(Path(sys.executable).with_name("mqbroker")), "-c", str(conf)]
        return [
            *("java", f"-Xms{self._java_heap}", f"-Xmx{self._java_heap}", "-XX:+UseG1GC"),
            *(*OPENS, f"-Duser.home={work}"),
            *(f"-Drocketmq.home.dir={work}", "-Dtls.server.mode=disabled", "-cp"),
            *(f"{java_jars()}/*", "org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf)),
        ]

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    def cpu(self) -> float:
        """CPU seconds of the process so far."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS

    def memory_mib(self) -> dict[str, float]:
        """Memory of the process without pages of mapped files."""
        words = Path(f"/proc/{self.process.pid}/status").read_text().split()
        anonymous = int(words[words.index("RssAnon:") + 1]) / 1024
        return {"anonymous MiB": anonymous}

    def stop(self) -> None:
        """Stop the process, after a minute by a kill."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> "LocalBroker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
