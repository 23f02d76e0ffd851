"""Many topics, queues and connections: start, memory, route answers and cleaning of our broker.

`topics`: a broker with its name server over a store of many topics. The table has all of them with
ten queues each; `--stored` queues have a message, so that the store has their files. Reported are
the start after a clean stop and after a kill, memory, the answers of the name server to route
requests, and the requests for cleaning. `connections`: idle clients that have sent one request.

Exit status 1 if a bound is exceeded: see BOUNDS.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from local_broker import ROOT, TICKS, free_port

from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.remoting.protocol.framing import encode_frame
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageExtBrokerInner, MessageStore, PutMessageStatus

QUEUES: Final = 10
START_S: Final = 900
ROUTES: Final = 2000
TURN: Final = 200
# Limits; processor seconds instead of seconds, which other load would change.
BOUNDS: Final = {
    "clean start cpu s": 12.0,
    "killed start cpu s": 20.0,
    "rss MiB": 400.0,
    "clean requests cpu s": 2.0,
    "connection KiB": 30.0,
    "descriptors": 5_000.0,
}
# Added to these limits for each queue with files.
BOUNDS_PER_STORED: Final = {
    "clean start cpu s": 400e-6,
    "killed start cpu s": 600e-6,
    "rss MiB": 1.5 / 1024,
}


def topic_name(number: int) -> str:
    return f"scale_topic_{number:06d}"


def write_table(root: Path, topics: int) -> None:
    """Write topics.json with ``topics`` topics of ten queues."""
    table = {
        topic_name(number): {
            "topicName": topic_name(number),
            "readQueueNums": QUEUES,
            "writeQueueNums": QUEUES,
            "perm": 6,
            "topicSysFlag": 0,
            "order": False,
            "topicFilterType": "SINGLE_TAG",
            "attributes": {},
        }
        for number in range(topics)
    }
    (root / "config").mkdir(parents=True)
    text = json.dumps({"topicConfigTable": table, "dataVersion": {"counter": 1, "timestamp": 1}})
    (root / "config" / "topics.json").write_text(text)


def write_queues(root: Path, stored: int) -> int:
    """Store one message in each of ``stored`` queues; return the highest number of descriptors."""
    config = MessageStoreConfig(
        store_path_root_dir=str(root),
        disk_max_used_space_ratio=95,
        clean_file_forcibly_enable=False,
        mapped_file_size_commit_log=64 << 20,
    )
    store = MessageStore(config)
    store.load()
    store.start()
    for number in range(stored):
        inner = MessageExtBrokerInner(
            topic_name(number // QUEUES), number % QUEUES, bytes(100), b"TAGS\x01a\x02"
        )
        if (result := store.put_message(inner)).status is not PutMessageStatus.PUT_OK:
            sys.exit(f"error: a message is not stored: {result}")
    descriptors = len(os.listdir("/proc/self/fd"))
    store.shutdown()
    return descriptors


class Standalone:
    """A broker with its name server over a store; ready when constructed."""

    def __init__(self, root: Path) -> None:
        self.port, self.namesrv = free_port(), free_port()
        conf = root.parent / "broker.conf"
        lines = ["diskMaxUsedSpaceRatio=95", "cleanFileForciblyEnable=false", "brokerIP1=127.0.0.1"]
        lines.append(f"mappedFileSizeCommitLog={64 << 20}")
        conf.write_text("\n".join(lines) + "\n")
        command = [str(ROOT / ".venv" / "bin" / "mqbroker"), "-c", str(conf), "--store", str(root)]
        command += ["--standalone", "--namesrv-listen", f"127.0.0.1:{self.namesrv}"]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        self._out = root.parent / "out"
        began = time.perf_counter()
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        while "boot success" not in self._out.read_text(errors="replace"):
            if self.process.poll() is not None or time.perf_counter() - began > START_S:
                self.stop()
                sys.exit(f"error: the broker does not start: {self._out.read_text()[-2000:]}")
            time.sleep(0.02)
        self.start_s, self.start_cpu = time.perf_counter() - began, self.cpu()

    def cpu(self) -> float:
        """CPU seconds of the process so far."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS

    def memory(self, field: str = "RssAnon") -> int:
        """A field of /proc/PID/status in KiB; the default leaves out pages of mapped files."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if field in line)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(timeout=120)


class Connection:
    """A connection that sends one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        # A small buffer: ten thousand clients in one process.
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=4096))

    async def call(self, code: int, fields: dict[str, str]) -> float:
        """Seconds until the response has arrived; its content is not decoded."""
        began = time.perf_counter()
        self._writer.write(encode_frame(request(code, fields)))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        await self._reader.readexactly(size)
        return time.perf_counter() - began

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


class Report:
    """Figures by name; those with a bound are compared with it. ``stored``: queues with files."""

    def __init__(self, stored: int) -> None:
        self.exceeded: list[str] = []
        self._stored = stored

    def add(self, name: str, value: float, note: str = "") -> None:
        bound = BOUNDS.get(name)
        if bound is not None:
            bound += BOUNDS_PER_STORED.get(name, 0.0) * self._stored
        limit = f"limit {bound:g}" if bound is not None else ""
        if bound is not None and value > bound:
            self.exceeded.append(name)
            limit += " EXCEEDED"
        sys.stdout.write(f"{name:26} {value:10.2f}  {limit:18} {note}\n")
        sys.stdout.flush()


