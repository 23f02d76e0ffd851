"""A real broker process to be killed, senders that keep a ledger of what was acknowledged."""

import hashlib
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.message.batch import encode_batch
from broker.message.message import Message
from broker.message.properties import decode_properties
from broker.message.record import scan_records
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder, encode_frame

TOPIC = "UnderFire"
QUEUES = 4
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
}


class Child:
    """One mqbroker process over one store directory, started as often as it is killed."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.config = folder / "broker.conf"
        self.address = ""
        self.said = ""
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
        self.said = self._process.stdout.readline().decode()
        if "boot success" not in self.said:
            raise AssertionError(
                f"status {self._process.wait(GONE_SECONDS)}: "
                + (self.folder / "broker.err").read_text()[-3000:]
            )
        self.address = self.said.split(", ", 1)[1].split("]", 1)[0]

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


class Ledger:
    """What was sent, and where the broker said it stored it."""

    def __init__(self) -> None:
        self.sent = 0
        self.acked: dict[tuple[int, int], int] = {}
        self.codes: Counter[int] = Counter()
        self.unanswered = 0

    def body(self, number: int) -> bytes:
        """The body of message ``number``: some 20 bytes to 4 KiB that follow from the number."""
        seed = hashlib.blake2b(number.to_bytes(8, "big"), digest_size=64).digest()
        size = int.from_bytes(seed[:2], "big") % (4000 if seed[2] < 64 else 400)
        return b"%012d:" % number + (seed * (size // 64 + 1))[:size]

    def new(self) -> int:
        self.sent += 1
        return self.sent - 1


class _Peer:
    """One connection with a number of requests under way."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host, int(port)), timeout=10)
        self.sock.setblocking(False)
        self.decoder = FrameDecoder()
        self.out = bytearray()
        # opaque: (first message, number of messages)
        self.waiting: dict[int, tuple[int, int]] = {}


class Senders:
    """Connections that send as quickly as they are answered, in one thread."""

    def __init__(
        self, child: Child, ledger: Ledger, rng: random.Random, *, connections: int = 6
    ) -> None:
        self.ledger = ledger
        self._rng = rng
        self._inflight = 8
        self._selector = selectors.DefaultSelector()
        self.peers = [_Peer(child.address) for _ in range(connections)]
        for peer in self.peers:
            self._selector.register(peer.sock, selectors.EVENT_READ, peer)

    def run(self, until: Callable[[], bool], *, patience: float = 60) -> None:
        """Send until ``until()``, or until every connection has ended."""
        deadline = time.monotonic() + patience
        while self.peers and not until():
            for peer in self.peers:
                while len(peer.waiting) < self._inflight:
                    self._send(peer)
            self._turn(0.2)
            assert time.monotonic() < deadline, "no progress"

    def drain(self, *, patience: float = 60) -> None:
        """Take every answer that is still on its way; ends when the connections do."""
        deadline = time.monotonic() + patience
        while self.peers and any(peer.waiting for peer in self.peers):
            self._turn(0.2)
            assert time.monotonic() < deadline, "answers stay out"
        self.close()

    def close(self) -> None:
        for peer in list(self.peers):
            self._drop(peer)
        self._selector.close()

    def _turn(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            peer = key.data
            try:
                if peer.out:
                    del peer.out[: peer.sock.send(peer.out)]
                data = peer.sock.recv(1 << 18)
            except BlockingIOError:
                self._watch(peer)
                continue
            except OSError:
                self._drop(peer)
                continue
            if not data:
                self._drop(peer)
                continue
            for frame in peer.decoder.feed(data):
                self._take(peer, frame)
            self._watch(peer)

    def _watch(self, peer: _Peer) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.out else 0)
        self._selector.modify(peer.sock, events, peer)

    def _drop(self, peer: _Peer) -> None:
        self.ledger.unanswered += sum(count for _, count in peer.waiting.values())
        self._selector.unregister(peer.sock)
        peer.sock.close()
        self.peers.remove(peer)

    def _send(self, peer: _Peer) -> None:
        count = self._rng.choice((1, 1, 1, 1, 1, 5))
        first = self.ledger.new()
        for _ in range(count - 1):
            self.ledger.new()
        command = self._command(first, count)
        peer.waiting[command.opaque] = (first, count)
        idle = not peer.out
        peer.out += encode_frame(command)
        if idle:
            try:
                del peer.out[: peer.sock.send(peer.out)]
            except OSError:
                pass  # the turn sees to it
        self._watch(peer)

    def _command(self, first: int, count: int) -> RemotingCommand:
        body = self.ledger.body
        names = {"KEYS": f"k{first} all", "UNIQ_KEY": f"U{first:08d}", "TAGS": f"t{first % 7}"}
        properties = "".join(f"{name}\x01{value}\x02" for name, value in names.items())
        ext = {
            "a": "crash",
            "b": TOPIC,
            "c": "TBW102",
            "d": str(QUEUES),
            "e": str(self._rng.randrange(QUEUES)),
            "f": "0",
            "g": "1700000000000",
            "h": "0",
            "i": properties,
            "j": "0",
            "k": "false",
            "l": "16",
            "m": "false",
        }
        if count == 1:
            return request(310, ext, body(first))
        messages = [
            Message(topic=TOPIC, body=body(number), keys=f"k{number}")
            for number in range(first, first + count)
        ]
        return request(320, {**ext, "m": "true", "i": ""}, encode_batch(messages))

    def _take(self, peer: _Peer, frame: RemotingCommand) -> None:
        known = peer.waiting.pop(frame.opaque, None)
        if known is None:
            return
        first, count = known
        self.ledger.codes[frame.code] += 1
        if frame.code == 0:
            queue_id = int(frame.ext_fields["queueId"])
            queue_offset = int(frame.ext_fields["queueOffset"])
            for number in range(count):
                place = (queue_id, queue_offset + number)
                assert place not in self.ledger.acked, f"{place} acknowledged twice"
                self.ledger.acked[place] = first + number


