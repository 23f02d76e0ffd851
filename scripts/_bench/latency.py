"""Latency of a waiting consumer: our broker and the Java broker in turn, the same generator.

A producer sends at a fixed rate, a consumer waits in long-polling pulls. The latency of a message
runs from the time at which its send was due until the consumer has it. The generator is the bench
kit's `mqload tail`. Run on an idle machine: the broker shares its cores with the generator.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from java import KIT
from local_broker import LocalBroker, broker_names

TOPIC, QUEUES, BODY = "BenchLatency", 4, 1024
WARM_RATE, WARM_S = 2_000, 3  # a JVM compiles its hot methods


class Result(NamedTuple):
    """Latencies in microseconds, received messages per second, lost and repeated messages."""

    p50: float
    p99: float
    rate: float
    wrong: int


def tail(mqload: Path, address: str, rate: int, seconds: int) -> Result:
    """Send at ``rate`` per second for ``seconds``, with one waiting consumer."""
    command = [mqload, "tail", "--addr", address, "--topic", TOPIC, "--queues", QUEUES]
    command += ["--body", BODY, "--rate", rate, "--seconds", seconds, "--warmup", 1]
    command += ["--inflight", 64, "--connections", 4]
    done = subprocess.run([*map(str, command)], check=False, capture_output=True, text=True)
    if not done.stdout.strip():
        sys.exit(f"error: mqload: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    latency = found["latency_us"]
    wrong = abs(int(found["missing"])) + int(found["duplicates"])
    return Result(latency["p50"], latency["p99"], found["msgs_per_s"], wrong)


def measure(name: str, mqload: Path, rates: list[int], seconds: int) -> list[Result]:
    """One broker on a fresh store: a warm-up, then each rate."""
    with (
        tempfile.TemporaryDirectory(prefix="mq-bench-latency-") as work,
        LocalBroker(name, Path(work)) as target,
    ):
        topic = [mqload, "topic", "--addr", target.address, "--topic", TOPIC]
        subprocess.run([*topic, "--queues", str(QUEUES)], check=True, stdout=subprocess.DEVNULL)
        tail(mqload, target.address, WARM_RATE, WARM_S)
        return [tail(mqload, target.address, rate, seconds) for rate in rates]


def main() -> int:
    """Print one line per rate and broker, and the ratio of the medians."""
    parser = argparse.ArgumentParser(prog="scripts/bench latency", description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 10_000], help="per second")
    parser.add_argument("--seconds", type=int, default=8, help="per measurement (default 8)")
    parser.add_argument("--pairs", type=int, default=2, help="turns of each broker (default 2)")
    options = parser.parse_args()
    if not (KIT / "build").exists():
        sys.exit(
            f"error: no bench kit at {KIT}\nhint: name it: MQ_BENCH_KIT=DIR scripts/bench latency"
        )
    names = broker_names()
    seen: dict[str, list[list[Result]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as folder:
        subprocess.run([KIT / "build", folder], check=True, stdout=subprocess.DEVNULL)
        for _ in range(options.pairs):
            for name in names:
                found = measure(name, Path(folder) / "mqload", options.rates, options.seconds)
                seen[name].append(found)
    print(f"{'rate':>8} {'broker':8} {'p50 us':>9} {'p99 us':>9} {'received/s':>11} {'wrong':>6}")
    for number, rate in enumerate(options.rates):
        best = {name: min(turn[number] for turn in turns) for name, turns in seen.items()}
        for name, one in best.items():
            line = f"{rate:8} {name:8} {one.p50:9.0f} {one.p99:9.0f} {one.rate:11.0f} {one.wrong:6}"
            print(line)
        if len(best) == 2:
            print(f"{rate:8} p50 ours/java {best['ours'].p50 / best['java'].p50:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
