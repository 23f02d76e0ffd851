"""Pop and acknowledgement: our broker and the Java broker in turn, the same generator for both.

Messages are sent first. Then each worker pops a batch and acknowledges each message of it by a
separate request, as Java's client does; the rate counts acknowledged messages. The generator is
one process of Python with uvloop if it is installed: both brokers get the same one.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from local_broker import LocalBroker, broker_names
from transactions import Client

from broker.message.properties import encode_properties
from broker.message.receipt_handle import ReceiptHandle, encode_handle
from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request

TOPIC, GROUP, QUEUES = "BenchPop", "CGPop", 8
INVISIBLE_MS = 60_000
SENDERS = 64


class Load(NamedTuple):
    """Connections, workers on each, messages per pop, messages in all, and bytes of a body."""

    connections: int
    workers: int
    batch: int
    messages: int
    body: int


class Result(NamedTuple):
    """Acknowledged messages per second; latencies of pop and ack in ms; errors."""

    rate: float
    pop_ms: float
    ack_ms: float
    errors: int


def message(number: int, body: bytes) -> RemotingCommand:
    properties = encode_properties({"UNIQ_KEY": f"7F{number:030X}", "WAIT": "false"}).decode()
    values = ("P", TOPIC, "TBW102", "8", str(number % QUEUES), "0", "0", "0", properties, "0")
    fields = dict(zip("abcdefghij", values, strict=True)) | {"k": "false", "m": "false"}
    return request(RequestCode.SEND_MESSAGE_V2, fields, body)


def topic() -> RemotingCommand:
    fields = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": str(QUEUES),
        "writeQueueNums": str(QUEUES), "perm": "6", "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    return request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def pop(batch: int) -> RemotingCommand:
    fields = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": str(batch),
        "invisibleTime": str(INVISIBLE_MS), "pollTime": "0",
        "bornTime": str(time.time_ns() // 1_000_000), "initMode": "0", "order": "false",
    }  # fmt: skip
    return request(RequestCode.POP_MESSAGE, fields)


def acks(answer: RemotingCommand) -> list[RemotingCommand]:
    """One acknowledgement per popped message."""
    ext = answer.ext_fields
    starts: Mapping[str, str] = {
        parts[1]: parts[2]
        for item in ext["startOffsetInfo"].split(";")
        for parts in [item.split(" ")]
        if parts[0] == "0"
    }
    found = []
    for record in scan_records(answer.body_bytes()):
        handle = ReceiptHandle(
            int(starts[str(record.queue_id)]),
            int(ext["popTime"]),
            int(ext["invisibleTime"]),
            int(ext["reviveQid"]),
            "0",
            "b",
            record.queue_id,
            record.queue_offset,
        )
        fields = {
            "consumerGroup": GROUP, "topic": TOPIC, "queueId": str(record.queue_id),
            "extraInfo": encode_handle(handle), "offset": str(record.queue_offset),
        }  # fmt: skip
        found.append(request(RequestCode.ACK_MESSAGE, fields))
    return found


async def drive(port: int, load: Load) -> Result:
    """Send everything, then pop and acknowledge until nothing is left."""
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(Client, "127.0.0.1", port))[1]
        for _ in range(load.connections)
    ]
    await clients[0].call(topic())
    body = os.urandom(load.body)
    numbers = iter(range(load.messages))
    errors = acknowledged = 0
    pops: list[float] = []
    ack_times: list[float] = []

    async def send(client: Client) -> None:
        nonlocal errors
        for number in numbers:
            errors += bool((await client.call(message(number, body))).code)

    async def work(client: Client) -> None:
        nonlocal errors, acknowledged
        while True:
            begin = time.perf_counter()
            answer = await client.call(pop(load.batch))
            middle = time.perf_counter()
            if answer.code:
                return
            pops.append(middle - begin)
            answers = await asyncio.gather(*(client.call(ack) for ack in acks(answer)))
            ack_times.append(time.perf_counter() - middle)
            errors += sum(bool(one.code) for one in answers)
            acknowledged += len(answers)

    await asyncio.gather(*(send(clients[n % len(clients)]) for n in range(SENDERS)))
    await asyncio.sleep(1)  # a Java broker dispatches in a thread
    begin = time.perf_counter()
    await asyncio.gather(*(work(client) for client in clients for _ in range(load.workers)))
    seconds = time.perf_counter() - begin
    for client in clients:
        client.transport.close()
    errors += load.messages - acknowledged
    return Result(
        acknowledged / seconds,
        statistics.median(pops) * 1000,
        statistics.median(ack_times) * 1000,
        errors,
    )


def measure(name: str, load: Load, merge: str) -> Result:
    """One broker on a fresh store: a warm-up, then the measurement."""
    settings = {"enablePopBufferMerge": merge, "maxConnections": 1000}
    with (
        tempfile.TemporaryDirectory(prefix="mq-bench-pop-") as work,
        LocalBroker(name, Path(work), settings) as target,
    ):
        asyncio.run(drive(target.port, load))
        return asyncio.run(drive(target.port, load))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2, help="turns of each broker (default 2)")
    parser.add_argument("--messages", type=int, default=50_000, help="per measurement")
    parser.add_argument("--body", type=int, default=1024, help="bytes (default 1024)")
    parser.add_argument("--only", default="", help='workloads with this text ("written 16x2")')
    options = parser.parse_args()
    try:
        import uvloop
    except ImportError:
        pass
    else:
        uvloop.install()
    names = broker_names()
    sys.stdout.write(
        f"{'workload':26} {'broker':6} {'msg/s':>9} {'pop p50':>9} {'ack p50':>9} {'errors':>7}\n"
    )
    for merge in ("false", "true"):
        for connections, workers, batch in ((1, 1, 32), (16, 2, 32), (16, 2, 1)):
            kind = "merged" if merge == "true" else "written"
            workload = f"{kind} {connections}x{workers} batch {batch}"
            if options.only not in workload:
                continue
            count = options.messages if batch > 1 else options.messages // 5
            load = Load(connections, workers, batch, count, options.body)
            seen: dict[str, list[Result]] = {name: [] for name in names}
            for _ in range(options.pairs):
                for name in names:
                    seen[name].append(measure(name, load, merge))
            best = {name: max(results) for name, results in seen.items()}
            for name, result in best.items():
                errors = sum(each.errors for each in seen[name])
                sys.stdout.write(
                    f"{workload:26} {name:6} {result.rate:9.0f} {result.pop_ms:8.2f}m"
                    f" {result.ack_ms:8.2f}m {errors:7}\n"
                )
            if len(best) == 2:
                ratio = best["ours"].rate / best["java"].rate
                sys.stdout.write(f"{workload:26} ours/java {ratio:.2f}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
