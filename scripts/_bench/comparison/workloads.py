"""The workloads: arguments of the load generator, and the figures of its answer.

A phase is one start of a broker on a new store. Each workload of a phase runs against the same
broker process, so a disturbed run can be repeated at once.
"""

import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from comparison.brokers import core_steps
from comparison.machine import read_processes, tree_seconds
from comparison.measuring import Figures

STORED = 50_000  # messages with keys, for pull, query and view
SEED = "7"
WARM_UP_S = 0.5
LATENCIES = ("p50", "p99", "p999")
FAILURES = ("timeouts", "closed", "unmatched", "bad_frames", "bad_records", "wrong")
PHASES = {"async": "ASYNC_FLUSH", "sync": "SYNC_FLUSH", "ladder": "ASYNC_FLUSH"}


class Workload(NamedTuple):
    """Name, phase, mode and arguments of the generator; ``cores``: the broker's limit, or 0.

    ``repeat_s``: a call of the generator takes a fraction of a second and is repeated for so long,
    after as many calls in WARM_UP_S that are not counted.
    """

    name: str
    phase: str
    mode: str
    words: tuple[str, ...]
    cores: int = 0
    repeat_s: float = 0.0


def _send(connections: int, in_flight: int, *more: str) -> tuple[str, ...]:
    shape = ("--connections", str(connections), "--inflight", str(in_flight))
    return ("--topic", "bench_send", "--body", "1024", *shape, "--check", *more)


def workloads(seconds: float, processors: int) -> list[Workload]:
    """All workloads, in order; ``seconds``: length of one run, fixed rates take twice as long."""
    bound = ("--seconds", f"{seconds:g}", "--warmup", "0.5")
    longer = ("--seconds", f"{2 * seconds:g}", "--warmup", "1")
    rate = ("--rate", "2000", *longer)
    keys = ("--topic", "bench_keys", "--seed", SEED)
    found = []
    for flush in ("async", "sync"):
        for connections, in_flight in ((1, 1), (16, 1), (64, 1), (16, 32)):
            name = f"send.{flush}.{connections}x{in_flight}"
            words = (*_send(connections, in_flight), *bound)
            found.append(Workload(name, flush, "send", words))
        found.append(Workload(f"open.{flush}.2k", flush, "send", (*_send(16, 64), *rate)))
    batch = (*_send(4, 1, "--batch", "32"), *bound)
    tail = ("--topic", "bench_tail", "--rate", "1000", *longer)
    found += [
        Workload("send.async.batch32.4x1", "async", "send", batch),
        Workload("tail.1k", "async", "tail", tail),
        Workload("pull.4conn", "async", "pull", (*keys, "--connections", "4"), repeat_s=seconds),
        Workload(
            "query.key.8x1",
            "async",
            "query",
            (*keys, "--sample", str(STORED), "--connections", "8", *bound),
        ),
        Workload("view.id.8x1", "async", "view", (*keys[:2], "--connections", "8", *bound)),
    ]
    for cores in core_steps(processors):
        for connections, in_flight in ((16, 1), (16, 32)):
            name = f"ladder.{connections}x{in_flight}.{cores}core"
            words = (*_send(connections, in_flight), *bound)
            found.append(Workload(name, "ladder", "send", words, cores))
    return found