class Audit:
    """Reads queues back and compares them with the ledger."""

    def __init__(self, child: Child, ledger: Ledger) -> None:
        self.child = child
        self.ledger = ledger
        self.unacked_kept = 0

    def queue(self, client: BlockingClient, queue_id: int, start: int) -> dict[int, int]:
        """Queue offset to message number of everything from ``start`` on; bodies are checked."""
        found: dict[int, int] = {}
        offset = start
        while True:
            answer = client.call(
                self.child.address,
                request(
                    11,
                    {
                        "consumerGroup": "audit",
                        "topic": TOPIC,
                        "queueId": str(queue_id),
                        "queueOffset": str(offset),
                        "maxMsgNums": "32",
                        "sysFlag": "4",
                        "commitOffset": "0",
                        "suspendTimeoutMillis": "0",
                        "subVersion": "0",
                        "subscription": "*",
                        "expressionType": "TAG",
                    },
                ),
            )
            if answer.code not in (0, 20):
                # No message at this offset, or no queue at all: the end.
                assert answer.code in (1, 17, 19, 21), (answer.code, answer.remark)
                return found
            next_offset = int(answer.ext_fields["nextBeginOffset"])
            if answer.code == 0:
                for message in scan_records(answer.body_bytes()):
                    number = int(message.body[:12])
                    assert message.body == self.ledger.body(number), f"body of {number} changed"
                    assert message.queue_offset not in found
                    found[message.queue_offset] = number
            elif next_offset <= offset:
                return found
            offset = next_offset

    def check(self, start: dict[int, int] | None = None, *, keys: int = 5) -> dict[int, int]:
        """Every acknowledged message from ``start`` on is where it was said to be; ends of queues.

        Some of them are looked for by key too.
        """
        start = start or {}
        ends: dict[int, int] = {}
        seen: Counter[int] = Counter()
        with BlockingClient(timeout_ms=20_000) as client:
            for queue_id in range(QUEUES):
                begin = start.get(queue_id, 0)
                found = self.queue(client, queue_id, begin)
                seen.update(found.values())
                lost = {
                    offset: number
                    for (acked_queue, offset), number in self.ledger.acked.items()
                    if acked_queue == queue_id and offset >= begin and found.get(offset) != number
                }
                assert not lost, (
                    f"{len(lost)} acknowledged messages of queue {queue_id} are not where they"
                    f" were acknowledged, first {min(lost.items())}; queue [{begin}, "
                    f"{max(found, default=-1)}]"
                )
                ends[queue_id] = max(found, default=begin - 1) + 1
            twice = [number for number, times in seen.items() if times > 1]
            assert not twice, f"stored twice: {twice[:5]}"
            for number in list(self.ledger.acked.values())[-keys:]:
                self._by_key(client, number)
        return ends

    def _by_key(self, client: BlockingClient, number: int) -> None:
        answer = client.call(
            self.child.address,
            request(
                12,
                {
                    "topic": TOPIC,
                    "key": f"k{number}",
                    "maxNum": "64",
                    "beginTimestamp": "0",
                    "endTimestamp": str(2**62),
                },
            ),
        )
        assert answer.code == 0, f"message {number} is not in the index: {answer.remark}"
        bodies = [message.body for message in scan_records(answer.body_bytes())]
        keys = [
            decode_properties(message.properties_raw).get("KEYS", "")
            for message in scan_records(answer.body_bytes())
        ]
        assert any(body.startswith(b"%012d:" % number) for body in bodies), (number, keys)


