"""Replication: a pair of our brokers and a pair of Java brokers in turn, the same generator.

Three rows per pair of programs; ``--only`` selects some of them:

    sync      SYNC_MASTER with inSyncReplicas=2: sends per second one at a time, latency p50 and p99
    async     ASYNC_MASTER: sends per second, MiB/s from the first send until the slave has all, and
              CPU seconds of both brokers per GiB
    catch-up  the slave is down while the log grows by --mib: MiB/s until it has all, and CPU
              seconds of both brokers per GiB

A row is measured on fresh stores. ``--only`` and ``--mib`` shorten a run; the part of a JVM that
compiles is smaller with ``--mib 1024``.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from java import ROOT
from local_broker import LocalBroker, free_port
from transactions import Client

from broker.errors import RemotingError
from broker.message.batch import encode_batch_item
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.body.ha import HARuntimeInfo
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request

MIB = 1 << 20
MEASURES = ("sync", "async", "catch-up")
WARM_UP_S = 8.0  # a JVM compiles for so long
CATCH_UP_S = 600
BATCH = 64  # messages of a request while the log grows for the catch-up
FIELDS = {"a": "P", "b": "Bench", "c": "TBW102", "d": "4", "f": "0", "h": "0", "j": "0"}


class Sent(NamedTuple):
    """Sends per second, latencies in ms, failed sends, and the duration in s."""

    rate: float
    p50_ms: float
    p99_ms: float
    errors: int
    seconds: float


def uniq_key(number: int) -> bytes:
    """Properties as a client of RocketMQ sends them."""
    return b"UNIQ_KEY\x017F%030X\x02WAIT\x01true\x02" % number


def send(number: int, body: bytes) -> RemotingCommand:
    """One message."""
    times = {"g": str(time.time_ns() // 1_000_000), "e": str(number % 4), "k": "false"}
    fields = {**FIELDS, **times, "i": uniq_key(number).decode()}
    return request(RequestCode.SEND_MESSAGE_V2, fields, body)


def send_batch(number: int, body: bytes) -> RemotingCommand:
    """A batch of BATCH messages; the broker stores one record for each."""
    items = [encode_batch_item(0, body, uniq_key(number * BATCH + n)) for n in range(BATCH)]
    times = {"g": str(time.time_ns() // 1_000_000), "e": str(number % 4), "k": "false"}
    fields = {**FIELDS, **times, "i": uniq_key(number).decode(), "m": "true"}
    return request(RequestCode.SEND_BATCH_MESSAGE, fields, b"".join(items))


async def drive(
    port: int,
    seconds: float,
    body: bytes,
    limit: int,
    shape: tuple[int, int],
    make: Callable[[int, bytes], RemotingCommand] = send,
) -> Sent:
    """Send for ``seconds`` or ``limit`` requests; ``shape``: connections, in flight on each."""
    loop = asyncio.get_running_loop()
    taken: list[float] = []
    errors = number = 0
    begin = time.perf_counter()
    end = begin + seconds

    async def worker(client: Client) -> None:
        nonlocal errors, number
        while number < limit and (start := time.perf_counter()) < end:
            number += 1
            answer = await client.call(make(number, body))
            errors += bool(answer.code)
            taken.append(time.perf_counter() - start)

    clients = [
        (await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(shape[0])
    ]
    await asyncio.gather(*(worker(c) for c in clients for _ in range(shape[1])))
    spent = time.perf_counter() - begin
    for client in clients:
        client.transport.close()
    parts = statistics.quantiles(taken, n=100)
    return Sent(len(taken) / spent, parts[49] * 1000, parts[98] * 1000, errors, spent)


class Pair:
    """A master, and a slave that can be started and stopped, on fresh stores."""

    def __init__(self, name: str, work: Path, settings: dict[str, object]) -> None:
        self.name = name
        self.work = work
        # A Java slave without a name server does not use haMasterAddress.
        work.mkdir(parents=True, exist_ok=True)
        namesrv = f"127.0.0.1:{free_port()}"
        self._namesrv = subprocess.Popen(
            [str(ROOT / ".venv" / "bin" / "mqnamesrv"), "--listen", namesrv],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=work,
            env={**os.environ, "HOME": str(work)},
        )
        self._common: dict[str, object] = {"namesrvAddr": namesrv}
        settings = {**settings, **self._common}
        self.master = LocalBroker(name, work / "master", settings)
        self.slave: LocalBroker | None = None
        self._slave_port = free_port()

    def start_slave(self) -> LocalBroker:
        settings = {"brokerRole": "SLAVE", "brokerId": 1, **self._common}
        self.slave = LocalBroker(self.name, self.work / "slave", settings, port=self._slave_port)
        return self.slave

    def _status(self) -> HARuntimeInfo:
        with BlockingClient(timeout_ms=5000) as client:
            address = f"127.0.0.1:{self.master.port}"
            answer = client.call(address, request(RequestCode.GET_BROKER_HA_STATUS))
        return HARuntimeInfo.from_bytes(answer.body_bytes())

    def grown(self) -> int:
        """The end of the master's log."""
        return self._status().master_commit_log_max_offset

    def end(self) -> int:
        """The end of the log if the slave has acknowledged it, else -1."""
        try:
            status = self._status()
        except RemotingError:
            return -1
        end = status.master_commit_log_max_offset
        level = any(one.slave_ack_offset == end for one in status.ha_connection_info)
        return end if level else -1

    def await_copy(self) -> int:
        """Wait until the slave has the whole log; return its end."""
        deadline = time.monotonic() + CATCH_UP_S
        while (end := self.end()) < 0:
            if time.monotonic() > deadline:
                sys.exit(f"error: {self.name}: the slave does not reach the end of the log")
            time.sleep(0.01)
        return end

    def close(self) -> None:
        for program in (self.slave, self.master):
            if program is not None:
                program.stop()
        self._namesrv.kill()
        self._namesrv.wait()


