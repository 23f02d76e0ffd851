"""Long run: a day of rolling files, cleaning and mixed traffic in compressed form.

A broker with small files runs while plain, delayed, batch and transactional messages are sent,
consumed with retries, and popped. Log files older than the newest few are dated back, so that the
broker deletes them as expired. Every interval a line is printed: log files made and deleted, memory
of the process without pages of files, descriptors, latency of sends.

The first third of the run warms up. Exit status 1 if memory, descriptors, latency or processor
time per message of the last third exceed those of the second by more than LIMITS, if a kind of
traffic stops, or if the log does not roll and shrink.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from broker.client import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumerConfig,
    LocalTransactionState,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionProducer,
)
from broker.message.message import Message

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.ports import free_port  # noqa: E402

TOPICS: Final = ("LongPlain", "LongDelayed", "LongBatch", "LongTransaction", "LongPop")
LOG_FILE_BYTES: Final = 4 << 20
KEPT_FILES: Final = 8
START_S: Final = 120
HOUR_S: Final = 3600
TICKS: Final = os.sysconf("SC_CLK_TCK")
# Limits of the last third relative to the second; other load of the machine changes latency.
LIMITS: Final = {"memory": 1.15, "descriptors": 1.15, "threads": 1.15, "cpu_us": 1.4, "p50": 3.0}
SETTINGS: Final = {
    "mappedFileSizeCommitLog": LOG_FILE_BYTES,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 5000,
    "maxIndexNum": 20_000,
    "fileReservedTime": 1,
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    "cleanResourceInterval": 1000,
    "deleteCommitLogFilesInterval": 1,
    "diskMaxUsedSpaceRatio": 95,
    "cleanFileForciblyEnable": "false",
    "messageDelayLevel": "1s 2s 3s",
    "transactionCheckInterval": 5000,
    "transactionTimeOut": 3000,
}


class Sample(NamedTuple):
    """One interval: KiB of memory, descriptors, threads; p50 and p99 of sends in ms.

    ``cpu_us`` are processor microseconds of the broker per message sent or consumed.
    """

    memory: int
    descriptors: int
    threads: int
    p50: float
    p99: float
    cpu_us: float


class Broker:
    """The broker process and its name server, on free ports of loopback."""

    def __init__(self, work: Path, ports: tuple[int, int]) -> None:
        self.store = work / "store"
        self._cpu = 0.0
        conf = work / "broker.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()))
        port, namesrv = ports
        self.namesrv = f"127.0.0.1:{namesrv}"
        command = [sys.executable, "-m", "broker", "-c", str(conf), "--store", str(self.store)]
        command += ["--standalone", "--namesrv-listen", self.namesrv]
        command += ["--listen", f"127.0.0.1:{port}"]
        self.out = work / "out"
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
        deadline = time.monotonic() + START_S
        while "boot success" not in self.out.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"error: the broker does not start: {self.out.read_text()[-2000:]}")
            time.sleep(0.1)

    def log_files(self) -> list[Path]:
        return sorted((self.store / "commitlog").iterdir())

    def expire(self) -> int:
        """Date back all log files but the newest; return the start of the log."""
        files = self.log_files()
        before = time.time() - 2 * HOUR_S
        for path in files[:-KEPT_FILES]:
            try:
                os.utime(path, (before, before))
            except FileNotFoundError:
                continue
        return int(files[0].name)

    def sample(self, took: list[float], messages: int) -> Sample:
        """The resources of the process now; ``took`` and ``messages`` are those of the interval."""
        root = Path(f"/proc/{self.process.pid}")
        words = (root / "stat").read_text().rpartition(")")[2].split()
        cpu = (int(words[11]) + int(words[12])) / TICKS
        used, self._cpu = cpu - self._cpu, cpu
        status = dict(
            line.split(":", 1) for line in (root / "status").read_text().splitlines() if ":" in line
        )
        took.sort()
        return Sample(
            int(status["RssAnon"].split()[0]),
            len(os.listdir(root / "fd")),
            int(status["Threads"]),
            statistics.median(took) * 1000,
            took[len(took) * 99 // 100] * 1000,
            used * 1e6 / max(1, messages),
        )

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Outcomes:
    """Local transactions: most are committed, some rolled back, some decided by a check."""

    def execute_local_transaction(
        self, message: Message, argument: object
    ) -> LocalTransactionState:
        states = (
            LocalTransactionState.COMMIT_MESSAGE,
            LocalTransactionState.ROLLBACK_MESSAGE,
            LocalTransactionState.UNKNOWN,
        )
        return states[0] if int(str(argument)) % 10 > 1 else states[1 + int(str(argument)) % 2]

    def check_local_transaction(self, message: Message) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


class Traffic:
    """Threads that send and consume until :meth:`stop`; counts by kind."""

    def __init__(self, namesrv: str, body: bytes, pause_s: float) -> None:
        self.counts: Counter[str] = Counter()
        self.took: list[float] = []
        self.errors: list[str] = []
        self._namesrv, self._body, self._pause_s = namesrv, body, pause_s
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._producer = Producer("long", namesrv)
        self._transactions = TransactionProducer("long-tx", namesrv, Outcomes())
        first = ConsumerConfig(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, max_reconsume_times=2
        )
        self._push = PushConsumer("long-push", namesrv, first)
        for topic in TOPICS[:-1]:
            self._push.subscribe(topic)
        self._push.listen(self._consume)
        self._pop = SimpleConsumer("long-pop", namesrv)
        self._pop.subscribe(TOPICS[-1])

    def start(self) -> None:
        for part in (self._producer, self._transactions, self._push, self._pop):
            part.start()
        for job in (self._send, self._send_transactions, self._pop_and_ack):
            thread = threading.Thread(target=self._repeat, args=(job,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        for part in (self._pop, self._push, self._transactions, self._producer):
            part.shutdown()

    def _repeat(self, job: Callable[[int], None]) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                job(number)
            except Exception as error:
                self.errors.append(f"{job.__name__}: {error!r}"[:200])
                self._stop.wait(1)
            number += 1
            self._stop.wait(self._pause_s)

    def _timed(self, kind: str, call: Callable[[], object]) -> None:
        began = time.perf_counter()
        call()
        self.took.append(time.perf_counter() - began)
        self.counts[kind] += 1

    def _send(self, number: int) -> None:
        send = self._producer.send
        key = f"k{number}"
        plain = Message(TOPICS[0], self._body, tags=f"t{number % 5}", keys=key)
        self._timed("plain", lambda: send(plain))
        delayed = Message(TOPICS[1], self._body, keys=key)
        delayed.properties["DELAY"] = str(number % 3 + 1)
        self._timed("delayed", lambda: send(delayed))
        batch = [Message(TOPICS[2], self._body, keys=key) for _ in range(16)]
        self._timed("batch", lambda: self._producer.send_batch(batch))
        popped = Message(TOPICS[4], self._body, keys=key)
        self._timed("for pop", lambda: send(popped))

    def _send_transactions(self, number: int) -> None:
        message = Message(TOPICS[3], self._body, keys=f"x{number}")
        self._timed("transaction", lambda: self._transactions.send_in_transaction(message, number))

    def _consume(self, messages: object, context: object) -> ConsumeConcurrentlyStatus:
        assert isinstance(messages, list)
        for message in messages:
            self.counts[f"consumed {message.topic}"] += 1
            if message.keys and message.keys[0].endswith("7") and not message.reconsume_times:
                self.counts["sent back"] += 1
                return ConsumeConcurrentlyStatus.RECONSUME_LATER
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def _pop_and_ack(self, number: int) -> None:
        for place, message in enumerate(self._pop.receive(32, 10_000)):
            if place % 20 == 19:
                self.counts["left to expire"] += 1
                continue
            self._pop.ack(message)
            self.counts["popped"] += 1


def growth(samples: list[Sample], field: str) -> float:
    """Median of the last third of a field relative to that of the second third."""
    third = max(1, len(samples) // 3)
    middle, last = samples[third : 2 * third], samples[2 * third :]
    values = [statistics.median(getattr(one, field) for one in part) for part in (middle, last)]
    return values[1] / max(values[0], 1e-9)


def verdict(samples: list[Sample]) -> list[str]:
    """The fields that grew beyond their limit."""
    found = {field: growth(samples, field) for field in LIMITS}
    return [f"{field} x{found[field]:.2f}" for field, most in LIMITS.items() if found[field] > most]


def watch(broker: Broker, traffic: Traffic, seconds: float, interval: float) -> list[str]:
    """Print a line per interval; return the reasons for a failure."""
    samples: list[Sample] = []
    faults: list[str] = []
    began = time.monotonic()
    rolled = 0
    seen: Counter[str] = Counter()
    while time.monotonic() - began < seconds and broker.process.poll() is None:
        time.sleep(interval)
        start = broker.expire()
        took, traffic.took = traffic.took, []
        if not took:
            faults.append("no message was sent in an interval")
            continue
        moved = traffic.counts - seen
        seen = Counter(traffic.counts)
        sample = broker.sample(took, moved.total())
        samples.append(sample)
        made = int(broker.log_files()[-1].name) // LOG_FILE_BYTES
        rolled = start // LOG_FILE_BYTES
        sys.stdout.write(
            f"{time.monotonic() - began:6.0f} s files {made + 1:5} deleted {rolled:5}"
            f" memory {sample.memory / 1024:6.1f} MiB descriptors {sample.descriptors:4}"
            f" threads {sample.threads:3} send p50 {sample.p50:7.2f} ms p99 {sample.p99:8.2f} ms"
            f" cpu {sample.cpu_us:5.0f} us of {moved.total()}\n"
        )
        sys.stdout.flush()
    if broker.process.poll() is not None:
        faults.append(f"the broker ended: {broker.out.read_text()[-1000:]}")
    if len(samples) >= 9:
        faults += verdict(samples)
    if rolled == 0:
        faults.append("no log file was deleted")
    kinds = ("plain", "delayed", "batch", "for pop", "transaction", "popped", "sent back")
    kinds += tuple(f"consumed {topic}" for topic in TOPICS[:-1])
    faults += [f"no traffic: {kind}" for kind in kinds if not traffic.counts[kind]]
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/torture long", description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=900, help="default 900")
    parser.add_argument("--interval", type=float, default=15, help="seconds per line (default 15)")
    parser.add_argument("--body", type=int, default=4096, help="bytes of a body (default 4096)")
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between rounds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mq-long-") as folder:
        broker = Broker(Path(folder), (free_port(), free_port()))
        try:
            traffic = Traffic(broker.namesrv, os.urandom(options.body), options.pause)
            traffic.start()
            faults = watch(broker, traffic, options.seconds, options.interval)
            traffic.stop()
        finally:
            broker.stop()
    for kind, count in sorted(traffic.counts.items()):
        sys.stdout.write(f"{kind:26} {count:9}\n")
    for error, count in Counter(traffic.errors).most_common(5):
        sys.stdout.write(f"error of the client, {count} times: {error}\n")
    for fault in faults:
        sys.stdout.write(f"FAULT: {fault}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
