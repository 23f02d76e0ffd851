"""Our client and the Java client 5.3.3, on the same Java broker, in one run.

The two take turns, three rounds; the medians are compared with the ratios of the issue. Each round
runs in its own process: start until the first message is stored, asynchronous sends with 512 in
flight, synchronous sends one by one, and a push consumer with an empty listener.

The start counts from the moment at which this program starts the process, for both clients alike:
it includes the interpreter and the JVM. The modules of the project are compiled before, as pip does
when it installs them: with ``PYTHONDONTWRITEBYTECODE`` each round would compile them again.
"""

import argparse
import compileall
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.interop.conftest import JavaServers, close_all, java_home, make_topic  # noqa: E402

LIMITS = {
    "send_rate": (">=", 0.5),
    "consume_rate": (">=", 0.5),
    "sync_p50_ms": ("<=", 1.2),
    "sync_p99_ms": ("<=", 1.2),
    "rss_kib": ("<=", 0.3),
    "start_ms": ("<=", 0.2),
}

OURS = """
import asyncio, sys, time
import broker.client as c
from broker.remoting.process.loop import run
namesrv, topic, count, sync, size = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
began_ms = float(sys.argv[6])
body = b"x" * size

async def send(producer, number):
    then = time.perf_counter()
    for _ in range(number):
        await producer.send_async(c.Message(topic, body))
    while producer.in_flight()[0]:
        await asyncio.sleep(0.001)
    return number / (time.perf_counter() - then)

async def main():
    config = c.ProducerConfig(send_msg_timeout_ms=30_000, back_pressure_count=512)
    async with c.AsyncProducer("bench-ours", namesrv, config) as producer:
        await producer.send(c.Message(topic, body))
        found = {"start_ms": time.time() * 1000 - began_ms}
        await send(producer, count // 5)
        found["send_rate"] = await send(producer, count)
        latencies = []
        for _ in range(sync):
            then = time.perf_counter()
            await producer.send(c.Message(topic, body))
            latencies.append((time.perf_counter() - then) * 1000)
        latencies.sort()
        found["sync_p50_ms"] = latencies[sync // 2]
        found["sync_p99_ms"] = latencies[sync * 99 // 100]
    done, seen = asyncio.Event(), [0, 0.0]
    async def listener(messages, context):
        seen[1] = seen[1] or time.perf_counter()
        seen[0] += len(messages)
        if seen[0] >= count:
            done.set()
        return c.ConsumeConcurrentlyStatus.CONSUME_SUCCESS
    first = c.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer = c.AsyncPushConsumer(
        f"bench-ours-{time.time_ns()}", namesrv, c.ConsumerConfig(consume_from_where=first)
    )
    consumer.subscribe(topic)
    consumer.listen(listener)
    async with consumer:
        await asyncio.wait_for(done.wait(), 300)
        found["consume_rate"] = seen[0] / (time.perf_counter() - seen[1])
    with open("/proc/self/status") as status:
        found["rss_kib"] = next(int(l.split()[1]) for l in status if l.startswith("VmHWM"))
    import json  # the client itself does not need it
    print(json.dumps(found))

run(main())
"""


def round_of(command: list[str], topic: str, namesrv: str, options: argparse.Namespace) -> Any:
    """One process; its figures."""
    arguments = [namesrv, topic, str(options.messages), str(options.sync), str(options.size)]
    began_ms = str(int(time.time() * 1000))
    done = subprocess.run(
        [*command, *arguments, began_ms], capture_output=True, text=True, check=False, cwd=ROOT
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"error: {command[0]}: {done.stderr.strip()[-2000:]}")
    return json.loads(lines[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=30_000, help="asynchronous sends")
    parser.add_argument("--sync", type=int, default=2_000, help="synchronous sends")
    parser.add_argument("--size", type=int, default=100, help="body in bytes")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = java_home("5.3.3")
    compileall.compile_dir(ROOT / "broker", quiet=1)
    rounds: dict[str, list[dict[str, float]]] = {"java": [], "ours": []}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        classes = f"{folder / 'classes'}:{folder / 'lib' / '*'}"
        source = ROOT / "scripts" / "_bench" / "java" / "BenchClient.java"
        subprocess.run(
            ["javac", "-nowarn", "-proc:none", "-cp", classes, "-d", str(work), str(source)],
            check=True,
        )
        java = ["java", "-Xmx512m", f"-Duser.home={name}", "-cp", f"{work}:{classes}"]
        servers = JavaServers(folder)
        try:
            namesrv = servers.namesrv(work / "ns")
            daemon: Any = servers.broker(work / "b", work / "store", namesrv)
            for number in range(options.rounds):
                for client, command in (
                    ("java", [*java, "BenchClient"]),
                    ("ours", [sys.executable, "-c", OURS]),
                ):
                    topic = f"bench-{client}-{number}"
                    make_topic(daemon.address, topic, queues=8)
                    rounds[client].append(round_of(command, topic, namesrv, options))
        finally:
            close_all(servers.running)
    print(f"{'figure':14}{'ours':>12}{'java':>12}{'ratio':>8}  limit")
    missed = 0
    for figure, (sign, limit) in LIMITS.items():
        ours = statistics.median(one[figure] for one in rounds["ours"])
        theirs = statistics.median(one[figure] for one in rounds["java"])
        ratio = ours / theirs
        held = ratio >= limit if sign == ">=" else ratio <= limit
        missed += not held
        verdict = "" if held else "  missed"
        print(f"{figure:14}{ours:12.2f}{theirs:12.2f}{ratio:8.2f}  {sign} {limit}{verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
