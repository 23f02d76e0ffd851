"""Creation of the class-data archive, and measurement of its effect."""

import tempfile
import time
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from broker.errors import StoreError
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import encode_record
from broker.store.format.commitlog import file_name
from mqadmin.pipeline.spark.archive import DUMP_LIMIT_S, Archive, archive_path, dump_flags
from mqadmin.pipeline.spark.java import find_java
from mqadmin.pipeline.spark.progress import Notify, Progress, ignore_progress
from mqadmin.pipeline.spark.session import SparkSettings, spark_session

SAMPLE_MESSAGES: Final = 100


def warm_up(notify: Notify = ignore_progress) -> Archive:
    """Create the archive for the installed Java and Spark, replacing an older one.

    Spark is started three times: without the archive, to write it, and with it. StoreError if the
    JVM writes no archive.
    """
    home = find_java()
    path = archive_path(home)
    path.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="mqadmin-warmup-") as scratch:
        store = write_sample_store(Path(scratch) / "store")
        notify(Progress(subject="start without the archive", done=0, total=3))
        before_s = _timed_start(SparkSettings(master="local[2]", archive=False), store, scratch)
        notify(Progress(subject="writing the archive", done=1, total=3))
        flags = dump_flags(home, path)
        settings = SparkSettings(
            master="local[2]", archive=False, flags=flags, stop_limit_s=DUMP_LIMIT_S
        )
        _timed_start(settings, store, scratch)
        if not path.exists():
            raise StoreError(
                f"the JVM wrote no archive: {path}", "-v shows its output", path=str(path)
            )
        notify(Progress(subject="start with the archive", done=2, total=3))
        after_s = _timed_start(SparkSettings(master="local[2]"), store, scratch)
    return Archive(
        path=str(path),
        bytes=path.stat().st_size,
        java=str(home.java),
        java_origin=home.origin,
        start_seconds_before=round(before_s, 2),
        start_seconds_after=round(after_s, 2),
    )


def _timed_start(settings: SparkSettings, store: Path, scratch: str) -> float:
    """Return the seconds from the start of the JVM to the end of the sample job."""
    started = time.monotonic()
    with spark_session(settings) as spark:
        run_sample_job(spark, store, Path(scratch) / "out")
        return time.monotonic() - started


def run_sample_job(spark: SparkSession, store: Path, out: Path) -> None:
    """Use the same features of Spark as the jobs, so that their classes are loaded."""
    messages = spark.read.format("rocketmq-store").load(str(store))
    counted = messages.groupBy("topic").agg(
        F.count("*"), F.sum("size"), F.percentile_approx("size", 0.5), F.max("store_time")
    )
    counted.orderBy("topic").collect()
    counted.write.mode("overwrite").parquet(str(out))
    spark.read.parquet(str(out)).count()


def write_sample_store(root: Path) -> Path:
    """Write a CommitLog with SAMPLE_MESSAGES messages."""
    log = root / "commitlog"
    log.mkdir(parents=True)
    data = bytearray()
    for number in range(SAMPLE_MESSAGES):
        properties = encode_properties({"KEYS": f"k{number}", "TAGS": "t"})
        message = MessageExt(
            f"topic{number % 3}",
            b"%d" % number,
            properties,
            queue_offset=number,
            physical_offset=len(data),
            store_timestamp=1_700_000_000_000 + number,
            born_timestamp=1_700_000_000_000 + number,
            born_host_raw=bytes((127, 0, 0, 1, 0, 0, 0, 1)),
            store_host_raw=bytes((127, 0, 0, 1, 0, 0, 0, 1)),
        )
        data += encode_record(message)
    (log / file_name(0)).write_bytes(bytes(data).ljust(1 << 16, b"\0"))
    return root