async def probe_routes(broker: Standalone, topics: int, report: Report) -> None:
    """Time route requests for topics spread over the whole table."""
    connection = await Connection.open(broker.namesrv)
    took = [
        await connection.call(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic_name(number * topics // ROUTES)}
        )
        for number in range(ROUTES)
    ]
    await connection.close()
    took.sort()
    report.add("route p50 ms", statistics.median(took) * 1000, f"{ROUTES} requests")
    report.add("route p99 ms", took[-ROUTES // 100] * 1000)


async def probe_cleaning(broker: Standalone, report: Report) -> None:
    """Time the cleaning requests, and requests of another client during them."""
    cleaner, other = await Connection.open(broker.port), await Connection.open(broker.port)
    waits: list[float] = []

    async def ask() -> None:
        while True:
            fields = {"topic": topic_name(0), "queueId": "0"}
            waits.append(await other.call(RequestCode.GET_MAX_OFFSET, fields))

    asking = asyncio.create_task(ask())
    while not waits:
        await asyncio.sleep(0.01)
    waits.clear()
    before = broker.cpu()
    for code, name in (
        (RequestCode.DELETE_EXPIRED_COMMITLOG, "delete expired files ms"),
        (RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, "clean expired queues ms"),
    ):
        report.add(name, await cleaner.call(code, {}) * 1000)
    served = len(waits)
    while len(waits) <= served:  # with the request that waited for the last slice
        await asyncio.sleep(0.01)
    report.add("clean requests cpu s", broker.cpu() - before, "with those of the other client")
    report.add("longest wait ms", max(waits) * 1000, "of another client meanwhile")
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking


def measure_topics(folder: Path, options: argparse.Namespace, report: Report) -> None:
    """Start over the store after a clean stop and after a kill, and probe the broker."""
    root = folder / "store"
    write_table(root, options.topics)
    began = time.process_time()
    descriptors = write_queues(root, options.stored)
    report.add("write cpu us per queue", (time.process_time() - began) / options.stored * 1e6)
    report.add("descriptors", descriptors, "of the process that has written to all of them")
    total = options.topics * QUEUES
    for state in ("clean", "killed"):
        broker = Standalone(root)
        try:
            note = f"{options.topics} topics, {total} queues, {options.stored} with files"
            report.add(f"{state} start s", broker.start_s, note)
            report.add(f"{state} start cpu s", broker.start_cpu)
            if state == "clean":
                report.add("rss MiB", broker.memory() / 1024, f"{broker.descriptors()} descriptors")
                asyncio.run(probe_routes(broker, options.topics, report))
                asyncio.run(probe_cleaning(broker, report))
                report.add("rss after MiB", broker.memory() / 1024)
        finally:
            broker.stop(signal.SIGKILL if state == "clean" else signal.SIGTERM)


async def probe_connections(broker: Standalone, count: int, report: Report) -> None:
    """Open ``count`` connections, send one request on each, and weigh the broker."""
    first = await Connection.open(broker.port)
    fields = {"topic": topic_name(0), "queueId": "0"}
    await first.call(RequestCode.GET_MAX_OFFSET, fields)
    before = broker.memory()
    opened: list[Connection] = []
    while len(opened) < count:
        some = min(TURN, count - len(opened))
        new = await asyncio.gather(*(Connection.open(broker.port) for _ in range(some)))
        await asyncio.gather(*(one.call(RequestCode.GET_MAX_OFFSET, fields) for one in new))
        opened += new
    grown = broker.memory() - before
    report.add("connection KiB", grown / count, f"{count} idle connections, {grown} KiB")
    cpu = broker.cpu()
    await asyncio.sleep(5)
    report.add("idle cpu %", (broker.cpu() - cpu) / 5 * 100)
    waits = [await first.call(RequestCode.GET_MAX_OFFSET, fields) for _ in range(500)]
    report.add("request p50 ms", statistics.median(waits) * 1000, "of a client among the idle ones")
    await asyncio.gather(*(one.close() for one in (first, *opened)))


def measure_connections(folder: Path, options: argparse.Namespace, report: Report) -> None:
    root = folder / "idle"
    write_table(root, 1)
    write_queues(root, QUEUES)
    broker = Standalone(root)
    try:
        asyncio.run(probe_connections(broker, options.connections, report))
    finally:
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench scale", description=__doc__)
    parser.add_argument("only", nargs="*", help="topics, connections (default: both)")
    parser.add_argument("--topics", type=int, default=100_000, help="topics (default 100000)")
    parser.add_argument(
        "--stored", type=int, default=5_000, help="queues with files (default 5000)"
    )
    parser.add_argument(
        "--connections", type=int, default=10_000, help="idle connections (default 10000)"
    )
    options = parser.parse_args()
    report = Report(options.stored)
    jobs = {"topics": measure_topics, "connections": measure_connections}
    if unknown := set(options.only) - set(jobs):
        parser.error(f"{', '.join(sorted(unknown))}: not a measurement ({', '.join(jobs)})")
    with tempfile.TemporaryDirectory(prefix="mq-bench-scale-") as folder:
        for name, job in jobs.items():
            if name in (options.only or jobs):
                job(Path(folder), options, report)
    return 1 if report.exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
