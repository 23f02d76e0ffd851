"""A broker in a child process, and the effect of an attack on memory and event loop.

::

    with BrokerProcess(tmp_path, {"maxHeldPulls": "10"}) as broker, Pinger(broker.address) as ping:
        before = broker.rss_bytes()
        with broker.connect() as peer:                    # a raw socket: send any bytes
            peer.sendall(frame)
        broker.call(request(28))                          # one request on a fresh connection
        assert broker.is_running
        grown = broker.peak_rss_bytes() - before
        ping.longest_gap_ms                               # longest wait for an answer so far

Memory is exact enough to decide a test; a gap depends on the machine and decides only where the
limit is far from the values of a healthy broker.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from broker.common.address import parse_address
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from broker.remoting.protocol.serialize import MAX_RESPONSE_HEADER_BYTES
from tests.support.ports import free_port

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
READ_BYTES = 256 * 1024
PING_PAUSE_S = 0.002
PING_TIMEOUT_S = 300.0

SMALL_STORE = {
    "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 10_000),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    # A machine that runs many tests at once may keep a send waiting for more than 200 ms.
    "waitTimeMillsInSendQueue": "60000",
}


class BrokerProcess:
    """``mqbroker`` in a child process on loopback; stderr goes to ``folder/broker.log``.

    ``properties`` are broker.conf keys on top of a small store. ``standalone`` adds a name server
    at ``namesrv_address``; without it ``options`` may name one (``["-n", address]``).
    ``environment`` is added to the child's (``{"ROCKETMQ_LOOP": "asyncio"}``). ``open_files`` is
    its hard limit of descriptors, 0: that of this process.
    """

    def __init__(
        self,
        folder: Path,
        properties: Mapping[str, str] | None = None,
        *,
        standalone: bool = True,
        options: list[str] | None = None,
        environment: Mapping[str, str] | None = None,
        open_files: int = 0,
    ) -> None:
        self.store = folder / "store"
        self.log_path = folder / "broker.log"
        self.config_path = folder / "broker.conf"
        self.port = free_port()
        self.namesrv_port = free_port() if standalone else 0
        self._options = options or []
        self._open_files = open_files
        self._environment = {**os.environ, **(environment or {})}
        values = {**SMALL_STORE, **(properties or {})}
        folder.mkdir(parents=True, exist_ok=True)
        self.config_path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """Where the broker listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def namesrv_address(self) -> str:
        """Where the name server of a standalone broker listens."""
        return f"127.0.0.1:{self.namesrv_port}"

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """False when the child has ended."""
        return self._child.poll() is None

    @property
    def log_text(self) -> str:
        """The log of the broker so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def start(self) -> Self:
        """Start the child and wait for its ready line."""
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(
                self._command() + self._options,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
            )
        assert self._process.stdout is not None
        watchdog = threading.Timer(START_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if "boot success" not in line:
            self.kill()
            raise AssertionError(f"the daemon did not start: {line!r}\n{self.log_text}")
        return self

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "broker", "-c", str(self.config_path)]
        command += ["--store", str(self.store), "--listen", self.address]
        if self.namesrv_port:
            command += ["--standalone", "--namesrv-listen", self.namesrv_address]
        if self._open_files:
            return ["/bin/sh", "-c", f'ulimit -n {self._open_files}; exec "$@"', "sh", *command]
        return command

    def stop(self) -> int:
        """Stop in order (SIGTERM); returns the exit status. A child that hangs is killed."""
        child = self._child
        child.terminate()
        try:
            return self._ended(child.wait(STOP_TIMEOUT_S))
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """End the child at once (SIGKILL)."""
        self._child.kill()
        self._ended(self._child.wait())

    def _ended(self, status: int) -> int:
        assert self._child.stdout is not None
        self._child.stdout.close()
        return status

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        if self._process is not None and self.is_running:
            self.kill()

    @property
    def _child(self) -> "subprocess.Popen[str]":
        assert self._process is not None, "not started"
        return self._process

    # ---- requests

    def connect(self, timeout_s: float = 60.0) -> "RawPeer":
        """A raw connection to the broker."""
        return RawPeer(self.address, timeout_s)

    def call(self, command: RemotingCommand, timeout_ms: int = 60_000) -> RemotingCommand:
        """Send one request on a new connection and return the response with any code."""
        with BlockingClient(timeout_ms=timeout_ms) as client:
            return client.call(self.address, command)

    # ---- memory

    def rss_bytes(self) -> int:
        """Resident memory of the child now; pages of mapped files are not counted."""
        return self._status_bytes("RssAnon")

    def peak_rss_bytes(self) -> int:
        """Highest resident memory since the start or :meth:`reset_peak`, mapped files included."""
        return self._status_bytes("VmHWM")

    def reset_peak(self) -> int:
        """Begin a new peak; returns the resident memory it begins at, mapped files included."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        return self._status_bytes("VmRSS")

    def _status_bytes(self, field: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return int(value.split()[0]) * 1024
        raise AssertionError(f"/proc/{self.pid}/status has no {field}")


class NameServerProcess(BrokerProcess):
    """``mqnamesrv`` in a child process on loopback; ``properties`` are namesrv.conf keys."""

    def __init__(self, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, standalone=False)
        values = {"kvConfigPath": str(folder / "kvConfig.json"), **(properties or {})}
        self.config_path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "broker.namesrv.startup", "-c", str(self.config_path)]
        return [*command, "--listen", self.address]


