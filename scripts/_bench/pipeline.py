"""The pipeline and the scanner it is made of: the cost of Spark, and from which size it pays.

All ratios come from one run over one generated log, in the page cache. The limit is the
time of one thread of this process for the same columns of the same bytes: decode them into Arrow
(``scan``), or decode and group them. ``--mib`` sets the size of a log, ``--body`` the bodies
(repeatable), ``--only`` selects parts by name: read, parquet, cores, commands.
"""

import argparse
import mmap
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from held import held, log_files

from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import encode_record, field_position
from broker.store.format.commitlog import encode_blank, file_name, fits
from mqadmin.inspector.export import arrow
from mqadmin.pipeline.export import Export, ExportSource
from mqadmin.pipeline.jobs.export import ALL
from mqadmin.pipeline.spark.session import SparkSettings, spark_session

MIB = 1 << 20
GIB = 1 << 30
FILE_BYTES = 256 * MIB
TOPICS = ("orders", "payments", "invoices", "clicks", "audit", "%RETRY%billing", "%DLQ%billing")
WEIGHTS = (30, 20, 12, 25, 8, 4, 1)
QUEUES = 8
TAGS = 16
BODIES = 251
NOW = 1_790_000_000_000
GROUPED = ("topic", "tags", "size")
# Bodies are checked when crc_ok is asked for: without it the two sides compare as decoders alone.
DECODED = tuple(name for name in arrow.SCHEMA.names if name not in ("crc_ok", "damage"))
CHECKED = (*DECODED, "crc_ok")

FLOORS = {
    "all columns through Spark": 0.2,
    "all columns and CRC through Spark": 0.2,
    "header aggregate through Spark": 0.35,
    "task-side Parquet": 0.35,
    "task-side Parquet by df.write.parquet": 4.0,
}


# --- a log -----------------------------------------------------------------------------------


class Template:
    """A record of one topic and tag, patched for every message: the layout stays in one place."""

    def __init__(self, topic: str, tag: int, body: int) -> None:
        properties = {"KEYS": f"{0:012d}", "UNIQ_KEY": f"{0:032X}", "TAGS": f"tag{tag:02d}"}
        message = MessageExt(
            topic,
            bytes(body),
            encode_properties(properties),
            born_host_raw=bytes((10, 1, 2, tag, 0, 0, 0xD4, 0x31)),
            store_host_raw=bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F)),
        )
        self.data = bytearray(encode_record(message))
        self.key_at = self.data.index(b"KEYS\x01") + 5
        self.uniq_at = self.data.index(b"UNIQ_KEY\x01") + 9
        self.body_at = field_position("bodyLength") + 4


def generate(root: Path, size: int, body: int, file_bytes: int = FILE_BYTES) -> int:
    """A CommitLog of at least ``size`` bytes; the number of its messages."""
    rng = random.Random(body)
    bodies = [rng.randbytes(body) for _ in range(BODIES)]
    sums = [(zlib.crc32(one) & 0x7FFFFFFF).to_bytes(4, "big") for one in bodies]
    templates = [[Template(topic, tag, body) for tag in range(TAGS)] for topic in TOPICS]
    order = rng.choices(range(len(TOPICS)), WEIGHTS, k=4099)
    at = {
        name: field_position(name)
        for name in (
            *("bodyCRC", "queueId", "queueOffset", "physicalOffset"),
            *("bornTimestamp", "storeTimestamp"),
        )
    }
    offsets = [[0] * QUEUES for _ in TOPICS]
    (root / "commitlog").mkdir(parents=True)
    count = place = 0
    while place < size:
        start = place
        left = file_bytes
        pieces = []
        while True:
            topic = order[count % len(order)]
            template = templates[topic][count * 7 % TAGS]
            data = template.data
            if not fits(len(data), left):
                pieces.append(encode_blank(left))
                break
            queue = count % QUEUES
            which = count % BODIES
            born = (NOW + count // 4).to_bytes(8, "big")
            data[at["bodyCRC"] : at["bodyCRC"] + 4] = sums[which]
            data[at["queueId"] + 3] = queue
            data[at["queueOffset"] : at["queueOffset"] + 8] = offsets[topic][queue].to_bytes(
                8, "big"
            )
            data[at["physicalOffset"] : at["physicalOffset"] + 8] = place.to_bytes(8, "big")
            data[at["bornTimestamp"] : at["bornTimestamp"] + 8] = born
            data[at["storeTimestamp"] : at["storeTimestamp"] + 8] = (NOW + count // 4 + 3).to_bytes(
                8, "big"
            )
            data[template.body_at : template.body_at + body] = bodies[which]
            data[template.key_at : template.key_at + 12] = b"%012d" % count
            data[template.uniq_at : template.uniq_at + 32] = b"%032X" % count
            pieces.append(bytes(data))
            offsets[topic][queue] += 1
            count += 1
            place += len(data)
            left -= len(data)
        with (root / "commitlog" / file_name(start)).open("wb") as file:
            file.writelines(pieces)
            file.truncate(file_bytes)
        place = start + file_bytes
    return count


def log_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in log_files(root))


