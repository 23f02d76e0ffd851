"""Our broker, without and with the extra `fast`, and the Java broker: in turn, in one run.

Each run is printed with the machine's state: CPU time of other processes, and steal. A run in which
either took more than 10 % is repeated, at most three times in all; a row with such a run has no
ratio. Everything is written to the result file; README.md's performance table is generated from it.
"""

import argparse
import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from io import TextIOWrapper
from pathlib import Path

from comparison.brokers import Target, await_fast_path, set_cores, targets
from comparison.machine import Watch, read_processes, tree_seconds
from comparison.measuring import Figures, Run, measure
from comparison.rendering import readme_table, replace_table, run_line, summary_lines
from comparison.results import ResultError, Results, decode, encode, read_environment
from comparison.workloads import PHASES, Generator, Workload, disk_figures, workloads
from java import KIT, ROOT, java_jars
from local_broker import LocalBroker, free_port

RESULT_FILE = ROOT / "scripts" / "_bench" / "results.json"
README = ROOT / "README.md"
LOCK_FILE = Path(tempfile.gettempdir()) / "mqadmin-bench.lock"
IDLE_S = 3.0


class Session:
    """One call: measures, prints each run, keeps the results."""

    def __init__(self, options: argparse.Namespace, generator: Path, work: Path) -> None:
        self._options = options
        self._generator = generator
        self._work = work
        self._watch = Watch()
        self._pair = ""
        java_home = java_jars().parent.name if "java" in options.names else ""
        chosen = {
            "pairs": options.pairs,
            "seconds": options.seconds,
            "warm_up": options.warm_up,
        }
        self.results = Results(read_environment(ROOT, java_home), chosen)

    def run(self, brokers: list[Target], save: Callable[[], None]) -> None:
        """All pairs; ``save`` is called after each, so an interrupted call loses one pair."""
        for pair in range(1, self._options.pairs + 1):
            self._pair = f"{pair}/{self._options.pairs}"
            if self._wanted("disk.fdatasync"):
                self._measure("disk.fdatasync", "disk", lambda: disk_figures(self._work, 2.0))
            # A broker may profit from memory that the one before it freed: each is first once.
            first = (pair - 1) % len(brokers)
            in_turn = brokers[first:] + brokers[:first]
            for phase in PHASES:
                for target in in_turn:
                    self._phase(phase, target)
            for target in in_turn:
                if self._wanted("start.empty"):
                    self._measure("start.empty", target.name, partial(self._start, target))
            save()

    def _wanted(self, name: str) -> bool:
        return not self._options.only or name.startswith(tuple(self._options.only))

    def _measure(self, workload: str, target: str, work: Callable[[], Figures]) -> Run:
        run = measure(
            work,
            self._watch,
            attempts=self._options.attempts,
            quiet_s=self._options.quiet_s,
        )
        self.results.row(workload).add(target, run)
        print(run_line(workload, self._pair, target, run), flush=True)
        return run

    def _broker(self, target: Target, folder: str, port: int, flush: str) -> LocalBroker:
        settings = {"flushDiskType": flush, **target.settings}
        return LocalBroker(target.program, Path(folder), settings, port=port, java_heap="2g")

    def _phase(self, phase: str, target: Target) -> None:
        chosen = [
            one
            for one in workloads(self._options.seconds, os.cpu_count() or 1)
            if one.phase == phase and self._wanted(one.name)
        ]
        idle = phase == "async" and self._wanted("idle.memory")
        if not chosen and not idle:
            return
        os.sync()  # no write-back left over from the broker before
        with (
            tempfile.TemporaryDirectory(dir=self._work) as folder,
            self._broker(target, folder, free_port(), PHASES[phase]) as broker,
        ):
            if idle:
                self._measure("idle.memory", target.name, lambda: _idle(broker.process.pid))
            if not chosen:
                return
            generator = Generator(self._generator, broker.address, broker.process.pid)
            generator.prepare(["bench_send", "bench_warm", "bench_keys", "bench_tail"])
            generator.warm_up(self._options.warm_up)
            if target.name == "fast":
                await_fast_path(broker, lambda: generator.warm_up(self._options.warm_up))
            if any(one.words[1] == "bench_keys" for one in chosen):
                generator.fill_keys()
            for workload in chosen:
                self._one(generator, workload, target, broker)

    def _one(
        self, generator: Generator, workload: Workload, target: Target, broker: LocalBroker
    ) -> None:
        if workload.cores:
            set_cores(broker.process.pid, set(range(workload.cores)))
        self._measure(workload.name, target.name, lambda: generator.run(workload))

    def _start(self, target: Target) -> Figures:
        """Seconds from the start of the process to the first answer."""
        port = free_port()
        probe_words = (
            "probe",
            "--addr",
            f"127.0.0.1:{port}",
            "--topic",
            "bench",
            "--timeout",
            "60",
        )
        with (
            tempfile.TemporaryDirectory(dir=self._work) as folder,
            subprocess.Popen(
                [self._generator, *probe_words], stdout=subprocess.PIPE, text=True
            ) as probe,
        ):
            begin_ns = time.monotonic_ns()
            with self._broker(target, folder, port, "ASYNC_FLUSH"):
                text, _ = probe.communicate(timeout=90)
        answer_ns = int(text.partition('"answer_ns":')[2].partition(",")[0].rstrip("}\n "))
        return {"answer_s": (answer_ns - begin_ns) / 1e9}