class Generator:
    """The load generator against one broker."""

    def __init__(self, program: Path, address: str, pid: int) -> None:
        self._program = program
        self._address = address
        self._pid = pid

    def call(self, mode: str, *words: str) -> dict[str, object]:
        """Its answer; ``failed`` with the reason if there is none."""
        command = [str(self._program), mode, "--addr", self._address, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        try:
            answer = json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            return {"failed": done.stderr.strip() or f"exit status {done.returncode}"}
        return dict(answer)

    def run(self, workload: Workload) -> Figures:
        """One run with the broker's CPU time."""
        if workload.repeat_s:
            self._repeat(workload, WARM_UP_S)
        before, begin = self._cpu_seconds(), time.monotonic()
        answers = self._repeat(workload, workload.repeat_s)
        wall = time.monotonic() - begin
        return figures_of(joined(answers), self._cpu_seconds() - before, wall)

    def _repeat(self, workload: Workload, seconds: float) -> list[dict[str, object]]:
        """The answers of at least one call, and of further ones until ``seconds`` have passed."""
        begin = time.monotonic()
        answers = [self.call(workload.mode, *workload.words)]
        while time.monotonic() - begin < seconds:
            answers.append(self.call(workload.mode, *workload.words))
        return answers

    def prepare(self, topics: Iterator[str] | list[str]) -> None:
        """Create topics of four queues."""
        for topic in topics:
            answer = self.call("topic", "--topic", topic, "--queues", "4")
            if answer.get("code") != 0:
                raise RuntimeError(f"{self._address}: topic {topic} was not created: {answer}")

    def warm_up(self, seconds: float) -> None:
        """Unmeasured load: a JVM compiles, our broker loads its compiled loops."""
        for shape in (("16", "32"), ("16", "1"), ("1", "1")):
            words = ("--connections", shape[0], "--inflight", shape[1])
            self.call("send", "--topic", "bench_warm", "--seconds", f"{seconds / 3:g}", *words)

    def fill_keys(self) -> None:
        """Store the messages of pull, query and view."""
        words = ("--messages", str(STORED), "--connections", "16", "--inflight", "8", "--keys")
        answer = self.call("send", "--topic", "bench_keys", "--seed", SEED, *words, "--check")
        if answer.get("acked_total") != STORED:
            raise RuntimeError(f"{self._address}: {STORED} messages were not stored: {answer}")

    def _cpu_seconds(self) -> float:
        return tree_seconds(read_processes(), self._pid)


def _value(answer: dict[str, object], *names: str) -> float:
    for name in names:
        value = answer.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return 0.0


def joined(answers: Sequence[dict[str, object]]) -> dict[str, object]:
    """One answer for repeated calls: the rate of all, latencies of the median call, any failure."""
    if len(answers) == 1:
        return answers[0]
    figures = [figures_of(one, 0.0, 1.0) for one in answers]
    for one, answer in zip(figures, answers, strict=True):
        if one["errors"]:
            return answer
    messages = sum(_value(one, "messages") for one in answers)
    took = sum(_value(one, "messages") / _value(one, "msgs_per_s") for one in answers)
    latencies = {
        name: statistics.median(one[f"{name}_us"] for one in figures) for name in LATENCIES
    }
    return {"messages": messages, "msgs_per_s": messages / took, "latency_us": latencies}


def figures_of(answer: dict[str, object], cpu_s: float, wall_s: float) -> Figures:
    """The figures of a generator's answer; ``errors`` counts everything that failed."""
    errors = sum(_value(answer, name) for name in FAILURES)
    codes = answer.get("errors")
    errors += sum(codes.values()) if isinstance(codes, dict) else 0
    errors += ("failed" in answer) + (answer.get("check", "ok") != "ok")
    figures = {"errors": float(errors), "server_cores": cpu_s / wall_s}
    if "msgs_per_s" in answer:
        figures["msgs_per_s"] = _value(answer, "msgs_per_s")
    latencies = answer.get("latency_us")
    if isinstance(latencies, dict):
        figures |= {f"{name}_us": float(latencies[name]) for name in LATENCIES}
    total = _value(answer, "acked_total", "found_total", "received", "messages")
    if total:
        figures["cpu_us_per_msg"] = cpu_s * 1e6 / total
    return figures


def disk_figures(folder: Path, seconds: float) -> Figures:
    """Appends of 1 KiB to reserved space with ``fdatasync`` each: the limit of SYNC_FLUSH 1 x 1."""
    path = folder / "disk-limit"
    length = 64 << 20
    took = []
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(fd, 0, length)
        os.fsync(fd)
        record, position = bytes(range(256)) * 4, 0
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            then = time.perf_counter()
            os.pwrite(fd, record, position)
            os.fdatasync(fd)
            took.append(time.perf_counter() - then)
            position = (position + len(record)) % length
    finally:
        os.close(fd)
        path.unlink()
    took.sort()
    return {
        "syncs_per_s": len(took) / sum(took),
        "p50_us": took[len(took) // 2] * 1e6,
        "p99_us": took[len(took) * 99 // 100] * 1e6,
    }