# --- one thread of this process --------------------------------------------------------------


def batches(root: Path, names: tuple[str, ...]) -> Iterator[Any]:
    """Arrow batches of a log, file after file."""
    for path in log_files(root):
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        maker = arrow.BatchMaker(mapped, names, store=str(root))
        yield from arrow.file_batches(mapped, int(path.name), maker)


def scan(root: Path, names: tuple[str, ...]) -> int:
    return sum(batch.num_rows for batch in batches(root, names))


def group(root: Path) -> Any:
    """Messages and bytes by topic and tag, batch by batch."""
    import pyarrow as pa

    keys = ["topic", "tags"]
    parts = [
        pa.Table.from_batches([batch])
        .group_by(keys, use_threads=False)
        .aggregate([("size", "count"), ("size", "sum")])
        for batch in batches(root, GROUPED)
    ]
    whole = pa.concat_tables(parts).group_by(keys, use_threads=False)
    return whole.aggregate([("size_count", "sum"), ("size_sum", "sum")])


# --- through Spark ---------------------------------------------------------------------------


def read(spark: Any, root: Path, names: tuple[str, ...]) -> Any:
    options = {"columns": ",".join(names)}
    return spark.read.format("rocketmq-store").options(**options).load(str(root))


def spark_scan(spark: Any, root: Path, names: tuple[str, ...]) -> None:
    read(spark, root, names).write.format("noop").mode("overwrite").save()


def spark_group(spark: Any, root: Path) -> list[Any]:
    from pyspark.sql import functions as F

    found = read(spark, root, GROUPED).groupBy("topic", "tags")
    rows: list[Any] = found.agg(F.count("*"), F.sum("size")).collect()
    return rows


def spark_parquet(spark: Any, root: Path, out: Path) -> None:
    """Parquet by day and topic, written by Spark's own writer."""
    from pyspark.sql import functions as F

    frame = read(spark, root, ALL).withColumn("dt", F.date_format("store_time", "yyyy-MM-dd"))
    frame.write.mode("overwrite").partitionBy("dt", "topic").parquet(str(out))


def task_parquet(spark: Any, root: Path, out: Path) -> int:
    """Parquet by day and topic, written by the tasks."""
    spark.dataSource.register(ExportSource)
    export = Export(spark, out, stores=[str(root)], columns=list(ALL))
    export.run()
    export.finish({})
    return sum(file.messages for record in export.records() for file in record.files)