def _idle(pid: int) -> Figures:
    """Resident memory and CPU of a broker that was just started and has no clients."""
    time.sleep(1)
    before = tree_seconds(read_processes(), pid)
    time.sleep(IDLE_S)
    cpu = tree_seconds(read_processes(), pid) - before
    status = Path(f"/proc/{pid}/status").read_text()
    rss_kib = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
    return {"rss_mib": rss_kib / 1024, "cpu_pct": cpu / IDLE_S * 100}


def write_readme(path: Path) -> None:
    """Generate README.md's performance table from a result file."""
    try:
        table = readme_table(decode(path.read_text(encoding="utf-8")))
        README.write_text(
            replace_table(README.read_text(encoding="utf-8"), table), encoding="utf-8"
        )
    except (OSError, ResultError, ValueError) as error:
        sys.exit(f"error: {path}: {error}")


def parse(words: list[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="scripts/bench report", description=__doc__)
    parser.add_argument("--pairs", type=int, default=3, help="runs of each broker (default 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of one run (default 4)")
    parser.add_argument("--warm-up", type=float, default=12.0, help="seconds after a start (12)")
    parser.add_argument("--attempts", type=int, default=3, help="of a disturbed run (default 3)")
    parser.add_argument("--quiet-s", type=float, default=10.0, help="wait before a repetition (10)")
    parser.add_argument("--only", type=lambda text: text.split(","), help="prefixes of workloads")
    parser.add_argument("--targets", type=lambda text: text.split(","), help="java,plain,fast")
    parser.add_argument("--out", type=Path, help="result file (default: none with --only)")
    parser.add_argument("--update", action="store_true", help="keep the other rows of the file")
    parser.add_argument("--show", type=Path, help="print the tables of a result file; measure none")
    parser.add_argument(
        "--table", action="store_true", help="write README.md's table, measure none"
    )
    return parser.parse_args(words)


def lock_machine(path: Path = LOCK_FILE) -> TextIOWrapper:
    """The lock of this machine: two calls would disturb each other without either noticing it.

    While one repeats a disturbed run, the other one waits for a quiet machine, and so on in turn.
    """
    file = path.open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        sys.exit(f"error: {path}: another measurement runs\nhint: wait for it, or end its process")
    return file


def check_machine(results: Results, before: Results | None, path: Path | None) -> None:
    """Refuse to update the rows of another machine; called before anything is measured."""
    try:
        results.with_rows_of(before)
    except ResultError as error:
        sys.exit(f"error: {path}: {error}\nhint: measure all rows, without --update")


def main() -> int:
    options = parse(sys.argv[1:])
    out = options.out or (None if options.only or options.targets else RESULT_FILE)
    if options.table:
        write_readme(options.out or RESULT_FILE)
        return 0
    if options.show:
        print("\n".join(summary_lines(decode(options.show.read_text(encoding="utf-8")))))
        return 0
    brokers = targets(options.targets)
    options.names = [target.name for target in brokers]
    missing = {"java", "plain", "fast"} - set(options.names)
    if missing and not options.targets:
        print(f"note: not measured, not available here: {', '.join(sorted(missing))}")
    if not (KIT / "build").exists():
        sys.exit(f"error: no bench kit at {KIT}\nhint: MQ_BENCH_KIT=DIR scripts/bench report")
    before = decode(out.read_text(encoding="utf-8")) if options.update and out else None
    lock = lock_machine()  # held until the process ends
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as temporary:
        work = Path(temporary)
        subprocess.run([KIT / "build", work], check=True)
        session = Session(options, work / "mqload", work)
        check_machine(session.results, before, out)
        begin = time.monotonic()

        def save() -> None:
            """Write the result file."""
            if out is not None:
                out.write_text(encode(session.results.with_rows_of(before)), encoding="utf-8")

        session.run(brokers, save)
        lock.close()
        print(f"\nmeasured in {(time.monotonic() - begin) / 60:.1f} minutes")
    print("\n".join(summary_lines(session.results)))
    if out is not None:
        print(f"written: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