def in_pair(name: str, measure: str, options: argparse.Namespace) -> dict[str, float]:
    """One measurement on a fresh pair."""
    settings: dict[str, object] = {"brokerRole": "ASYNC_MASTER"}
    if measure == "sync":
        settings = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 30_000}
    body = os.urandom(options.body)
    with tempfile.TemporaryDirectory(prefix="mq-bench-ha-") as temporary:
        pair = Pair(name, Path(temporary), settings)
        try:
            slave = pair.start_slave()
            port = pair.master.port
            asyncio.run(drive(port, CATCH_UP_S, body, 200, (1, 1)))
            pair.await_copy()
            if measure == "catch-up":
                return catch_up(pair, slave, options.mib, body)
            shape = (1, 1) if measure == "sync" else (8, 16)
            asyncio.run(drive(port, options.warm_up, body, sys.maxsize, shape))
            before = pair.await_copy()
            cpu = pair.master.cpu() + slave.cpu()
            sent = asyncio.run(drive(port, options.seconds, body, sys.maxsize, shape))
            drain = time.perf_counter()
            end = pair.await_copy()
            whole = sent.seconds + time.perf_counter() - drain
            copied = (end - before) / MIB
            cpu = pair.master.cpu() + slave.cpu() - cpu
            return {
                "sends/s": sent.rate,
                "p50 ms": sent.p50_ms,
                "p99 ms": sent.p99_ms,
                "copied MiB/s": copied / whole,
                "CPU s/GiB": cpu * 1024 / copied,
                "errors": sent.errors,
            }
        finally:
            pair.close()


def catch_up(pair: Pair, slave: LocalBroker, mib: int, body: bytes) -> dict[str, float]:
    """Let the log grow without the slave, start it, and measure until it has all."""
    slave.stop()
    before = pair.grown()
    count = mib * MIB // len(body) // BATCH
    asyncio.run(drive(pair.master.port, CATCH_UP_S, body, count, (2, 2), send_batch))
    copied = (pair.grown() - before) / MIB
    cpu = pair.master.cpu()
    slave = pair.start_slave()
    begin, cpu_slave = time.perf_counter(), slave.cpu()
    pair.await_copy()
    seconds = time.perf_counter() - begin
    used = pair.master.cpu() - cpu + slave.cpu() - cpu_slave
    return {"MiB/s": copied / seconds, "CPU s/GiB": used * 1024 / copied}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1, help="turns of each program (default 1)")
    parser.add_argument("--seconds", type=float, default=8.0, help="per measurement (default 8)")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, help="seconds (default 8)")
    parser.add_argument("--body", type=int, default=1024, help="bytes (default 1024)")
    parser.add_argument("--mib", type=int, default=512, help="catch-up, MiB (default 512)")
    parser.add_argument("--only", action="append", choices=MEASURES, help="one row; repeatable")
    parser.add_argument("--program", choices=("ours", "java"), help="one of the programs")
    options = parser.parse_args()
    names = [name for name in ("java", "ours") if name == "ours" or shutil.which("java")]
    names = [name for name in names if options.program in (None, name)]
    for measure in options.only or MEASURES:
        seen: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for _ in range(options.pairs):
            for name in names:
                seen[name].append(in_pair(name, measure, options))
        middle = {
            name: {key: statistics.median(one[key] for one in results) for key in results[0]}
            for name, results in seen.items()
        }
        for name, values in middle.items():
            cells = "  ".join(f"{key} {value:.2f}" for key, value in values.items())
            sys.stdout.write(f"{measure:9} {name:10} {cells}\n")
        if len(middle) == 2:
            cells = "  ".join(
                f"{key} {middle['ours'][key] / value:.2f}"
                for key, value in middle["java"].items()
                if value
            )
            sys.stdout.write(f"{measure:9} ours/java  {cells}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
