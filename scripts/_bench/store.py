"""The ladder of the store: rates of the engine and the inspector relative to limits of the machine.

Each row is printed with its physical limit, measured in the same run and file system: copying
memory, reading the page cache, syncing a page. ``--mib`` sets the size of the log, ``--body`` the
size of a message body, ``--only`` picks rows by the begin of their name.
"""

import argparse
import mmap
import os
import platform
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from held import held, log_files

from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageExtBrokerInner, MessageStore, PutMessageStatus
from mqadmin.inspector.queries.find import find_key
from mqadmin.inspector.queries.summary import summarize

MIB = 1 << 20
QUEUES = 8
LOOKUPS = 20_000
SYNC_SECONDS = 2.0
# Like a broker's turn: arrived records are dispatched in one batch.
TURN = 64


class Row(NamedTuple):
    name: str
    rate: float  # operations or messages per second
    mib: float  # MiB/s of the log
    limit: str
    share: float  # of the limit


class Limits(NamedTuple):
    memcpy: float  # MiB/s
    cached_read: float  # MiB/s
    fdatasync: float  # per second
    mapped_sum: float = 0.0  # MiB/s, adding up the same mapping as 64-bit numbers


def best_of(runs: int, once: Callable[[], float]) -> float:
    return min(once() for _ in range(runs))


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def measure_limits(folder: Path) -> Limits:
    size = 256 * MIB
    path = folder / "limit"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        block = random.Random(1).randbytes(MIB)
        for _ in range(size // MIB):
            file.write(block)
    buffer = bytearray(32 * MIB)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapped:
        view = memoryview(mapped)

        def copy() -> None:
            for start in range(0, size, len(buffer)):
                buffer[:] = view[start : start + len(buffer)]

        def read() -> None:
            file.seek(0)
            small = memoryview(buffer)[: 4 * MIB]
            while file.readinto(small):
                pass

        copy()
        memcpy = size / MIB / best_of(3, lambda: seconds(copy))
        cached = size / MIB / best_of(3, lambda: seconds(read))
        view.release()
    path.unlink()
    return Limits(memcpy, cached, measure_fdatasync(folder))


def measure_fdatasync(folder: Path) -> float:
    """Syncs per second of a file that grows by 1 KiB in space that is already its own."""
    path = folder / "limit"
    block = bytes(1024)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 64 * MIB)
        os.fsync(file.fileno())
        count = 0
        end = time.perf_counter() + SYNC_SECONDS
        while time.perf_counter() < end:
            os.pwrite(file.fileno(), block, count * len(block))
            os.fdatasync(file.fileno())
            count += 1
    path.unlink()
    return count / SYNC_SECONDS