class RawPeer:
    """A socket to a broker: bytes out, decoded answers in. A context manager."""

    def __init__(self, address: str, timeout_s: float = 60.0) -> None:
        self.socket = socket.create_connection(parse_address(address), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = FrameDecoder(header_limit=MAX_RESPONSE_HEADER_BYTES)
        self._answers: list[RemotingCommand] = []

    def sendall(self, data: bytes) -> None:
        """Send raw bytes."""
        self.socket.sendall(data)

    def send(self, command: RemotingCommand) -> None:
        """Send one request without waiting for its answer."""
        self.socket.sendall(encode_frame(command))

    def read(self) -> RemotingCommand | None:
        """The next answer (or request of the broker); None when the broker closed."""
        while not self._answers:
            try:
                data = self.socket.recv(READ_BYTES)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._answers += self._decoder.feed(data)
        return self._answers.pop(0)

    def call(self, command: RemotingCommand) -> RemotingCommand | None:
        """Send one request and wait for its answer; None when the broker closed instead."""
        self.send(command)
        while (answer := self.read()) is not None:
            if answer.flag & 1 and answer.opaque == command.opaque:
                return answer
        return None

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Pinger:
    """A well-behaved client in a thread: one small request after the other on one connection.

    ``longest_gap_ms`` is the longest time between sending a request and reading its answer,
    ``answers`` their number. A wait that has not ended yet counts as long as it has lasted.
    """

    def __init__(self, address: str) -> None:
        self.answers = 0
        self.failure: Exception | None = None
        self._longest_s = 0.0
        self._asked_at: float | None = None
        self._peer = RawPeer(address, PING_TIMEOUT_S)
        self._stopping = threading.Event()
        self._answered = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="pinger", daemon=True)

    @property
    def longest_gap_ms(self) -> float:
        """The longest wait for an answer so far."""
        asked_at = self._asked_at
        pending_s = time.monotonic() - asked_at if asked_at is not None else 0.0
        return max(self._longest_s, pending_s) * 1000

    def reset(self) -> None:
        """Wait for one answer that was asked for from now on, then forget the gaps before."""
        self.wait_for_answers(2)
        self._longest_s = 0.0

    def wait_for_answers(self, count: int, timeout_s: float = PING_TIMEOUT_S) -> None:
        """Wait until ``count`` more answers have come."""
        wanted = self.answers + count
        with self._answered:
            done = self._answered.wait_for(
                lambda: self.answers >= wanted or self.failure is not None, timeout_s
            )
        if self.failure is not None:
            raise AssertionError(f"the pinger got no answer: {self.failure}") from self.failure
        assert done, f"no {count} answers within {timeout_s:g} s"

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait_for_answers(1)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._thread.join(PING_TIMEOUT_S)
        self._peer.close()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(PING_PAUSE_S):
                self._ping()
        except (OSError, AssertionError) as error:
            with self._answered:
                self.failure = error
                self._answered.notify_all()

    def _ping(self) -> None:
        fields = {"topic": "TBW102", "queueId": "0"}
        self._asked_at = time.monotonic()
        answer = self._peer.call(request(RequestCode.GET_MIN_OFFSET, fields))
        if answer is None:
            raise AssertionError("the broker closed the pinger's connection")
        self._longest_s = max(self._longest_s, time.monotonic() - self._asked_at)
        self._asked_at = None
        with self._answered:
            self.answers += 1
            self._answered.notify_all()
