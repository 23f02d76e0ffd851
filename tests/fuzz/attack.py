"""Many connections that send samples, cut frames, do not read, or close in between."""

import random
import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from broker.common.address import parse_address
from tests.fuzz.frames import FrameSource, Sample

CONNECTIONS = 24
SLOW_SHARE = 0.2  # of the connections never read
UNSENT_BYTES = 1 << 20  # a connection with so much unsent gets no further sample
KEPT_BYTES = 64 << 20
CONNECT_TIMEOUT_S = 10.0
PAUSE_S = 0.002


class _Connection:
    def __init__(self, address: str, *, reads: bool) -> None:
        self.sock = socket.create_connection(parse_address(address), timeout=CONNECT_TIMEOUT_S)
        self.sock.setblocking(False)
        self.reads = reads
        self.out = bytearray()
        # Bytes to go before the connection pauses in the middle of a frame.
        self.paused_until = 0.0


class Attack:
    """Sends for a while; ``sent`` counts samples by kind, ``recent`` keeps the last ones."""

    def __init__(self, address: str, rng: random.Random) -> None:
        self.sent: Counter[str] = Counter()
        self.recent: deque[tuple[float, Sample]] = deque()
        self._recent_bytes = 0
        self._address = address
        self._rng = rng
        self._source = FrameSource(rng)
        self._selector = selectors.DefaultSelector()
        self._connections: list[_Connection] = []

    def run(self, seconds: float, healthy: Callable[[], bool]) -> None:
        """Attack for so long, or until ``healthy()`` is false."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and healthy():
            while len(self._connections) < CONNECTIONS:
                self._connect()
            self._act(self._rng.choice(self._connections))
            self._run_turn()

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()

    def save(self, folder: Path, since: float) -> str:
        """Write the samples sent since then to files; their kinds and codes."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for number, (at, sample) in enumerate(self.recent):
            if at >= since:
                name = f"{number:04d}-{sample.kind.replace(' ', '-')}-{sample.code}.bin"
                (folder / name).write_bytes(sample.data)
                lines.append(f"{sample.kind} {sample.code} ({len(sample.data)} bytes)")
        return f"{len(lines)} samples in {folder}: " + ", ".join(lines[-40:])

    # ---- one connection

    def _connect(self) -> None:
        connection = _Connection(self._address, reads=self._rng.random() >= SLOW_SHARE)
        self._connections.append(connection)
        self._selector.register(connection.sock, selectors.EVENT_READ, connection)

    def _drop(self, connection: _Connection) -> None:
        self._selector.unregister(connection.sock)
        connection.sock.close()
        self._connections.remove(connection)

    def _act(self, connection: _Connection) -> None:
        roll = self._rng.random()
        if roll < 0.01:
            self._drop(connection)
        elif roll < 0.02:
            # Half a frame, and nothing for a while.
            sample = self._take()
            connection.out += sample.data[: len(sample.data) // 2]
            connection.paused_until = time.monotonic() + self._rng.uniform(0.1, 5.0)
            self._flush(connection)
        elif len(connection.out) < UNSENT_BYTES and time.monotonic() >= connection.paused_until:
            for _ in range(self._rng.choice((1, 1, 1, 10))):
                connection.out += self._take().data
            self._flush(connection)

    def _take(self) -> Sample:
        sample = self._source.next()
        self.sent[sample.kind] += 1
        self.recent.append((time.monotonic(), sample))
        self._recent_bytes += len(sample.data)
        while self._recent_bytes > KEPT_BYTES:
            self._recent_bytes -= len(self.recent.popleft()[1].data)
        return sample

    def _flush(self, connection: _Connection) -> None:
        try:
            while connection.out:
                del connection.out[: connection.sock.send(connection.out)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(connection)

    def _run_turn(self) -> None:
        for key, _ in self._selector.select(PAUSE_S):
            connection = key.data
            if not connection.reads:
                # Closed by the peer, or merely unread: look without taking anything.
                flags = socket.MSG_PEEK
            else:
                flags = 0
            try:
                data = connection.sock.recv(1 << 18, flags)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                self._drop(connection)
        for connection in list(self._connections):
            if connection.out:
                self._flush(connection)