class Battle:
    """Rounds of load and violent ends over one store."""

    def __init__(self, child: Child, rng: random.Random) -> None:
        self.child = child
        self.rng = rng
        self.ledger = Ledger()
        self.audit = Audit(child, self.ledger)
        self.ends: list[dict[int, int]] = [{}]
        self.kinds: Counter[str] = Counter()
        self.ready_seconds: list[float] = []

    def run(self, rounds: int, *, full_audit_every: int = 10) -> None:
        for number in range(rounds):
            self._round()
            full = number % full_audit_every == full_audit_every - 1 or number == rounds - 1
            self._start()
            # Two rounds back: what the round before this one left must have survived this one too.
            start = {} if full or len(self.ends) < 2 else self.ends[-2]
            self.ends.append(self.audit.check(start))
            self.child.kill() if number < rounds - 1 else self.child.stop()
        self._start()
        self.audit.check()
        assert self.child.stop() == 0

    def _start(self) -> None:
        began = time.monotonic()
        self.child.start()
        self.ready_seconds.append(time.monotonic() - began)

    def _round(self) -> None:
        rng, child = self.rng, self.child
        if rng.random() < 0.2:
            # Killed while it starts, that is while it recovers.
            self.kinds["killed at start"] += 1
            child.spawn()
            if child.lives_for(rng.uniform(0.05, 0.7)):
                child.kill()
        self._start()
        senders = Senders(child, self.ledger, rng, connections=rng.choice((1, 4, 12)))
        target = len(self.ledger.acked) + rng.choice((1, 20, 300, 1500))
        senders.run(lambda: len(self.ledger.acked) >= target)
        kind = rng.choice(("kill", "kill", "kill", "other kernel", "stop", "stopped", "term"))
        self.kinds[kind] += 1
        if kind in ("stop", "stopped"):
            child.signal(signal.SIGSTOP)
            senders.run(lambda: True)
            # What it had sent before is taken; nothing may come now.
            child.lives_for(rng.uniform(0.01, 0.3))
            if kind == "stop":
                child.signal(signal.SIGCONT)
                target = len(self.ledger.acked) + rng.choice((1, 100))
                senders.run(lambda: len(self.ledger.acked) >= target)
        if kind == "term":
            child.signal(signal.SIGTERM)
        else:
            child.signal(signal.SIGKILL)
        # Answers that the broker sent before its end are acknowledgements.
        senders.drain()
        child.wait()
        if kind == "other kernel":
            child.forget_kernel()


@pytest.fixture
def make_child(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """``make_child(flushDiskType="SYNC_FLUSH", …)``: a broker to be started and killed."""
    made: list[Child] = []

    def make(**settings: str) -> Child:
        made.append(Child(tmp_path / f"broker{len(made)}", **settings))
        return made[-1]

    yield make
    for child in made:
        child.close()


@pytest.fixture
def make_battle(make_child: Callable[..., Child], rng: random.Random) -> Callable[..., Battle]:
    """``make_battle(flushDiskType="SYNC_FLUSH", …)``: rounds over one such broker."""

    def make(**settings: Any) -> Battle:
        return Battle(make_child(**settings), rng)

    return make


@pytest.fixture
def make_senders(rng: random.Random) -> Callable[..., Senders]:
    """``make_senders(child, ledger, connections=…)``."""

    def make(child: Child, ledger: Ledger, **options: Any) -> Senders:
        return Senders(child, ledger, rng, **options)

    return make


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def make_audit() -> Callable[[Child, Ledger], Audit]:
    return Audit
