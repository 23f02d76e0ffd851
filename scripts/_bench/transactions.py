"""Transactional sends: our broker and the Java broker in turn, the same generator for both.

One transaction is a half message, its answer, END_TRANSACTION with commit, and its answer. The
generator is one process of Python with uvloop if it is installed: beyond about 15,000 transactions
per second it is the limit, and both brokers get the same one.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, cast

from local_broker import LocalBroker, broker_names

from broker.message.properties import encode_properties
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder, encode_frame

TOPIC, GROUP = "BenchTx", "PG"
WARM_UP_S = 10.0  # a JVM compiles for so long


class Load(NamedTuple):
    """Connections, transactions in flight on each, seconds, and bytes of a body."""

    connections: int
    in_flight: int
    seconds: float
    body: int


class Result(NamedTuple):
    """Transactions per second; latencies of half message and commit in ms; errors."""

    rate: float
    half_ms: float
    commit_ms: float
    errors: int


class Client(asyncio.Protocol):
    """One connection: requests by opaque."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        self.transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            waiting = self._waiting.pop(frame.opaque, None)
            if waiting is not None:
                waiting.set_result(frame)

    def call(self, command: RemotingCommand) -> "asyncio.Future[RemotingCommand]":
        future = asyncio.get_running_loop().create_future()
        self._waiting[command.opaque] = future
        self.transport.write(encode_frame(command))
        return future


def half(number: int, body: bytes) -> RemotingCommand:
    properties = {
        "UNIQ_KEY": f"7F{number:030X}",
        "TRAN_MSG": "true",
        "PGROUP": GROUP,
        "WAIT": "true",
    }
    fields = {
        **dict(
            zip(
                "abcdefhjkm",
                (GROUP, TOPIC, "TBW102", "4", "0", "4", "0", "0", "false", "false"),
                strict=True,
            )
        ),
        "g": str(time.time_ns() // 1_000_000),
        "i": encode_properties(properties).decode(),
    }
    return request(RequestCode.SEND_MESSAGE_V2, fields, body)


def commit(answer: RemotingCommand) -> RemotingCommand:
    sent = answer.ext_fields
    fields = {
        "producerGroup": GROUP,
        "tranStateTableOffset": sent["queueOffset"],
        "commitLogOffset": str(int(sent["msgId"][16:], 16)),
        "commitOrRollback": "8",
        "msgId": sent["transactionId"],
        "transactionId": sent["transactionId"],
        "fromTransactionCheck": "false",
    }
    return request(RequestCode.END_TRANSACTION, fields)


async def drive(port: int, load: Load) -> Result:
    """Run transactions until the time is over."""
    loop = asyncio.get_running_loop()
    body = os.urandom(load.body)
    halves: list[float] = []
    commits: list[float] = []
    errors = 0
    number = 0
    end = time.perf_counter() + load.seconds

    async def worker(client: Client) -> None:
        nonlocal errors, number
        while (begin := time.perf_counter()) < end:
            number += 1
            answer = await client.call(half(number, body))
            middle = time.perf_counter()
            if answer.code:
                errors += 1
                continue
            ended = await client.call(commit(answer))
            errors += bool(ended.code)
            halves.append(middle - begin)
            commits.append(time.perf_counter() - middle)

    clients = []
    for _ in range(load.connections):
        _, client = await loop.create_connection(Client, "127.0.0.1", port)
        clients.append(client)
    begin = time.perf_counter()
    await asyncio.gather(*(worker(c) for c in clients for _ in range(load.in_flight)))
    seconds = time.perf_counter() - begin
    for client in clients:
        client.transport.close()
    return Result(
        len(commits) / seconds,
        statistics.median(halves) * 1000,
        statistics.median(commits) * 1000,
        errors,
    )


def measure(name: str, flush: str, load: Load) -> Result:
    """One broker on a fresh store: a warm-up, then the measurement."""
    with (
        tempfile.TemporaryDirectory(prefix="mq-bench-tx-") as work,
        LocalBroker(name, Path(work), {"flushDiskType": flush}) as target,
    ):
        asyncio.run(drive(target.port, load._replace(seconds=max(load.seconds, WARM_UP_S))))
        return asyncio.run(drive(target.port, load))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2, help="turns of each broker (default 2)")
    parser.add_argument("--seconds", type=float, default=8.0, help="per measurement (default 8)")
    parser.add_argument("--body", type=int, default=1024, help="bytes (default 1024)")
    options = parser.parse_args()
    try:
        import uvloop
    except ImportError:
        pass
    else:
        uvloop.install()
    names = broker_names()
    head = (
        f"{'workload':22} {'broker':6} {'tx/s':>9} {'half p50':>9} {'commit p50':>10} {'errors':>7}"
    )
    sys.stdout.write(head + "\n")
    for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
        for connections, in_flight in ((1, 1), (16, 8)):
            load = Load(connections, in_flight, options.seconds, options.body)
            seen: dict[str, list[Result]] = {name: [] for name in names}
            for _ in range(options.pairs):
                for name in names:
                    seen[name].append(measure(name, flush, load))
            workload = f"{flush[:-6].lower()} {connections}x{in_flight}"
            best = {name: max(results) for name, results in seen.items()}
            for name, result in best.items():
                errors = sum(each.errors for each in seen[name])
                sys.stdout.write(
                    f"{workload:22} {name:6} {result.rate:9.0f} {result.half_ms:8.2f}m"
                    f" {result.commit_ms:9.2f}m {errors:7}\n"
                )
            if len(best) == 2:
                sys.stdout.write(
                    f"{workload:22} ours/java {best['ours'].rate / best['java'].rate:.2f}\n"
                )
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