class Bench:
    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder = folder
        self.root = folder / "store"
        self.body = random.Random(2).randbytes(options.body)
        self.only = options.only
        self.rows: list[Row] = []
        self.limits = measure_limits(folder)
        self.number = 0
        self.size = 0  # of one record
        self.places: list[int] = []  # physical offset of every 64th message
        self.log_bytes = options.mib * MIB
        self.stopping = 0.0

    # --- pieces -------------------------------------------------------------------------------

    def wanted(self, name: str) -> bool:
        return not self.only or any(name.startswith(only) for only in self.only)

    def add(self, name: str, count: float, elapsed: float, limit: str, payload: float = 0) -> None:
        """``count`` operations in ``elapsed`` seconds over ``payload`` bytes of the log."""
        rate = count / elapsed
        mib = payload / MIB / elapsed
        value = getattr(self.limits, limit)
        share = (rate if limit == "fdatasync" else mib) / value
        self.rows.append(Row(name, rate, mib, limit if share else "", share))
        print_row(self.rows[-1])

    def config(self, **changes: object) -> MessageStoreConfig:
        return MessageStoreConfig(
            store_path_root_dir=str(self.root),
            disk_max_used_space_ratio=95,
            clean_file_forcibly_enable=False,
            **changes,  # type: ignore[arg-type]
        )

    def files_of(self, kind: str) -> list[Path]:
        return [path for path in (self.root / kind).rglob("*") if path.is_file()]

    @contextmanager
    def open(self, **options: object) -> Iterator[MessageStore]:
        store = MessageStore(self.config(), **options)  # type: ignore[arg-type]
        store.load()
        store.start()
        try:
            yield store
        finally:
            store.shutdown()

    def inner(self) -> MessageExtBrokerInner:
        self.number += 1
        number = self.number
        properties = b"KEYS\x01k%d\x02UNIQ_KEY\x017F0000010001%020d\x02TAGS\x01t%d\x02" % (
            number,
            number,
            number % 16,
        )
        return MessageExtBrokerInner("Bench", number % QUEUES, self.body, properties)

    # --- writing ------------------------------------------------------------------------------

    def append_and_dispatch(self) -> None:
        put_seconds = dispatch_seconds = 0.0
        deferred: list[Callable[[], None]] = []
        with self.open(defer=deferred.append) as store:
            count = 0
            while store.max_physical_offset < self.log_bytes:
                inners = [self.inner() for _ in range(TURN)]
                begin = time.perf_counter()
                for inner in inners:
                    result = store.put_message(inner)
                middle = time.perf_counter()
                for call in deferred:
                    call()
                dispatch_seconds += time.perf_counter() - middle
                put_seconds += middle - begin
                deferred.clear()
                assert result.status is PutMessageStatus.PUT_OK, result
                self.places.append(result.physical_offset)
                count += TURN
            self.size = result.store_size
            written = store.max_physical_offset
            self.add("append", count, put_seconds, "memcpy", written)
            self.add("dispatch", count, dispatch_seconds, "memcpy", written)
            both = put_seconds + dispatch_seconds
            self.add("append + dispatch", count, both, "memcpy", written)
            begin = time.perf_counter()
            store.flush()
            self.add("flush of the rest", 1, time.perf_counter() - begin, "memcpy")

    def sync_append(self, waiters: int) -> None:
        # Measured again each time: the load of a disk by others changes from moment to moment.
        self.limits = self.limits._replace(fdatasync=measure_fdatasync(self.folder))
        root, self.root = self.root, self.folder / f"sync{waiters}"
        store = MessageStore(self.config(flush_disk_type="SYNC_FLUSH"))
        store.load()
        store.start()
        answers: queue.SimpleQueue[PutMessageStatus] = queue.SimpleQueue()

        def send() -> None:
            store.await_flush(store.put_message(self.inner()).physical_end, answers.put)

        for _ in range(waiters):
            send()
        for _ in range(waiters * 10):
            answers.get()
            send()
        count = 0
        syncs = store.flusher.syncs
        begin = time.perf_counter()
        while time.perf_counter() - begin < SYNC_SECONDS:
            assert answers.get() is PutMessageStatus.PUT_OK
            count += 1
            send()
            store.dispatch()
        elapsed = time.perf_counter() - begin
        syncs = store.flusher.syncs - syncs
        for _ in range(waiters):
            answers.get()
        store.shutdown()
        shutil.rmtree(self.root)
        self.root = root
        self.add(f"sync append, {waiters} waiting", count, elapsed, "fdatasync")
        print(
            f"    {count / max(1, syncs):.1f} per fdatasync, "
            f"{self.limits.fdatasync:,.0f} of those/s"
        )

    # --- opening ------------------------------------------------------------------------------

    def recovery(self) -> None:
        for name, prepare in (
            ("open after a clean stop", lambda: None),
            ("recovery: killed", self._as_if_killed),
            ("recovery: power cut", self._as_if_power_cut),
            ("recovery: queues and index lost", self._without_derived),
        ):
            if not self.wanted(name):
                continue
            prepare()
            store = MessageStore(self.config())
            begin = time.perf_counter()
            report = store.load()
            elapsed = time.perf_counter() - begin
            count = report.scanned_bytes / self.size
            self.add(name, count, elapsed, "cached_read", report.scanned_bytes)
            print(f"    {elapsed:.3f} s, {report.scanned_bytes / MIB:.0f} MiB read")
            store.start()
            store.shutdown()

    def _abort(self, content: bytes) -> None:
        (self.root / "abort").write_bytes(content)

    def _as_if_killed(self) -> None:
        from broker.store.logfile.disk import Disk
        from broker.store.recovery.store_recovery import abort_content

        self._abort(abort_content(Disk(), str(self.root)))

    def _as_if_power_cut(self) -> None:
        (self.root / "checkpoint").unlink(missing_ok=True)
        (self.root / "queueEnds.json").unlink(missing_ok=True)
        self._abort(b"")

    def _without_derived(self) -> None:
        shutil.rmtree(self.root / "consumequeue")
        shutil.rmtree(self.root / "index")
        self._abort(b"")

    # --- reading ------------------------------------------------------------------------------

    def reading(self) -> None:
        rng = random.Random(3)
        with self.open() as store:
            total = read = 0
            begin = time.perf_counter()
            for queue_id in range(QUEUES):
                offset = 0
                while offset < store.get_max_offset("Bench", queue_id):
                    found = store.get_message("Bench", queue_id, offset, 32)
                    offset = found.next_begin_offset
                    total += found.message_count
                    read += found.total_bytes
            self.add("pull, 32 at a time", total, time.perf_counter() - begin, "memcpy", read)
            numbers = [rng.randrange(1, total) for _ in range(LOOKUPS)]
            begin = time.perf_counter()
            for number in numbers:
                found_by_key = store.query_message("Bench", f"k{number}", 32, 0, 1 << 62)
                assert found_by_key.buffers
            self.add("query by key", LOOKUPS, time.perf_counter() - begin, "memcpy")
            places = rng.choices(self.places, k=LOOKUPS)
            begin = time.perf_counter()
            for place in places:
                assert store.get_record_at(place) is not None
            self.add("view by offset", LOOKUPS, time.perf_counter() - begin, "memcpy")

    # --- the inspector ------------------------------------------------------------------------

    def inspecting(self) -> None:
        from mqadmin.inspector.directory import StoreDirectory
        from mqadmin.inspector.query import Query
        from mqadmin.inspector.verify.verifier import VerifyOptions, verify

        size = sum(path.stat().st_size for path in log_files(self.root))
        used = min(size, self.log_bytes)
        count = used / self.size
        store = StoreDirectory(str(self.root))
        jobs: dict[str, Callable[[], object]] = {
            "summary": lambda: summarize(store),
            "verify --fast": lambda: verify(store, VerifyOptions(check_crc=False)),
            "verify --full": lambda: verify(store, VerifyOptions(check_crc=True)),
        }
        for name, job in jobs.items():
            if self.wanted(name):
                # The first run of a machine compiles the native scanner.
                elapsed = best_of(2, lambda job=job: seconds(job))  # type: ignore[misc]
                self.add(name, count, elapsed, "cached_read", used)
        if self.wanted("find by key"):
            rng = random.Random(4)
            query = Query(topic="Bench")
            keys = [f"k{rng.randrange(1, int(count))}" for _ in range(200)]
            elapsed = seconds(
                lambda: [list(find_key(store, key, query, scan="never")) for key in keys]
            )
            self.add("find by key (offline)", len(keys), elapsed, "memcpy")
        self.repair(store, count, used)

    def scanning(self) -> None:
        """The scanner alone, one core, over the mapped files of the log."""
        import numpy as np

        from broker.store.format.vectorized import kernels
        from broker.store.format.vectorized.columns import WITH_CRC, WITH_PROPERTIES, scan_columns

        views = []
        for path in log_files(self.root):
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            views.append((np.frombuffer(mapped, dtype=np.uint8), int(path.name)))
        places = np.empty(1 << 22, dtype=np.int64)

        def walk() -> list[tuple[int, int]]:
            return [kernels.walk(v, base, 0, v.shape[0], places) for v, base in views]

        found = walk()
        count, used = sum(int(n) for n, _ in found), sum(int(end) for _, end in found)
        parts = [(v, base, int(end)) for (v, base), (_, end) in zip(views, found, strict=True)]

        def fields(scan_flags: int) -> int:
            return sum(
                batch.count
                for v, base, end in parts
                for batch in scan_columns(v, base, 0, end, scan_flags=scan_flags)
            )

        words = [v[: end // 8 * 8].view(np.uint64) for v, _, end in parts]
        once = best_of(3, lambda: seconds(lambda: [part.sum() for part in words]))
        summed = sum(part.nbytes for part in words) / MIB / once
        self.limits = self.limits._replace(mapped_sum=summed)
        print(f"    adding up the same mapping: {summed:,.0f} MiB/s")
        everything = WITH_CRC | WITH_PROPERTIES
        for name, job in (
            ("scan: walk", walk),
            ("scan: all fields", lambda: fields(WITH_PROPERTIES)),
            ("scan: all fields + CRC", lambda: fields(everything)),
        ):
            job()
            elapsed = best_of(3, lambda job=job: seconds(job))  # type: ignore[misc]
            self.add(name, count, elapsed, "mapped_sum", used)

    # --- tools that write copies --------------------------------------------------------------

    def repair(self, store: object, count: float, used: int) -> None:
        from mqadmin.inspector.query import Query
        from mqadmin.repair.export import export
        from mqadmin.repair.new_store import recover_store

        out = self.folder / "out"
        jobs: dict[str, Callable[[], object]] = {
            "recover into a new store": lambda: recover_store([self.root / "commitlog"], out),
            "export to NDJSON, no bodies": lambda: export(
                store,
                Query(),
                out,
                "ndjson",  # type: ignore[arg-type]
            ),
            "export to Parquet, with bodies": lambda: export(
                store,
                Query(body="text"),
                out,
                "parquet",  # type: ignore[arg-type]
            ),
        }
        for name, job in jobs.items():
            if self.wanted(name):
                self.add(name, count, seconds(job), "memcpy", used)
                shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)

    # --- relative to Java ----------------------------------------------------------------------

    def beside_java(self) -> None:
        """The same killed store, opened by the Java broker and by ours: start to readiness.

        The time for an empty store is shown in brackets and subtracted.
        """
        run = peers() / "run"
        if not run.exists():
            print("    (no kit for the Java broker: its recovery is not measured)")
            return
        shutil.rmtree(self.folder / "java", ignore_errors=True)
        for name, prepare in (
            ("killed", self._as_if_killed),
            ("power cut", self._as_if_power_cut),
        ):
            took: dict[str, float] = {}
            for side in ("java", "ours") * 2:
                for state in ("empty", "full"):
                    root = self.folder / "java" / "store"
                    if state == "full":
                        prepare()
                        shutil.copytree(self.root, root)
                        if name == "killed" and side == "ours":
                            self._abort_of(root)
                    else:
                        root.mkdir(parents=True)
                    os.sync()  # unwritten pages of the copy must not count as recovery
                    begin = time.perf_counter()
                    self._until_ready(side, run, root)
                    elapsed = time.perf_counter() - begin - self.stopping
                    queues = [p for p in root.glob("consumequeue/Bench/*/0*") if p.is_file()]
                    assert len(queues) >= QUEUES or state == "empty", f"{side} lost the queues"
                    key = f"{side} {state}"
                    took[key] = min(elapsed, took.get(key, elapsed))
                    shutil.rmtree(root.parent)
            java = took["java full"] - took["java empty"]
            ours = max(0.0, took["ours full"] - took["ours empty"])
            print(
                f"to Java: {name:10} ours {took['ours full']:.2f} s ({took['ours empty']:.2f}"
                f" empty), Java {took['java full']:.2f} s ({took['java empty']:.2f} empty):"
                f" recovery {ours:.2f} s against {java:.2f} s, ratio {ours / max(java, 0.01):.2f}",
                flush=True,
            )

    def _abort_of(self, root: Path) -> None:
        from broker.store.logfile.disk import Disk
        from broker.store.recovery.store_recovery import abort_content

        (root / "abort").write_bytes(abort_content(Disk(), str(root)))

    def _until_ready(self, side: str, run: Path, root: Path) -> None:
        """Start a broker over ``root``, wait for its ready line, stop it, report the times."""
        log_size = max([p.stat().st_size for p in root.glob("commitlog/*")] or [1 << 30])
        if side == "java":
            sizes = [f"mappedFileSizeCommitLog={log_size}", "flushDiskType=ASYNC_FLUSH"]
            options = [part for setting in sizes for part in ("-c", setting)]
            options += ["-c", "diskMaxUsedSpaceRatio=95"]
            command = [str(run), "broker", "5.3.3", "--store", str(root), *options]
        else:
            command = [sys.executable, "-m", "broker.server.startup", "--store", str(root)]
            command += ["--listen", "127.0.0.1:0"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            began = time.perf_counter()
            assert "READY" in line or "boot success" in line, (side, line)
            process.terminate()
            process.wait()
            self.stopping = time.perf_counter() - began

    # --- all ----------------------------------------------------------------------------------

    def run(self) -> None:
        limits = self.limits
        print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} CPUs")
        print(
            f"limits: memcpy {limits.memcpy:,.0f} MiB/s, page-cache read"
            f" {limits.cached_read:,.0f} MiB/s, fdatasync {limits.fdatasync:,.0f}/s"
        )
        print(f"log of {self.log_bytes // MIB} MiB, bodies of {len(self.body)} bytes\n")
        print(f"{'':34} {'per second':>12} {'MiB/s':>9} {'limit':>12} {'x limit':>9}")
        self.append_and_dispatch()
        for waiters in (1, 16, 64):
            if self.wanted("sync append"):
                self.sync_append(waiters)
        with held(log_files(self.root)):
            if self.wanted("open") or self.wanted("recovery"):
                self.recovery()
            derived = [p for kind in ("consumequeue", "index") for p in self.files_of(kind)]
            with held(derived):
                if self.wanted("pull") or self.wanted("query") or self.wanted("view"):
                    self.reading()
                if self.wanted("scan"):
                    self.scanning()
                self.inspecting()
        if self.wanted("relative to Java"):
            self.beside_java()


def peers() -> Path:
    """Where real Java programs can be started from, if anywhere."""
    kit = Path(__file__).parents[3] / "shared" / "peers"
    return Path(os.environ.get("MQ_PEERS_KIT") or kit)


def print_row(row: Row) -> None:
    mib = f"{row.mib:9,.0f}" if row.mib else f"{'':9}"
    share = f"{row.share:9.3f}" if row.share else f"{'':9}"
    limit = row.limit.replace("_", " ")
    print(f"{row.name:34} {row.rate:12,.0f} {mib} {limit:>12} {share}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench store", description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="size of the log (default 256)")
    parser.add_argument("--body", type=int, default=1024, help="bytes of a body (default 1024)")
    parser.add_argument("--only", action="append", default=[], help="rows that begin so")
    parser.add_argument("--dir", help="where to put the store (default: the temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mq-bench-store-", dir=options.dir) as folder:
        Bench(Path(folder), options).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