class Memory:
    """The peak private memory of a process of each kind, in MiB; files do not count."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            for pid in descendants(os.getpid()):
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                    words = Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    continue
                # A process that was just forked still looks like its parent.
                kind = "worker" if b"pyspark" in words and b"-Xmx" not in words else "JVM"
                fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
                used = int(fields.get("RssAnon", "0 kB").split()[0]) // 1024
                self.most[kind] = max(self.most.get(kind, 0), used)


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(words[1]), []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        own = children.get(todo.pop(), [])
        found += own
        todo += own
    return found


# --- the run ---------------------------------------------------------------------------------


class Row(NamedTuple):
    name: str
    seconds: float
    ratio: float | None = None
    reference: str = ""


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def best(call: Callable[[], object], runs: int = 3, before: Callable[[], object] = int) -> float:
    """The quickest of some runs; ``before`` each of them something that is not measured."""
    return min((before(), seconds(call))[1] for _ in range(runs))


def side_by_side(
    one: Callable[[], object],
    other: Callable[[], object],
    runs: int = 4,
    before: Callable[[], object] = int,
) -> tuple[float, float]:
    """The best of each, taken in turn: other load of the machine affects both."""
    found = [(best(one, 1, before), best(other, 1, before)) for _ in range(runs)]
    return min(pair[0] for pair in found), min(pair[1] for pair in found)


class Bench:
    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder = folder
        self.options = options
        self.out = folder / "out"
        self.size = 0
        self.missed: list[str] = []

    def wanted(self, part: str) -> bool:
        return not self.options.only or part in self.options.only

    def report(self, row: Row) -> None:
        rate = self.size / GIB / row.seconds
        text = f"{row.name:38} {row.seconds:8.2f} s {rate:7.2f} GiB/s"
        if row.ratio is not None:
            floor = FLOORS.get(row.name)
            text += f" {row.ratio:7.2f}x of {row.reference}"
            if floor is not None:
                text += f" (floor {floor:g}: {'holds' if row.ratio >= floor else 'MISSED'})"
                if row.ratio < floor:
                    self.missed.append(row.name)
        print(text, flush=True)

    def clear(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        os.sync()  # neither way waits for dirty pages of the other

    def one_body(self, body: int) -> None:
        root = self.folder / f"log{body}"
        begin = time.perf_counter()
        count = generate(root, self.options.mib * MIB, body)
        self.size = log_bytes(root)
        print(
            f"\n{count:,} messages, bodies of {body} bytes, log of {self.size / GIB:.2f} GiB"
            f" (made in {time.perf_counter() - begin:.0f} s)"
        )
        with held(log_files(root)):
            self.one_log(root, count)
        self.clear()
        shutil.rmtree(root)

    def one_log(self, root: Path, count: int) -> None:
        scan(root, GROUPED)  # compiles the native scanner
        assert scan(root, ("size",)) == count
        with spark_session(SparkSettings(master="local[2]")) as spark, Memory() as memory:
            spark_group(spark, root)  # the machine warms up
            if self.wanted("read"):
                self.reading(spark, root)
            if self.wanted("parquet"):
                self.parquet(spark, root, count)
            two = self.splits(spark, root) if self.wanted("cores") else {}
        for kind, used in sorted(memory.most.items()):
            print(f"{'most memory of one ' + kind:38} {used:8,} MiB")
        if two:
            with spark_session(SparkSettings(master="local[1]")) as spark:
                spark_group(spark, root)
                for name, one in self.splits(spark, root).items():
                    self.report(Row(f"1 core, {name}", one))
                    self.report(Row(f"2 cores, {name}", two[name], one / two[name], "1 core"))

    def reading(self, spark: Any, root: Path) -> None:
        grouped = {(row[0], row[1]): (row[2], row[3]) for row in spark_group(spark, root)}
        assert grouped == {
            (row["topic"], row["tags"]): (row["size_count_sum"], row["size_sum_sum"])
            for row in group(root).to_pylist()
        }, "Spark and the scanner count differently"
        for name, one, through in (
            (
                "all columns",
                lambda: scan(root, DECODED),
                lambda: spark_scan(spark, root, DECODED),
            ),
            (
                "all columns and CRC",
                lambda: scan(root, CHECKED),
                lambda: spark_scan(spark, root, CHECKED),
            ),
            ("header aggregate", lambda: group(root), lambda: spark_group(spark, root)),
        ):
            local, took = side_by_side(one, through)
            self.report(Row(f"{name}, one thread", local))
            self.report(Row(f"{name} through Spark", took, local / took, "one thread"))

    def parquet(self, spark: Any, root: Path, count: int) -> None:
        def write() -> None:
            assert task_parquet(spark, root, self.out) == count

        local, tasks = side_by_side(lambda: scan(root, CHECKED), write, before=self.clear)
        self.report(Row("task-side Parquet", tasks, local / tasks, "one thread's scan with CRC"))

        def whole_write() -> None:
            spark_parquet(spark, root, self.out)
            os.sync()  # ours is on the disk when it ends

        whole, again = side_by_side(whole_write, write, 3, before=self.clear)
        self.report(
            Row(
                "df.write.parquet, until on disk",
                whole,
                local / whole,
                "one thread's scan with CRC",
            )
        )
        name = "task-side Parquet by df.write.parquet"
        self.report(Row(name, again, whole / again, "df.write.parquet"))
        self.clear()

    def splits(self, spark: Any, root: Path) -> dict[str, float]:
        return {
            "header aggregate": best(lambda: spark_group(spark, root)),
            "all columns and CRC": best(lambda: spark_scan(spark, root, CHECKED), 2),
            "task-side Parquet": best(lambda: task_parquet(spark, root, self.out), 2, self.clear),
        }

    # --- whole commands -----------------------------------------------------------------------

    def commands(self) -> None:
        """From prompt to prompt: the cost of each size, and the size where both are equal."""
        root = self.folder / "large"
        largest = max(self.options.gib)
        print(f"\nwhole commands, bodies of 1024 bytes, up to {largest:g} GiB")
        generate(root, int(largest * GIB), 1024)
        with held(log_files(root)):
            self.compare_commands(root)

    def compare_commands(self, root: Path) -> None:
        files = log_files(root)
        pairs: dict[str, tuple[list[str], list[str]]] = {
            "contents": (
                ["store", "inspect", "{store}", "--summary"],
                ["pipeline", "run", "traffic", "--store", "{store}"],
            ),
            "Parquet with bodies": (
                [
                    *("store", "export", "{store}", "--out", "{out}/local", "--format"),
                    *("parquet", "--body", "base64"),
                ],
                ["pipeline", "run", "export", "--store", "{store}", "--out", "{out}/spark"],
            ),
        }
        for name, (local, spark) in pairs.items():
            points = []
            for gib in sorted(self.options.gib):
                part = self.folder / f"part{gib:g}"
                shutil.rmtree(part, ignore_errors=True)
                (part / "commitlog").mkdir(parents=True)
                for path in files[: max(1, round(gib * GIB / FILE_BYTES))]:
                    os.link(path, part / "commitlog" / path.name)
                took = [self.command(words, part) for words in (local, spark)]
                points.append((log_bytes(part) / GIB, *took))
                print(
                    f"{name:22} {points[-1][0]:5.2f} GiB   store {took[0]:7.2f} s"
                    f"   pipeline {took[1]:7.2f} s   {took[0] / took[1]:5.2f}x",
                    flush=True,
                )
            print(f"{name:22} {break_even(points)}", flush=True)

    def command(self, words: list[str], part: Path) -> float:
        self.clear()
        self.out.mkdir()
        given = [word.format(store=part, out=self.out) for word in words]
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "mqadmin", *given],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return time.perf_counter() - begin

    def run(self) -> int:
        print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} CPUs")
        print(f"load at the start: {' '.join(f'{one:.1f}' for one in os.getloadavg())}")
        if not self.options.only or set(self.options.only) - {"commands"}:
            for body in self.options.body or [1024, 100]:
                self.one_body(body)
        if self.wanted("commands"):
            self.commands()
        if self.missed:
            print(f"\nmissed: {', '.join(self.missed)}")
        return 1 if self.missed else 0


def break_even(points: list[tuple[float, float, float]]) -> str:
    """Where the two lines through the points (GiB, seconds, seconds) meet."""
    if len(points) < 2:
        return "one size does not predict others"
    sizes = [point[0] for point in points]
    mean = sum(sizes) / len(sizes)
    spread = sum((size - mean) ** 2 for size in sizes)

    def line(at: int) -> tuple[float, float]:
        values = [point[at] for point in points]
        average = sum(values) / len(values)
        rise = sum((s - mean) * (v - average) for s, v in zip(sizes, values, strict=True)) / spread
        return average - rise * mean, rise

    (begin, rise), (spark_begin, spark_rise) = line(1), line(2)
    text = (
        f"store {begin:.1f} s + {rise:.2f} s/GiB, pipeline {spark_begin:.1f} s"
        f" + {spark_rise:.2f} s/GiB: "
    )
    if spark_rise >= rise:
        return text + "on this machine Spark never catches up"
    meet = (spark_begin - begin) / (rise - spark_rise)
    if meet <= sizes[-1]:
        return text + f"they meet at {max(meet, 0):.1f} GiB"
    return text + f"they would meet at {meet:.0f} GiB (extrapolated)"


@contextmanager
def place(folder: str | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mq-bench-pipeline-", dir=folder) as name:
        yield Path(name)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench pipeline", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of a log (default 1024)")
    parser.add_argument(
        "--body", type=int, action="append", help="bytes of a body (default 1024 and 100)"
    )
    parser.add_argument(
        "--gib", type=float, nargs="+", default=[1, 2, 4], help="sizes for whole commands"
    )
    parser.add_argument(
        "--only", action="append", default=[], help="read, parquet, cores, commands"
    )
    parser.add_argument("--dir", help="where to put the logs (default: the temporary folder)")
    options = parser.parse_args()
    with place(options.dir) as folder:
        return Bench(folder, options).run()


if __name__ == "__main__":
    sys.exit(main())
